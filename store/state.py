"""What a project's files are at one moment: git's tree, and beside it what git has no place for.

Owns the comparing of two such states, and how the second part stands in a checkpoint's note. Trees alone are compared
by `store.tree`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from store.files import to_path
from store.objects import EMPTY_TREE, MODE_TREE, Entry
from store.permissions import Permissions, parent_of
from store.tree import compare, flatten, look_up

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from store.objects import Commit, ObjectStore, Oid


@dataclass(frozen=True, slots=True)
class Node:
    """Say what stands at one path: a file, a link, a nested repository, or a directory by itself."""

    entry: Entry
    """What a tree holds for it; `DIRECTORY` for a directory, whatever is in it."""
    bits: int | None = None
    """Its permission bits; nothing where it has none, or they were not recorded."""

    @property
    def is_directory(self) -> bool:
        """Tell whether it is a directory."""
        return self.entry == DIRECTORY

    @property
    def is_gitlink(self) -> bool:
        """Tell whether it is a nested repository."""
        return self.entry.is_gitlink

    def is_as(self, other: Node | None) -> bool:
        """Tell whether it is the same, as far as both know."""
        return (
            other is not None
            and self.entry == other.entry
            and (self.bits is None or other.bits is None or self.bits == other.bits)
        )


DIRECTORY = Entry(MODE_TREE, EMPTY_TREE)
"""What stands for a directory by itself."""


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


@lru_cache(maxsize=16)
def lead_to(directories: frozenset[bytes]) -> frozenset[bytes]:
    """Return some directories, and every one above them but the project itself."""
    found: set[bytes] = set()
    for directory in directories:
        above = directory
        while above and above not in found:
            found.add(above)
            above = parent_of(above)
    return frozenset(found)


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
    return State(commit.tree, parse_permissions(commit.note.get("modes")), parse_paths(commit.note.get("empty_dirs")))


def parse_permissions(raw: object) -> Permissions | None:
    """Return the permission bits that JSON tells of."""
    if not isinstance(raw, dict) or (root := _parse_bits(raw.get(""))) is None:
        return None
    found = {to_path(name): _parse_bits(bits) for name, bits in raw.items() if name}
    unusual = {path: bits for path, bits in found.items() if path is not None and bits is not None}
    return Permissions(root, unusual) if len(unusual) == len(raw) - 1 else None


def format_permissions(permissions: Permissions) -> Mapping[str, str]:
    """Return permission bits as JSON, the project's own under the empty name."""
    modes = {b"": permissions.root} | dict(permissions.unusual)
    return {os.fsdecode(path): f"{bits:04o}" for path, bits in sorted(modes.items())}


def parse_paths(raw: object) -> frozenset[bytes] | None:
    """Return the paths that JSON lists; nothing if it lists anything else."""
    if not isinstance(raw, list):
        return None
    found = [path for name in raw if (path := to_path(name)) is not None]
    return frozenset(found) if len(found) == len(raw) else None


def _parse_bits(value: object) -> int | None:
    """Return permission bits written in octal digits."""
    if not isinstance(value, str) or not 1 <= len(value) <= 5 or not set(value) <= set("01234567"):
        return None
    bits = int(value, 8)
    return bits if bits <= 0o7777 else None
