"""Reclaiming space: what is named stays, what is not goes, and a kill or damage costs nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from store.checkpoint import Kind, Label, mark_gc_pending, record_state
from store.errors import StoreBusyError
from store.files import measure_bytes
from store.gc import Caller, Collected, collect
from store.history import trim_history
from store.layout import Layout
from store.objects import ObjectStore
from store.project_store import open_project_store
from tests.support.stores import look, make_layout, take
from tests.support.upkeep import check_with_git, grow_project, history, holder, noise, read_all

pytestmark = pytest.mark.usefixtures("without_flushes")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return make_layout(tmp_path)


def clean(layout: Layout, *, thorough: bool = True, now: float = 5000.0) -> Collected:
    return collect(layout, Caller(holder(layout)), now=now, thorough=thorough)


def trim(layout: Layout, project: object, keep_count: int) -> None:
    commits = history(layout, project)  # type: ignore[arg-type] # a project
    trim_history(layout, commits, keep_count)
    mark_gc_pending(layout)


@pytest.mark.parametrize("thorough", [False, True])
def test_trimmed_checkpoints_are_freed_and_kept_ones_are_as_they_were(
    layout: Layout, tmp_path: Path, thorough: bool
) -> None:
    first = grow_project(layout, tmp_path / "first", count=8)
    second = grow_project(layout, tmp_path / "second", count=3)
    trim(layout, first, 2)
    before = {project: read_all(layout, project) for project in (first, second)}
    size = measure_bytes(layout.store)

    done = clean(layout, thorough=thorough)

    assert not done.failed
    assert not done.problems
    assert done.freed_bytes >= 5 * 20_000
    assert measure_bytes(layout.store) == size - done.freed_bytes
    assert {project: read_all(layout, project) for project in (first, second)} == before
    assert not os.path.exists(layout.gc_pending_file)
    check_with_git(layout)
    assert measure_bytes(layout.store) < 7 * 20_000 + 60_000


def test_a_second_collection_changes_nothing_and_new_checkpoints_go_on(layout: Layout, tmp_path: Path) -> None:
    project = grow_project(layout, tmp_path / "project", count=6)
    trim(layout, project, 3)
    clean(layout)
    packs = sorted(os.listdir(os.path.join(layout.store, "objects", "pack")))
    assert clean(layout).freed_bytes == 0
    assert sorted(os.listdir(os.path.join(layout.store, "objects", "pack"))) == packs
    grow_project(layout, tmp_path / "project", count=3, now=9000.0)
    trim(layout, project, 2)
    kept = read_all(layout, project)
    clean(layout)
    assert read_all(layout, project) == kept
    assert len(kept) == 2
    check_with_git(layout)


def test_the_state_before_an_open_call_stays_for_a_day(layout: Layout, tmp_path: Path) -> None:
    project = grow_project(layout, tmp_path / "project", count=2)
    store = open_project_store(layout, project)
    (tmp_path / "project" / "big.bin").write_bytes(noise(20_000, "call"))
    state = record_state(store, look(store), Label(Kind.TOOL, "call", 6000.0))
    (tmp_path / "project" / "big.bin").write_bytes(noise(20_000, "later"))
    take(store)
    os.makedirs(layout.sessions_directory)
    call = {"states": {project.hash: state.hex()}, "began_at": 6000.0}
    Path(layout.sessions_directory, "s.json").write_text(json.dumps({"open_calls": {"c": call}}))

    clean(layout, now=6000.0 + 86_000)
    objects = ObjectStore(layout.store)
    assert objects.has(objects.read_commit(state).tree)
    clean(layout, now=6000.0 + 87_000)
    assert not ObjectStore(layout.store).has(state)
    check_with_git(layout)


def test_what_a_process_has_in_mind_stays(layout: Layout, tmp_path: Path) -> None:
    project = grow_project(layout, tmp_path / "project", count=1)
    store = open_project_store(layout, project)
    blob = store.objects.write_blob(noise(9000, "mind"))
    collect(layout, Caller(holder(layout), lambda: [blob]), now=5000.0, thorough=True)
    assert ObjectStore(layout.store).read_blob(blob) == noise(9000, "mind")
    clean(layout)
    assert not ObjectStore(layout.store).has(blob)


def test_a_checkpoint_taken_between_two_pieces_keeps_what_was_garbage_before(layout: Layout, tmp_path: Path) -> None:
    root = tmp_path / "project"
    project = grow_project(layout, root, count=5)
    trim(layout, project, 1)
    hold, pieces = holder(layout), 0
    reverted = noise(20_000, ("project", 1, 1000.0))

    def hold_and_work() -> object:
        nonlocal pieces
        pieces += 1
        if pieces == 3:
            with hold():
                (root / "big.bin").write_bytes(reverted)
                take(open_project_store(layout, project), "back to old content", keep_count=5)
        return hold()

    collect(layout, Caller(hold_and_work), now=5000.0, thorough=True)  # type: ignore[arg-type] # a context manager
    assert pieces > 3
    newest = history(layout, project)[0].oid.hex()
    assert read_all(layout, project)[newest][b"big.bin"] == reverted
    check_with_git(layout)


@pytest.mark.parametrize("content", ["", "garbage\n", "12" * 20 + "\n"])
def test_a_broken_ref_is_reported_and_harms_no_other(layout: Layout, tmp_path: Path, content: str) -> None:
    broken = grow_project(layout, tmp_path / "broken", count=2)
    whole = grow_project(layout, tmp_path / "whole", count=6)
    trim(layout, whole, 2)
    kept = read_all(layout, whole)
    ids = [commit.oid for commit in history(layout, broken)]
    os.makedirs(os.path.dirname(layout.statistics_file(broken.hash)), exist_ok=True)
    Path(layout.statistics_file(broken.hash)).write_text(json.dumps({oid.hex(): {} for oid in ids}))
    Path(layout.store, "refs", "hermes", broken.hash).write_text(content)

    done = clean(layout)

    assert not done.failed
    assert done.freed_bytes > 55_000
    assert any(f"refs/hermes/{broken.hash}" in problem for problem in done.problems)
    assert read_all(layout, whole) == kept
    objects = ObjectStore(layout.store)
    assert all(objects.has(objects.read_commit(oid).tree) for oid in ids), "what the list knew is kept for a repair"


def test_debris_of_killed_runs_goes_and_what_is_open_stays(layout: Layout, tmp_path: Path) -> None:
    project = grow_project(layout, tmp_path / "project", count=3)
    pack = Path(layout.store, "objects", "pack")
    old, fresh, held = pack / "tmp_pack_old", pack / "tmp_pack_fresh", pack / "tmp_pack_held"
    for path in (old, fresh, held):
        path.write_bytes(bytes(50_000))
    os.utime(old, (1, 1))
    torn = pack / f"pack-{'0' * 40}.pack"
    torn.write_bytes(bytes(1000))
    lock = Path(layout.store, "refs", "hermes", f"{project.hash}.lock")
    lock.touch()
    with held.open("rb"):
        done = collect(layout, Caller(holder(layout)), now=time.time(), thorough=True)
        assert held.exists()
    assert done.debris_count == 4
    assert done.debris_bytes == 101_000
    assert not any(path.exists() for path in (old, fresh, torn, lock))
    assert len(read_all(layout, project)) == 3


def test_only_one_collection_runs_at_a_time(layout: Layout, tmp_path: Path) -> None:
    grow_project(layout, tmp_path / "project", count=2)
    hold, refused = holder(layout), 0

    def try_another() -> object:
        nonlocal refused
        with pytest.raises(StoreBusyError):
            clean(layout)
        refused += 1
        return hold()

    collect(layout, Caller(try_another), now=5000.0)  # type: ignore[arg-type] # a context manager
    assert refused


def test_with_little_disk_packs_are_rewritten_one_by_one(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = grow_project(layout, tmp_path / "project", count=6)
    clean(layout)
    grow_project(layout, tmp_path / "project", count=6, now=8000.0)
    trim(layout, project, 9)
    kept = read_all(layout, project)
    monkeypatch.setattr("store.gc.find_free_bytes", lambda _: (1 << 20) + 130_000)
    done = clean(layout)
    assert not done.failed
    assert done.freed_bytes >= 35_000
    assert read_all(layout, project) == kept
    check_with_git(layout)


def test_without_any_disk_garbage_goes_all_the_same_and_the_rest_waits(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = grow_project(layout, tmp_path / "project", count=6)
    trim(layout, project, 2)
    kept = read_all(layout, project)
    monkeypatch.setattr("store.gc.find_free_bytes", lambda _: 0)
    done = clean(layout)
    assert done.freed_bytes >= 3 * 20_000
    assert os.path.exists(layout.gc_pending_file)
    assert read_all(layout, project) == kept
    check_with_git(layout)


def test_the_store_stays_a_repository_when_all_is_gone(layout: Layout) -> None:
    ObjectStore(layout.store).write_blob(b"nobody needs me")
    os.rmdir(os.path.join(layout.store, "refs", "heads"))
    clean(layout)
    command = ["git", f"--git-dir={layout.store}", "count-objects"]
    assert subprocess.run(command, capture_output=True, check=True).stdout.startswith(b"0 objects")


def test_a_failed_pack_is_told_and_nothing_is_lost(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = grow_project(layout, tmp_path / "project", count=6)
    trim(layout, project, 2)
    kept = read_all(layout, project)
    monkeypatch.setenv("PATH", str(tmp_path))
    done = clean(layout)
    monkeypatch.undo()
    assert done.failed
    assert os.path.exists(layout.gc_pending_file)
    assert read_all(layout, project) == kept
