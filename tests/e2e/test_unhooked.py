"""Changes that nobody announced: the state before them is kept, apart from the agent's checkpoints."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.steps import Product, serving
from tests.support.workdir import git, make_project, photograph, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_GAP_S = 1.0


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    home = tmp_path / "home"
    write(
        home / "config.yaml",
        f"checkpoints:\n  max_snapshots: 3\n  watch: {{quiet_ms: 50, idle_gap_s: {_GAP_S}, max_wait_s: 2}}\n",
    )
    product = Product(make_project(tmp_path / "project"), ["--home", str(home)])
    with serving(product):
        assert product.run("watch", "add").code == 0
        yield product


def list_checkpoints(product: Product) -> list[dict[str, Any]]:
    listed = product.run("--json", "rollback").json["checkpoints"]
    assert isinstance(listed, list)
    return listed


def wait_for_checkpoints(product: Product, count: int) -> list[dict[str, Any]]:
    until = time.monotonic() + 20
    while len(listed := list_checkpoints(product)) < count:
        assert time.monotonic() < until, listed
        time.sleep(0.05)
    return listed


def pause() -> None:
    time.sleep(_GAP_S + 0.8)


def test_the_state_before_each_burst_is_kept_and_can_be_restored(product: Product) -> None:
    write(product.project / "a.py", "by hand, one\n")
    pause()
    first = photograph(product.project)
    write(product.project / "a.py", "by hand, two\n")
    write(product.project / "fresh.py", "new\n")
    listed = wait_for_checkpoints(product, 2)
    assert [(each["kind"], each["message"]) for each in listed] == [
        ("unhooked", "before unhooked change: a.py, fresh.py"),
        ("manual", "first checkpoint"),
    ]
    assert product.run("--json", "rollback", "1", "--all", "--yes").json["success"]
    assert photograph(product.project) == first


def test_a_burst_has_one_checkpoint(product: Product) -> None:
    write(product.project / "a.py", "0\n")
    pause()
    for number in range(1, 12):
        write(product.project / "a.py", f"{number}\n")
        time.sleep(0.15)
    pause()
    write(product.project / "a.py", "last\n")
    listed = wait_for_checkpoints(product, 3)
    assert len(listed) == 3
    assert "+11" in product.run("rollback", "diff", "2").out or "-0" in product.run("rollback", "diff", "2").out


def test_saves_never_push_an_agents_checkpoints_out(product: Product) -> None:
    product.agent_writes("a.py", "by the agent\n", turn="t1")
    product.event("turn_end", turn="t1")
    pause()
    for number in range(6):
        write(product.project / "notes.md", f"{number}\n")
        pause()
    kinds = [each["kind"] for each in list_checkpoints(product)]
    assert kinds.count("unhooked") == 3
    assert kinds.count("manual") == 1
    assert product.run("rollback", str(len(kinds))).code == 0
    assert (product.project / "a.py").read_text() == "one\n"
    assert (product.project / "notes.md").read_text() == "5\n"


def test_what_an_agents_turn_changes_is_not_unhooked(product: Product) -> None:
    product.agent_writes("a.py", "by the agent\n", turn="t1")
    write(product.project / "built.txt", "by its formatter\n")
    pause()
    product.agent_writes("a.py", "again\n", turn="t1")
    product.event("turn_end", turn="t1")
    pause()
    assert "unhooked" not in [each["kind"] for each in list_checkpoints(product)]


def test_a_busy_log_does_not_fill_the_store_nor_hide_a_change(product: Product, tmp_path: Path) -> None:
    log = product.project / "busy.txt"
    until = time.monotonic() + 12
    count = 0
    while time.monotonic() < until:
        with log.open("a") as file:
            file.write(f"{count}\n" * 100)
        count += 1
        time.sleep(0.1)
        if count == 90:
            write(product.project / "a.py", "by hand\n")
    store = tmp_path / "home" / "checkpoints" / "store"
    blobs = git(store, "cat-file", "--batch-all-objects", "--batch-check=%(objecttype)").count("blob")
    assert blobs < 25
    assert "before unhooked change: a.py, busy.txt" in [each["message"] for each in list_checkpoints(product)]
