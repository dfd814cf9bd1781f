"""What can be reached: the closure of commits, trees and blobs below some roots.

Owns the walk. It grows: what was found stays, so that a root that is added costs only what is new below it. It reads no
file's content, stops at what is missing and names the root, and hands the interpreter over now and then, since hooks
are answered by the same process.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from store.entries import EMPTY_TREE, MODE_GITLINK, MODE_TREE, Oid
from store.errors import ObjectMissingError
from store.objects import parse_commit, parse_tree

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from store.objects import ObjectStore

_WORK_S = 0.001
_PAUSE_S = 0.0005
"""So long others of this process get the interpreter after each bit of work; unasked, it is handed over in 5 ms."""


@dataclass(slots=True)
class Growth:
    """Say what came of looking below some roots."""

    added: list[bytes] = field(default_factory=list)
    """What was not known before."""
    missing: list[bytes] = field(default_factory=list)
    """What is not in the store though it is named."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Say how much room checkpoints take."""

    kept_bytes: int
    """What stays in any case."""
    freed: list[int]
    """What each further drop frees, in bytes."""


class Reached:
    """Hold the ids of everything found so far."""

    def __init__(self) -> None:
        self._cut: Collection[Oid] = ()
        self._paused_at = time.monotonic()
        self.oids: set[bytes] = set()
        self.names: dict[bytes, bytes] = {}
        """The name that a tree or blob has in its directory, by which git finds similar content."""

    def cut_at(self, cut: Collection[Oid]) -> None:
        """Set the commits whose parents are not followed from now on."""
        self._cut = cut

    def grow(self, objects: ObjectStore, roots: Iterable[Oid], *, follow_parents: bool = True) -> Growth:
        """Add everything below some roots.

        Args:
            objects: The store, opened after the roots were written.
            roots: Ids of any kind.
            follow_parents: Whether what came before a commit belongs to it.
        """
        growth = Growth()
        waiting: list[bytes] = [*roots]
        while waiting:
            oid = waiting.pop()
            if oid in self.oids:
                continue
            self._pause()
            try:
                kind, content = objects.read_raw(Oid(oid))
            except ObjectMissingError:
                if oid != EMPTY_TREE:
                    growth.missing.append(oid)
                continue
            self._add(oid, growth)
            if kind == "commit":
                commit = parse_commit(Oid(oid), content)
                waiting.append(commit.tree)
                if follow_parents and commit.parent is not None and oid not in self._cut:
                    waiting.append(commit.parent)
            elif kind == "tree":
                waiting += self._look_in(objects, content, growth)
        return growth

    def _add(self, oid: bytes, growth: Growth) -> None:
        self.oids.add(oid)
        growth.added.append(oid)

    def _look_in(self, objects: ObjectStore, content: bytes, growth: Growth) -> list[bytes]:
        """Add the files of a directory, and return the directories in it."""
        below: list[bytes] = []
        for name, entry in parse_tree(content).items():
            if entry.mode == MODE_GITLINK or entry.oid in self.oids:
                continue
            self.names[entry.oid] = name
            if entry.mode == MODE_TREE:
                below.append(entry.oid)
            elif objects.has(entry.oid):
                self._add(entry.oid, growth)
            else:
                growth.missing.append(entry.oid)
        return below

    def _pause(self) -> None:
        if time.monotonic() - self._paused_at > _WORK_S:
            time.sleep(_PAUSE_S)
            self._paused_at = time.monotonic()


def measure_drops(
    objects: ObjectStore, kept: Iterable[Oid], drops: Sequence[Oid], sizes: Mapping[bytes, int]
) -> Measured:
    """Measure what each of a series of checkpoints frees when it is dropped after those before it.

    It is found from the end: what each one adds to all that is kept longer.

    Args:
        objects: The store.
        kept: Roots that are not going to be dropped; their parents do not count.
        drops: The checkpoints, in the order in which they are dropped.
        sizes: How much room each object takes.
    """
    reached = Reached()
    below = reached.grow(objects, kept, follow_parents=False).added
    freed = [
        sum(sizes.get(oid, 0) for oid in reached.grow(objects, [drop], follow_parents=False).added)
        for drop in reversed(drops)
    ]
    return Measured(sum(sizes.get(oid, 0) for oid in below), freed[::-1])
