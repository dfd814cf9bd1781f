"""Maintenance that is killed, at any point: nothing that was named is lost, and the next run finishes it."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from store.files import measure_bytes
from store.gc import Caller, collect
from store.layout import Layout
from store.mounts import WorkdirState
from store.prune import Owner, Policy, prune
from tests.fault.test_cut_off import die_in_child, make_project, photo_of
from tests.support.steps import Product, command_environment
from tests.support.stores import make_layout
from tests.support.upkeep import check_with_git, grow_project, history, holder, read_all

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("without_flushes")


class Killed(BaseException):
    """Stands for the end of the process."""


def owner(layout: Layout) -> Owner:
    return Owner(Caller(holder(layout)), lambda *_: WorkdirState.LIVE)


@pytest.mark.parametrize("first", range(1, 60, 3))
def test_a_sweep_that_ends_at_any_change_of_the_disk_breaks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    layout = make_layout(tmp_path)
    stale = grow_project(layout, tmp_path / "stale", count=3, now=1000.0, size_bytes=3000)
    fresh = grow_project(layout, tmp_path / "fresh", count=6, now=1e6, size_bytes=3000)
    before = read_all(layout, fresh)
    cap = measure_bytes(layout.store) - 22_000
    count, real_unlink, real_replace = 0, os.unlink, os.replace

    def tick() -> None:
        nonlocal count
        count += 1
        if count == first:
            raise Killed

    def unlink(path: str, **options: object) -> None:
        tick()
        real_unlink(path, **options)  # type: ignore[arg-type] # passed on

    def replace(old: str, new: str) -> None:
        tick()
        real_replace(old, new)

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", unlink)
        patched.setattr(os, "replace", replace)
        with suppress(Killed):
            prune(layout, owner(layout), Policy(7, cap), now=1e6 + 100)
    left = read_all(layout, fresh)
    assert left
    assert left.items() <= before.items()
    check_with_git(layout)
    pruned = prune(layout, owner(layout), Policy(7, cap), now=1e6 + 100)
    assert not pruned.failed
    assert not history(layout, stale)
    assert not os.path.exists(layout.project_file(stale.hash))
    left = read_all(layout, fresh)
    assert left.items() <= before.items()
    check_with_git(layout)
    assert not [name for name in os.listdir(layout.store) if name.startswith(".gc-pending")]


@pytest.mark.slow
def test_real_kills_of_the_command_leave_a_store_that_git_finds_whole(tmp_path: Path) -> None:
    layout = Layout(
        os.path.join(os.environ["HERMES_HOME"], "checkpoints"), os.environ["HERMES_HOME"] + "/.checkpoints.lock"
    )
    make_layout(tmp_path / "hermes")
    project = grow_project(layout, tmp_path / "project", count=20, now=time.time() - 1000, size_bytes=1_500_000)
    before, chance = read_all(layout, project), random.Random(1)
    kills = 0
    for _ in range(6):
        process = subprocess.Popen(
            [sys.executable, "-m", "watcher.main", "--no-service", "prune", "--max-size-mb", "12"],
            env=command_environment(), cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        try:
            process.wait(0.5 + chance.random() * 1.2)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
        left = read_all(layout, project)
        assert left
        assert left.items() <= before.items()
        check_with_git(layout)
    done = Product(tmp_path, options=["--no-service"]).run("prune", "--max-size-mb", "12")
    assert done.code == 0, done.out + done.err
    assert measure_bytes(layout.store) <= 12 << 20
    assert not [name for name in os.listdir(os.path.join(layout.store, "objects", "pack")) if name.startswith("tmp")]
    assert read_all(layout, project).items() <= before.items()
    check_with_git(layout)
    assert kills
    shutil.rmtree(layout.store)


def test_a_collection_that_is_given_up_ends_soon(tmp_path: Path) -> None:
    layout = make_layout(tmp_path)
    project = grow_project(layout, tmp_path / "project", count=12, size_bytes=1_000_000)
    before = read_all(layout, project)
    started = time.monotonic()
    done = collect(layout, Caller(holder(layout), is_given_up=lambda: True), now=5000.0, thorough=True)
    assert time.monotonic() - started < 20
    assert done.failed is None or "stopped" in done.failed
    assert read_all(layout, project) == before
    check_with_git(layout)


@pytest.mark.parametrize("action", ["resume", "abort"])
def test_a_rollback_that_was_cut_off_can_be_settled_after_its_checkpoints_were_dropped(
    tmp_path: Path, action: str
) -> None:
    product = make_project(tmp_path)
    start = photo_of(product.project)
    assert die_in_child(150, lambda: product.ask("rollback.restore", hash="1", all=True))
    listed = product.ask("rollback.list")
    assert listed["cut_off"] is not None
    target = listed["checkpoints"][-1]["hash"]
    pruned = product.ask("prune", max_size_mb=0.001, retention_days=0.0000001)
    assert pruned["dropped_checkpoints"] == 1
    assert pruned["kept"][0]["reason"] == "a rollback was cut off"
    layout = Layout(os.path.join(os.environ["HERMES_HOME"], "checkpoints"), "")
    assert target not in [each["hash"] for each in product.ask("rollback.list")["checkpoints"]]
    check_with_git(layout)
    assert product.ask("rollback.settle", action=action)["success"]
    assert (photo_of(product.project) == start) == (action == "abort")
    assert (product.project / "d0" / "changed4").read_text() == ("new 4\n" if action == "abort" else "old 4\n")
