"""Splice changes into a tree, and compare trees: cost follows the change, not the project.

Owns the arithmetic on tree objects. A path is bytes relative to the project, `/` between names, no leading or
trailing `/`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from store.entries import EMPTY_TREE, MODE_TREE, Entry, Oid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from store.objects import ObjectStore, Tree

Changes = dict[bytes, Entry | None]
"""What stands at each changed path now; nothing means that the path is gone."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Say that one path holds something else in two trees."""

    path: bytes
    old: Entry | None
    """What the first tree has there, never a directory."""
    new: Entry | None
    """What the second tree has there, never a directory."""


def splice(objects: ObjectStore, base: Oid, changes: Mapping[bytes, Entry | None]) -> Oid:
    """Return the tree that is `base` with some paths changed.

    Each touched directory is read once and written once. A path that becomes a file replaces a directory of that
    name, and the other way round; directories left empty go.

    Raises:
        ObjectMissingError: A tree of `base` is not in the store.
    """
    return _splice_directory(objects, base, dict(changes)) or EMPTY_TREE if changes else base


def _splice_directory(objects: ObjectStore, base: Oid | None, changes: Changes) -> Oid | None:
    tree = {} if base is None else dict(objects.read_tree(base))
    below: defaultdict[bytes, Changes] = defaultdict(dict)
    for path, entry in changes.items():
        name, slash, rest = path.partition(b"/")
        if slash:
            below[name][rest] = entry
        elif entry is not None:
            tree[name] = entry
        elif name in tree:
            del tree[name]
    for name, inner in below.items():
        _splice_child(objects, tree, name, inner)
    if not tree:
        return None
    return objects.write_tree(tree)


def _splice_child(objects: ObjectStore, tree: Tree, name: bytes, changes: Changes) -> None:
    standing = tree.get(name)
    directory = standing.oid if standing is not None and standing.is_tree else None
    if directory is None and all(entry is None for entry in changes.values()):
        return
    spliced = _splice_directory(objects, directory, changes)
    if spliced is not None:
        tree[name] = Entry(MODE_TREE, spliced)
    elif standing is not None:
        del tree[name]


def compare(objects: ObjectStore, old: Oid, new: Oid, prefix: bytes = b"") -> Iterator[Difference]:
    """Yield every path at which two trees differ; equal directories are not read."""
    if old == new:
        return
    before, after = objects.read_tree(old), objects.read_tree(new)
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name), after.get(name)
        if was == now:
            continue
        path = prefix + name
        was_tree = was.oid if was is not None and was.is_tree else EMPTY_TREE
        now_tree = now.oid if now is not None and now.is_tree else EMPTY_TREE
        was_leaf = None if was is None or was.is_tree else was
        now_leaf = None if now is None or now.is_tree else now
        if was_leaf is not None or now_leaf is not None:
            yield Difference(path, was_leaf, now_leaf)
        yield from compare(objects, was_tree, now_tree, path + b"/")


def flatten(objects: ObjectStore, tree: Oid, prefix: bytes = b"") -> dict[bytes, Entry]:
    """Return everything in a tree that is not a directory, by path."""
    return {
        difference.path: difference.new
        for difference in compare(objects, EMPTY_TREE, tree, prefix)
        if difference.new is not None
    }


def look_up(objects: ObjectStore, tree: Oid, path: bytes) -> Entry | None:
    """Return what stands at a path, a directory included; nothing when the path is not in the tree."""
    entry: Entry | None = Entry(MODE_TREE, tree)
    for name in path.split(b"/") if path else ():
        if entry is None or not entry.is_tree:
            return None
        entry = objects.read_tree(entry.oid).get(name)
    return entry


def find_gitlinks(objects: ObjectStore, tree: Oid, prefix: bytes = b"") -> list[bytes]:
    """Return the path of every nested repository recorded in a tree, in order."""
    return [path for path, entry in sorted(flatten(objects, tree, prefix).items()) if entry.is_gitlink]
