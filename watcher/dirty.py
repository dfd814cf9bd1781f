"""What changed in one project since it was last taken: paths, trees, or everything.

An entry is a hint to look again, never a statement of what happened. This module keeps the hints and bounds their
number; `watcher.observer` fills the set, the engine takes it.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

PATH_LIMIT = 50_000
"""More changed paths than this are kept as their directories."""
TREE_LIMIT = 5_000
"""More changed trees than this make the project one that must be scanned."""


@dataclass(frozen=True, slots=True)
class Dirty:
    """The changes of a project, as taken from its set. Paths are relative to the workdir."""

    paths: frozenset[bytes]
    """Entries that changed themselves."""
    trees: frozenset[bytes]
    """Directories below which anything may have changed."""
    scan_reason: str | None
    """Why the two sets can't be trusted to be complete and the whole project must be scanned; None when they can."""

    @property
    def is_empty(self) -> bool:
        """Say whether nothing changed."""
        return not self.paths and not self.trees and self.scan_reason is None


@dataclass(frozen=True, slots=True)
class DirtyCounts:
    """How much waits in a set, for a status line."""

    path_count: int
    tree_count: int
    scan_reason: str | None

    @property
    def is_empty(self) -> bool:
        """Say whether nothing waits."""
        return not self.path_count and not self.tree_count and self.scan_reason is None


class DirtySet:
    """The changes of one project that no checkpoint holds yet. Every method may be called from any thread.

    Args:
        scan_reason: Why the project must be scanned before the set can be trusted, such as "service started".
    """

    def __init__(self, scan_reason: str | None = None) -> None:
        self._lock = threading.Lock()
        self._paths: set[bytes] = set()
        self._trees: set[bytes] = set()
        self._scan_reason = scan_reason

    def add_path(self, path: bytes) -> None:
        """Note that an entry changed."""
        with self._lock:
            self._paths.add(path)
            if len(self._paths) > PATH_LIMIT:
                self._collapse()

    def add_tree(self, path: bytes) -> None:
        """Note that anything at or below a directory may have changed; the workdir itself (b"") means a scan."""
        with self._lock:
            self._trees.add(path)
            if not path or len(self._trees) > TREE_LIMIT:
                self._collapse()

    def need_scan(self, reason: str) -> None:
        """Note that the whole project must be scanned. The first reason is the one that is kept."""
        with self._lock:
            self._scan_reason = self._scan_reason or reason

    def take(self) -> Dirty:
        """Return everything noted and start afresh."""
        with self._lock:
            paths, trees, reason = self._paths, self._trees, self._scan_reason
            self._paths, self._trees, self._scan_reason = set(), set(), None
        return Dirty(frozenset(paths), frozenset(trees), reason)

    def put_back(self, dirty: Dirty) -> None:
        """Note again what was taken for a checkpoint that failed."""
        with self._lock:
            self._paths |= dirty.paths
            self._trees |= dirty.trees
            self._scan_reason = dirty.scan_reason or self._scan_reason
            self._collapse()

    def has_more_than(self, paths: Collection[bytes]) -> bool:
        """Tell whether anything but some paths is noted."""
        with self._lock:
            return bool(self._trees or self._scan_reason or not self._paths <= set(paths))

    def peek(self) -> DirtyCounts:
        """Return how much is noted, and take nothing."""
        with self._lock:
            return DirtyCounts(len(self._paths), len(self._trees), self._scan_reason)

    def _collapse(self) -> None:
        """Keep both sets within their limits, and turn "the whole project" into a scan. The lock is held."""
        if len(self._paths) > PATH_LIMIT:
            self._trees.update(os.path.dirname(path) for path in self._paths)
            self._paths.clear()
        if b"" in self._trees:
            reason = "the whole directory changed"
        elif len(self._trees) > TREE_LIMIT:
            reason = "too many directories changed"
        else:
            return
        self._scan_reason = self._scan_reason or reason
        self._paths.clear()
        self._trees.clear()
