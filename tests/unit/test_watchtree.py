"""The watch tree: which number is which directory, and which numbers are given back."""

from __future__ import annotations

from watcher.watchtree import WatchTree


def tree_of(*paths: bytes) -> WatchTree:
    """Place the root as 1 and the paths as 2, 3 and so on."""
    tree = WatchTree()
    for wd, path in enumerate((b"", *paths), 1):
        assert tree.place(wd, path) == []
    return tree


def path_at(tree: WatchTree, wd: int) -> bytes | None:
    directory = tree.at(wd)
    return None if directory is None else directory.path


def test_an_empty_tree_knows_nothing() -> None:
    tree = WatchTree()
    assert len(tree) == 0
    assert tree.at(1) is None
    assert tree.find(b"") is None
    assert tree.find(b"a/b") is None
    assert tree.drop(b"a") == []


def test_a_directory_is_found_by_number_and_by_path() -> None:
    tree = tree_of(b"a", b"a/b")
    assert path_at(tree, 3) == b"a/b"
    found = tree.find(b"a/b")
    assert found is not None
    assert found.wd == 3
    assert found.prefix == b"a/b/"
    assert tree.paths() == {b"", b"a", b"a/b"}


def test_placing_the_same_again_changes_nothing() -> None:
    tree = tree_of(b"a", b"a/b")
    assert tree.place(2, b"a") == []
    assert tree.paths() == {b"", b"a", b"a/b"}


def test_dropping_a_directory_gives_back_all_below_it() -> None:
    tree = tree_of(b"a", b"a/b", b"a/b/c", b"ab")
    assert sorted(tree.drop(b"a")) == [2, 3, 4]
    assert tree.paths() == {b"", b"ab"}
    assert tree.at(3) is None


def test_dropping_below_keeps_the_directory() -> None:
    tree = tree_of(b"a", b"a/b", b"a/b/c")
    directory = tree.find(b"a")
    assert directory is not None
    assert sorted(tree.drop_below(directory)) == [3, 4]
    assert tree.paths() == {b"", b"a"}


def test_another_directory_under_a_known_name_replaces_it_and_all_below() -> None:
    tree = tree_of(b"a", b"a/b")
    assert sorted(tree.place(9, b"a")) == [2, 3]
    assert path_at(tree, 9) == b"a"
    assert tree.paths() == {b"", b"a"}


def test_a_known_number_under_a_new_name_was_moved() -> None:
    tree = tree_of(b"a", b"a/b", b"c")
    assert tree.place(2, b"c/a") == [3]
    assert path_at(tree, 2) == b"c/a"
    assert tree.find(b"a") is None
    assert len(tree) == 3


def test_two_directories_can_swap_their_names() -> None:
    tree = tree_of(b"a", b"b")
    assert tree.place(3, b"a") == [2]
    assert tree.place(4, b"b") == []
    assert (path_at(tree, 3), path_at(tree, 4)) == (b"a", b"b")


def test_a_directory_moved_over_its_own_parent_is_placed() -> None:
    tree = tree_of(b"a", b"a/b")
    assert tree.place(3, b"a") == [2]
    assert tree.paths() == {b"", b"a"}


def test_a_directory_without_a_watched_parent_is_given_back() -> None:
    tree = tree_of(b"a")
    assert not tree.has_parent(b"x/y")
    assert tree.place(9, b"x/y") == [9]
    assert tree.paths() == {b"", b"a"}


def test_a_directory_that_would_go_below_itself_is_given_back() -> None:
    tree = tree_of(b"a", b"a/b")
    assert sorted(tree.place(2, b"a/b/c")) == [2, 3]
    assert tree.paths() == {b""}


def test_what_a_round_did_not_see_is_dropped() -> None:
    tree = tree_of(b"a", b"a/b", b"c", b"c/d")
    tree.begin_round()
    for wd, path in ((1, b""), (2, b"a"), (9, b"e")):
        tree.place(wd, path)
    assert sorted(tree.drop_unseen()) == [3, 4, 5]
    assert tree.paths() == {b"", b"a", b"e"}
