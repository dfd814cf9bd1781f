"""Splicing and comparing trees, against a dictionary of paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from store.entries import EMPTY_TREE, MODE_EXECUTABLE, MODE_FILE, Entry
from store.objects import ObjectStore, format_tree, parse_tree
from store.tree import Difference, compare, flatten, look_up, splice
from tests.support.stores import make_objects

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def objects(tmp_path: Path) -> ObjectStore:
    return make_objects(tmp_path)


def blob(objects: ObjectStore, content: bytes, mode: bytes = MODE_FILE) -> Entry:
    return Entry(mode, objects.write_blob(content))


def test_directories_sort_as_if_their_names_ended_in_a_slash(objects: ObjectStore) -> None:
    one = blob(objects, b"1")
    tree = objects.read_tree(splice(objects, EMPTY_TREE, {b"a/x": one, b"a.txt": one, b"a-b": one, b"a0": one}))
    assert list(parse_tree(format_tree(tree))) == [b"a-b", b"a.txt", b"a", b"a0"]


def test_a_tree_reads_back_as_it_was_written(objects: ObjectStore) -> None:
    tree = {b"name \n\xff": blob(objects, b"x"), b"-rf": blob(objects, b"y", MODE_EXECUTABLE)}
    assert parse_tree(format_tree(tree)) == tree


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({b"a": b"2"}, {b"a": b"2", b"d/b": b"1", b"d/e/c": b"1"}),
        ({b"d/e/c": None}, {b"a": b"1", b"d/b": b"1"}),
        ({b"d": None}, {b"a": b"1"}),
        ({b"d": b"file"}, {b"a": b"1", b"d": b"file"}),
        ({b"a/x": b"below"}, {b"a/x": b"below", b"d/b": b"1", b"d/e/c": b"1"}),
        ({b"d": b"file", b"d/b": None, b"d/e/c": None}, {b"a": b"1", b"d": b"file"}),
        ({b"a": None, b"a/x": b"below"}, {b"a/x": b"below", b"d/b": b"1", b"d/e/c": b"1"}),
        ({b"nowhere/at/all": None}, {b"a": b"1", b"d/b": b"1", b"d/e/c": b"1"}),
        ({b"a": None, b"d/b": None, b"d/e/c": None}, {}),
    ],
)
def test_a_spliced_tree_holds_exactly_the_changed_paths(
    objects: ObjectStore, changes: dict[bytes, bytes | None], expected: dict[bytes, bytes]
) -> None:
    start = {b"a": blob(objects, b"1"), b"d/b": blob(objects, b"1"), b"d/e/c": blob(objects, b"1")}
    base = splice(objects, EMPTY_TREE, start)
    entries = {path: None if content is None else blob(objects, content) for path, content in changes.items()}
    after = splice(objects, base, entries)
    assert {path: objects.read_blob(entry.oid) for path, entry in flatten(objects, after).items()} == expected
    from_scratch = splice(objects, EMPTY_TREE, {path: blob(objects, content) for path, content in expected.items()})
    assert after == from_scratch


def test_comparing_names_each_path_that_differs_and_no_other(objects: ObjectStore) -> None:
    one, two = blob(objects, b"1"), blob(objects, b"2")
    old = splice(objects, EMPTY_TREE, {b"same/x": one, b"gone": one, b"changed": one, b"file": one, b"dir/x": one})
    new = splice(objects, EMPTY_TREE, {b"same/x": one, b"new": one, b"changed": two, b"file/x": one, b"dir": one})
    assert list(compare(objects, old, new)) == [
        Difference(b"changed", one, two),
        Difference(b"dir", None, one),
        Difference(b"dir/x", one, None),
        Difference(b"file", one, None),
        Difference(b"file/x", None, one),
        Difference(b"gone", one, None),
        Difference(b"new", None, one),
    ]


def test_equal_trees_are_not_read(objects: ObjectStore) -> None:
    missing = type(EMPTY_TREE)(bytes(20))
    assert list(compare(objects, missing, missing)) == []


def test_looking_up_finds_files_and_directories_and_nothing_else(objects: ObjectStore) -> None:
    one = blob(objects, b"1")
    tree = splice(objects, EMPTY_TREE, {b"d/e/c": one})
    found = look_up(objects, tree, b"d/e")
    assert look_up(objects, tree, b"d/e/c") == one
    assert found is not None
    assert found.is_tree
    assert look_up(objects, tree, b"d/x") is None
    assert look_up(objects, tree, b"d/e/c/deeper") is None
