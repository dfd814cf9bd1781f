"""The dirty set: what it keeps, how it is bounded, and that nothing noted is lost."""

from __future__ import annotations

import threading

import pytest

from watcher import dirty as module
from watcher.dirty import Dirty, DirtySet


def test_a_new_set_is_empty() -> None:
    assert DirtySet().take().is_empty
    assert DirtySet().peek().is_empty


def test_a_set_begins_with_the_callers_reason_to_scan() -> None:
    dirty = DirtySet("service started")
    assert dirty.take() == Dirty(frozenset(), frozenset(), "service started")
    assert dirty.take().is_empty


def test_taking_returns_what_was_noted_once() -> None:
    dirty = DirtySet()
    dirty.add_path(b"src/a.py")
    dirty.add_path(b"src/a.py")
    dirty.add_tree(b"docs")
    assert dirty.take() == Dirty(frozenset({b"src/a.py"}), frozenset({b"docs"}), None)
    assert dirty.take().is_empty


def test_the_workdir_as_a_tree_is_a_scan() -> None:
    dirty = DirtySet()
    dirty.add_path(b"a")
    dirty.add_tree(b"")
    assert dirty.take() == Dirty(frozenset(), frozenset(), "the whole directory changed")


def test_the_first_reason_to_scan_is_kept() -> None:
    dirty = DirtySet()
    dirty.need_scan("events were lost")
    dirty.need_scan("the watch began")
    assert dirty.take().scan_reason == "events were lost"


def test_a_reason_to_scan_leaves_the_paths_in_place() -> None:
    dirty = DirtySet("service started")
    dirty.add_path(b"a")
    assert dirty.take() == Dirty(frozenset({b"a"}), frozenset(), "service started")


def test_what_is_put_back_joins_what_came_since() -> None:
    dirty = DirtySet()
    dirty.add_path(b"a")
    dirty.need_scan("events were lost")
    taken = dirty.take()
    dirty.add_path(b"b")
    dirty.add_tree(b"t")
    dirty.put_back(taken)
    assert dirty.take() == Dirty(frozenset({b"a", b"b"}), frozenset({b"t"}), "events were lost")


def test_peeking_counts_and_takes_nothing() -> None:
    dirty = DirtySet()
    dirty.add_path(b"a")
    dirty.add_tree(b"t")
    counts = dirty.peek()
    assert (counts.path_count, counts.tree_count, counts.scan_reason) == (1, 1, None)
    assert not counts.is_empty
    assert not dirty.take().is_empty


def test_too_many_paths_are_kept_as_their_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATH_LIMIT", 4)
    dirty = DirtySet()
    for name in (b"a/1", b"a/2", b"a/b/3", b"c/4", b"c/5"):
        dirty.add_path(name)
    assert dirty.take() == Dirty(frozenset(), frozenset({b"a", b"a/b", b"c"}), None)


def test_too_many_paths_with_one_at_the_top_are_a_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATH_LIMIT", 2)
    dirty = DirtySet()
    for name in (b"a/1", b"a/2", b"top"):
        dirty.add_path(name)
    assert dirty.take() == Dirty(frozenset(), frozenset(), "the whole directory changed")


def test_too_many_trees_are_a_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TREE_LIMIT", 3)
    dirty = DirtySet()
    for name in (b"a", b"b", b"c", b"d"):
        dirty.add_tree(name)
    assert dirty.take() == Dirty(frozenset(), frozenset(), "too many directories changed")


def test_putting_back_keeps_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATH_LIMIT", 3)
    dirty = DirtySet()
    dirty.add_path(b"x/1")
    dirty.add_path(b"x/2")
    dirty.put_back(Dirty(frozenset({b"y/1", b"y/2"}), frozenset(), None))
    assert dirty.take() == Dirty(frozenset(), frozenset({b"x", b"y"}), None)


def test_nothing_is_lost_between_threads_that_add_and_one_that_takes() -> None:
    dirty = DirtySet()

    def write(start: int) -> None:
        for number in range(start, start + 5_000):
            dirty.add_path(b"%d" % number)

    writers = [threading.Thread(target=write, args=(start,)) for start in (0, 5_000, 10_000)]
    for writer in writers:
        writer.start()
    seen: set[bytes] = set()
    while any(writer.is_alive() for writer in writers):
        seen |= dirty.take().paths
    for writer in writers:
        writer.join()
    seen |= dirty.take().paths
    assert seen == {b"%d" % n for n in range(15_000)}
