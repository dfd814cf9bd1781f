"""Histories: listed newest first, found by number or id, trimmed without changing an id."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from store.checkpoint import Kind, Label, take_checkpoint
from store.entries import Oid
from store.errors import CheckpointNotFoundError, SelectionError, StoreError
from store.history import list_history, read_shallow, resolve_checkpoint, trim_history
from store.layout import tip_ref
from store.objects import Commit
from tests.support.stores import look, open_store, take
from tests.support.workdir import write

if TYPE_CHECKING:
    from store.project_store import ProjectStore


@pytest.fixture
def store(tmp_path: Path) -> ProjectStore:
    write(tmp_path / "project" / "a.py", "0\n")
    return open_store(tmp_path, tmp_path / "project")


def take_several(store: ProjectStore, count: int, *, keep_count: int = 20) -> list[Commit]:
    """Take checkpoints of different content, and return them in the order they were taken."""
    taken = []
    for number in range(count):
        write(Path(store.project.workdir) / "a.py", f"{store.project.hash} {number}\n")
        taken.append(take(store, f"number {number}", keep_count=keep_count).checkpoint)
    return taken


def object_file(store: ProjectStore, oid: Oid) -> Path:
    return Path(store.layout.store) / "objects" / oid.hex()[:2] / oid.hex()[2:]


def commit_with_id(oid: str) -> Commit:
    return Commit(Oid(bytes.fromhex(oid)), Oid(bytes(20)), None, 0, 0, "")


def test_a_project_without_checkpoints_has_an_empty_history(store: ProjectStore) -> None:
    assert list_history(store) == []


def test_the_newest_checkpoint_comes_first(store: ProjectStore) -> None:
    taken = take_several(store, 4)
    assert list_history(store) == taken[::-1]


def test_order_is_that_of_taking_and_not_of_the_clock(store: ProjectStore) -> None:
    for number, now in enumerate([9_000.0, 5_400.0, 9_001.0, 100.0]):
        write(Path(store.project.workdir) / "a.py", f"{number}\n")
        take(store, str(number), now=now)
    assert [commit.subject for commit in list_history(store)] == ["3", "2", "1", "0"]


def test_a_history_whose_older_part_is_lost_ends_there(store: ProjectStore) -> None:
    taken = take_several(store, 4)
    object_file(store, taken[1].oid).unlink()
    fresh = open_store(Path(store.layout.base).parent, Path(store.project.workdir))
    assert list_history(fresh) == [taken[3], taken[2]]


def test_a_trim_keeps_the_newest_with_their_ids(store: ProjectStore) -> None:
    taken = take_several(store, 7, keep_count=3)
    assert list_history(store) == taken[:3:-1]
    assert read_shallow(store.layout) == {taken[4].oid}


def test_a_trim_tells_what_is_gone_newest_first(store: ProjectStore) -> None:
    newest_first = take_several(store, 5)[::-1]
    assert trim_history(store.layout, newest_first, 2) == newest_first[2:]
    assert list_history(store) == newest_first[:2]
    assert trim_history(store.layout, list_history(store), 2) == []


@pytest.mark.parametrize("keep_count", [3, 4, 100])
def test_a_history_that_is_short_enough_is_not_touched(store: ProjectStore, keep_count: int) -> None:
    taken = take_several(store, 3)
    assert trim_history(store.layout, list_history(store), keep_count) == []
    assert not os.path.exists(store.layout.shallow_file)
    assert len(list_history(store)) == len(taken)


def test_an_empty_history_is_trimmed_to_nothing(store: ProjectStore) -> None:
    assert trim_history(store.layout, [], 5) == []


def test_trimming_one_project_leaves_the_cut_of_another(store: ProjectStore, tmp_path: Path) -> None:
    write(tmp_path / "other" / "a.py", "0\n")
    other = open_store(tmp_path, tmp_path / "other")
    ours = take_several(store, 4, keep_count=2)
    theirs = take_several(other, 5, keep_count=3)
    more = take_several(store, 2, keep_count=2)
    assert list_history(other) == theirs[:1:-1]
    assert list_history(store) == more[::-1]
    assert read_shallow(store.layout) == {theirs[2].oid, more[0].oid}
    assert ours[0].oid not in read_shallow(store.layout)


def test_a_trim_forgets_what_git_cached_of_the_uncut_history(store: ProjectStore) -> None:
    graph, chain = (Path(path) for path in store.layout.commit_graphs)
    take_several(store, 3)
    graph.write_bytes(b"CGPH")
    chain.mkdir()
    trim_history(store.layout, list_history(store), 1)
    assert not graph.exists()
    assert not chain.exists()


@pytest.mark.parametrize("damage", [b"\0" * 41, b"z" * 40 + b"\n", b"\xff" * 40 + b"\n", b"short\n", b""], ids=range(5))
def test_a_damaged_cut_hides_no_checkpoint_or_is_reported(store: ProjectStore, damage: bytes) -> None:
    taken = take_several(store, 3)
    Path(store.layout.shallow_file).write_bytes(damage)
    try:
        fresh = open_store(Path(store.layout.base).parent, Path(store.project.workdir))
        listed = list_history(fresh)
    except StoreError:
        return
    assert listed == taken[::-1]


def test_an_unchanged_project_gets_no_second_checkpoint(store: ProjectStore) -> None:
    first = take(store)
    again = take(store)
    assert (first.is_new, again.is_new) == (True, False)
    assert again.checkpoint == first.checkpoint


def test_a_checkpoint_can_be_asked_for_though_nothing_changed(store: ProjectStore) -> None:
    first = take(store)
    label = Label(Kind.SAFETY, "again", 1.0)
    again = take_checkpoint(store, look(store), label, keep_count=20, even_if_unchanged=True)
    assert again.is_new
    assert again.checkpoint.tree == first.checkpoint.tree
    assert again.checkpoint.parent == first.checkpoint.oid


def test_a_tip_that_another_program_moved_is_not_overwritten(store: ProjectStore) -> None:
    taken = take_several(store, 2)
    ref = tip_ref(store.project.hash)
    with pytest.raises(Exception, match="moved by another program"):
        store.objects.move_ref(ref, old=taken[0].oid, new=taken[0].oid)
    assert store.objects.read_ref(ref) == taken[1].oid


_LISTED = [
    commit_with_id("abcd" + "1" * 36),
    commit_with_id("abcd" + "2" * 36),
    commit_with_id("1234" + "0" * 36),
    commit_with_id("0002" + "f" * 36),
]


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ("1", 0), ("4", 3), ("0002", 1), ("abcd1", 0), ("ABCD2", 1), ("1234", 2), ("0002f", 3), ("01", 0),
        ("abcd" + "1" * 36, 0), ("000000003", 2),
    ],
)  # fmt: skip
def test_a_number_of_the_list_or_a_unique_id_finds_its_checkpoint(given: str, place: int) -> None:
    assert resolve_checkpoint(_LISTED, given) is _LISTED[place]


@pytest.mark.parametrize("given", ["0", "5", "999", "5678", "9" * 9, "9" * 40, "beef", "f" * 40])
def test_what_names_no_checkpoint_is_not_found(given: str) -> None:
    with pytest.raises(CheckpointNotFoundError):
        resolve_checkpoint(_LISTED, given)


@pytest.mark.parametrize(
    "given",
    [
        "", " ", "-1", "--help", "-p", "HEAD", "refs/heads/x", "abc", "abcd", "f" * 41, "f" * 4000, "1 ", "1\n", "+1",
        "abcd1\n", "HEAD~1", "abcd1^{tree}", "1.0", "\uff11", "\u0661", "\0", "\ud800", "@", "abcd1:a.py",
    ],
)  # fmt: skip
def test_what_is_neither_a_number_nor_an_id_is_refused_as_written(given: str) -> None:
    with pytest.raises(SelectionError) as caught:
        resolve_checkpoint(_LISTED, given)
    assert caught.value.exit_code == 2
    assert len(caught.value.message) < 200


def test_without_checkpoints_nothing_is_found_and_that_is_said() -> None:
    with pytest.raises(CheckpointNotFoundError, match="No checkpoints exist"):
        resolve_checkpoint([], "1")
