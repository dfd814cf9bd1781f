"""What a project's files are at one moment: git's tree, and beside it what git has no place for.

Owns the comparing of two such states, and how the second part stands in a checkpoint's note. Trees alone are compared
by `store.tree`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from store.entries import DIRECTORY, Entry, Node
from store.files import to_paths
from store.pathname import lead_to
from store.permissions import Permissions, format_permissions, parse_permissions
from store.tree import compare, flatten, look_up

if TYPE_CHECKING:
    from collections.abc import Iterable

    from store.entries import Oid
    from store.objects import Commit, ObjectStore


@dataclass(frozen=True, slots=True)
class State:
    """Hold what a project's files are at one moment."""

    tree: Oid
    permissions: Permissions | None = None
    """Nothing where they were not recorded."""
    empty_directories: frozenset[bytes] | None = None
    """Directories in which nothing counts; nothing where they were not recorded."""

    def find(self, objects: ObjectStore, path: bytes) -> Node | None:
        """Return what stands at a path; nothing when nothing does, or it does not count."""
        entry = look_up(objects, self.tree, path)
        if entry is None and path not in lead_to(self.empty_directories or frozenset()):
            return None
        return self._node(path, DIRECTORY if entry is None or entry.is_tree else entry)

    def has_directory(self, objects: ObjectStore, path: bytes) -> bool:
        """Tell whether there is a directory at a path."""
        node = self.find(objects, path)
        return node is not None and node.is_directory

    def drop_filled(self, path: bytes, node: Node | None) -> Node | None:
        """Return what stands at a path, nothing for a directory that holds something."""
        is_filled = node is not None and node.is_directory and path not in (self.empty_directories or ())
        return None if is_filled else node

    def _node(self, path: bytes, entry: Entry) -> Node:
        return Node(entry, self.permissions.find(path, entry.mode) if self.permissions is not None else None)


@dataclass(frozen=True, slots=True)
class Change:
    """Say that one path holds something else in two states."""

    path: bytes
    old: Node | None
    new: Node | None


def compare_states(objects: ObjectStore, old: State, new: State) -> list[Change]:
    """Return every path at which two states differ, in order.

    What one of them has no record of is not compared. A directory that holds something counts only for its bits.
    """
    paths = {difference.path for difference in compare(objects, old.tree, new.tree)}
    if old.empty_directories is not None and new.empty_directories is not None:
        paths |= old.empty_directories ^ new.empty_directories
    if old.permissions is not None and new.permissions is not None:
        paths |= _find_differing_bits(objects, old, new, old.permissions.list_differing(new.permissions))
    changes = [compare_at(objects, old, new, path) for path in sorted(paths)]
    return [change for change in changes if not _are_same(change.old, change.new)]


def compare_at(objects: ObjectStore, old: State, new: State, path: bytes) -> Change:
    """Return what stands at a path in two states; a directory that holds something comes and goes with that."""
    before, after = old.find(objects, path), new.find(objects, path)
    if before is not None and after is not None and before.is_directory and after.is_directory:
        return Change(path, before, after)
    return Change(path, old.drop_filled(path, before), new.drop_filled(path, after))


def _are_same(old: Node | None, new: Node | None) -> bool:
    return old is None if new is None else new.is_as(old)


def _find_differing_bits(objects: ObjectStore, old: State, new: State, topmost: Iterable[bytes]) -> set[bytes]:
    """Return the paths that may have other bits in two states, among those that both have."""
    found: set[bytes] = set()
    for path in topmost:
        found |= {path} - {b""}
        if old.has_directory(objects, path) and new.has_directory(objects, path):
            found |= _list_below(objects, new, path)
    return {path for path in found if old.find(objects, path) is not None and new.find(objects, path) is not None}


def _list_below(objects: ObjectStore, state: State, directory: bytes) -> set[bytes]:
    """Return every file and directory below a directory."""
    prefix = directory + b"/" if directory else b""
    entry = look_up(objects, state.tree, directory)
    leaves = set(flatten(objects, entry.oid, prefix)) if entry is not None and entry.is_tree else set()
    leaves |= {path for path in state.empty_directories or () if path.startswith(prefix)}
    return {path for path in lead_to(frozenset(leaves)) if path.startswith(prefix)}


STATE_FIELDS = ("modes", "empty_dirs")
"""What a note says of a state."""


def format_state(state: State) -> dict[str, object]:
    """Return what a checkpoint's note says of its state beside the tree."""
    raw: dict[str, object] = {}
    if state.permissions is not None:
        raw["modes"] = format_permissions(state.permissions)
    if state.empty_directories is not None:
        raw["empty_dirs"] = [os.fsdecode(path) for path in sorted(state.empty_directories)]
    return raw


def state_of(commit: Commit) -> State:
    """Return the state that a checkpoint holds; what its note does not tell is not known."""
    return State(commit.tree, parse_permissions(commit.note.get("modes")), to_paths(commit.note.get("empty_dirs")))
