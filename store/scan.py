"""The slow road: walk the whole project, and read only the files whose stat data changed.

Owns the scan and its use of the stat cache. It is taken where nobody could watch: without a service, after lost
events, on file systems without events.
"""

from __future__ import annotations

import os
import time
from contextlib import nullcontext
from types import MappingProxyType
from typing import TYPE_CHECKING

from store.baseline import Baseline, too_many_files
from store.capture import LeftOut, Reason, Walk, capture_path
from store.errors import DeadlinePassedError
from store.index import StatCache, entries_of, is_racy, load_index, mode_of, save_index, sign, smudge
from store.layout import baseline_ref
from store.objects import EMPTY_TREE
from store.tree import Changes, splice

if TYPE_CHECKING:
    from collections.abc import Callable

    from store.capture import Scope
    from store.objects import Entry, ObjectStore, Oid
    from store.project_store import ProjectStore

_PACKED_FILES = 200
"""From so many files on, one pack costs less than a file for each object."""
_FILES_AT_ONCE = 64
"""How many files are read between two looks at the clock."""


def scan(store: ProjectStore, scope: Scope, on_progress: Callable[[int, int], None] | None = None) -> Baseline:
    """Return the state of all of a project's files, and keep their stat data for the next scan.

    The caller holds the lock. After a crash the old stat cache is still valid for the tree that it names. When the
    time is over or the user interrupts, what was read so far is kept, and the next scan goes on from there.

    Args:
        store: The project's part of the store.
        scope: What counts.
        on_progress: Called now and then with how many of how many files are read.

    Raises:
        StoreError: The project can't be read.
        TooManyFilesError: There are more files than the settings allow.
        DeadlinePassedError: The time is over.
    """
    objects, index_file = store.objects, store.layout.index_file(store.project.hash)
    cache = load_index(index_file)
    if cache is None or not objects.has(cache.tree):
        cache = StatCache(EMPTY_TREE)
    work = _Scan(objects, scope, cache)
    work.compare()
    interruption: BaseException | None = None
    with objects.in_one_pack() if work.unread_count >= _PACKED_FILES else nullcontext():
        try:
            work.read(on_progress or _ignore_progress)
        except (DeadlinePassedError, KeyboardInterrupt) as error:
            interruption = error
        tree = splice(objects, cache.tree, work.changes)
        if tree == EMPTY_TREE:
            objects.write_tree({})
    if work.is_new or tree != cache.tree:
        _keep_alive(store, tree)
        save_index(index_file, StatCache(tree, work.entries))
    if interruption is not None:
        raise interruption
    return Baseline(tree, len(work.entries), MappingProxyType(work.left_out), scope.list_older_than_pins())


def _ignore_progress(done_count: int, total_count: int) -> None:
    """Tell nobody."""


class _Scan:
    """Compare every file with the stat cache, then read those that differ."""

    def __init__(self, objects: ObjectStore, scope: Scope, cache: StatCache) -> None:
        self.changes: Changes = {}
        self.entries: dict[bytes, tuple[bytes, Oid]] = {}
        self.left_out: dict[bytes, Reason] = {}
        self.is_new = False
        """Tell whether the stat cache has to be written, though the content may be the same."""
        self._objects = objects
        self._scope = scope
        self._cache = cache
        self._started_ns = time.time_ns()
        self._unread: list[tuple[bytes, os.stat_result]] = []

    @property
    def unread_count(self) -> int:
        """Return how many files have to be read."""
        return len(self._unread)

    def compare(self) -> None:
        """Look at the stat data of every file that counts."""
        walk, max_files = Walk(self._scope), self._scope.limits.max_files
        for path, status in walk.files():
            self._look_at(path, status)
            if len(self.entries) + len(self._unread) > max_files:
                raise too_many_files(self._scope)
        for path in self._scope.pinned.keys() - self.entries.keys():
            self._look_at_pinned(path)
        for path, entry in walk.nested.items():
            self._note(path, entry, entries_of({path: entry})[path][0])
        self.left_out.update(walk.left_out)
        self.left_out.update(self._scope.list_withheld())
        unread = {path for path, _ in self._unread}
        for path in self._cache.entries.keys() - self.entries.keys() - unread:
            self.changes[path] = None

    def read(self, on_progress: Callable[[int, int], None]) -> None:
        """Store the content of the files whose stat data differs.

        Raises:
            DeadlinePassedError: The time is over; what was not read is as the cache has it, or not there.
        """
        for done_count, (path, status) in enumerate(self._unread):
            if done_count % _FILES_AT_ONCE == 0:
                on_progress(done_count, len(self._unread))
                self._scope.limits.check_deadline()
            self._read(path, status)
        on_progress(len(self._unread), len(self._unread))

    def _look_at(self, path: bytes, status: os.stat_result) -> None:
        mode = mode_of(status)
        known = self._cache.entries.get(path)
        if known is not None and mode is not None and known[0] == sign(status, mode) and self._fits(status):
            self.entries[path] = known
        else:
            self._unread.append((path, status))

    def _look_at_pinned(self, path: bytes) -> None:
        if not self._scope.is_pinned(path):
            return
        try:
            self._look_at(path, os.lstat(os.path.join(self._scope.root, path)))
        except OSError:
            return

    def _read(self, path: bytes, status: os.stat_result) -> None:
        found = capture_path(self._objects, self._scope.root, path, self._scope.limits)
        if found is None or isinstance(found, LeftOut):
            if found is not None:
                self.left_out[path] = found.reason
            if path in self._cache.entries:
                self.changes[path] = None
            return
        signature = sign(status, found.mode)
        self._note(path, found, smudge(signature) if is_racy(status, self._started_ns) else signature)

    def _note(self, path: bytes, entry: Entry, signature: bytes) -> None:
        self.is_new |= self._cache.entries.get(path) != (signature, entry.oid)
        self.entries[path] = (signature, entry.oid)
        if self._cache.entry(path) != entry:
            self.changes[path] = entry

    def _fits(self, status: os.stat_result) -> bool:
        """Tell whether a file is not larger than the limit of today."""
        limit = self._scope.limits.max_file_bytes
        return limit is None or status.st_size <= limit


def _keep_alive(store: ProjectStore, tree: Oid) -> None:
    """Point the baseline ref at the tree that the stat cache rests on, so that no gc takes it away."""
    name = baseline_ref(store.project.hash)
    store.objects.move_ref(name, old=store.objects.read_ref(name), new=tree)
