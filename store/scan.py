"""The slow road: walk the whole project, and read only the files whose stat data changed.

Owns the scan and its use of the stat cache. It is taken where nobody could watch: without a service, after lost
events, on file systems without events.
"""

from __future__ import annotations

import os
import time
from types import MappingProxyType
from typing import TYPE_CHECKING

from store.baseline import Baseline, too_many_files
from store.capture import LeftOut, Reason, Walk, capture_path
from store.index import StatCache, entries_of, is_racy, load_index, mode_of, save_index, sign, smudge
from store.layout import baseline_ref
from store.objects import EMPTY_TREE
from store.tree import Changes, splice

if TYPE_CHECKING:
    from store.capture import Scope
    from store.objects import Entry, ObjectStore, Oid
    from store.project_store import ProjectStore


def scan(store: ProjectStore, scope: Scope) -> Baseline:
    """Return the state of all of a project's files, and keep their stat data for the next scan.

    The caller holds the lock. After a crash the old stat cache is still valid for the tree that it names.

    Raises:
        TooManyFilesError: There are more files than the settings allow.
        DeadlinePassedError: The time is over.
    """
    objects, index_file = store.objects, store.layout.index_file(store.project.hash)
    cache = load_index(index_file)
    if cache is None or not objects.has(cache.tree):
        cache = StatCache(EMPTY_TREE)
    work = _Scan(objects, scope, cache)
    work.run()
    tree = splice(objects, cache.tree, work.changes)
    if work.is_new or tree != cache.tree:
        _keep_alive(store, tree if tree != EMPTY_TREE else objects.write_tree({}))
        save_index(index_file, StatCache(tree, work.entries))
    return Baseline(tree, len(work.entries), MappingProxyType(work.left_out), scope.list_older_than_pins())


class _Scan:
    """Compare every file with the stat cache."""

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

    def run(self) -> None:
        """Look at every file that counts."""
        walk = Walk(self._scope)
        for path, status in walk.files():
            self._look_at(path, status)
            if len(self.entries) > self._scope.limits.max_files:
                raise too_many_files(self._scope)
        for path in self._scope.pinned.keys() - self.entries.keys():
            self._look_at_pinned(path)
        for path, entry in walk.nested.items():
            self._note(path, entry, entries_of({path: entry})[path][0])
        self.left_out.update(walk.left_out)
        self.left_out.update(self._scope.list_withheld())
        for path in self._cache.entries.keys() - self.entries.keys():
            self.changes[path] = None

    def _look_at(self, path: bytes, status: os.stat_result) -> None:
        mode = mode_of(status)
        known = self._cache.entries.get(path)
        if known is not None and mode is not None and known[0] == sign(status, mode) and self._fits(status):
            self.entries[path] = known
            return
        found = capture_path(self._objects, self._scope.root, path, self._scope.limits)
        if isinstance(found, LeftOut):
            self.left_out[path] = found.reason
        elif found is not None:
            signature = sign(status, found.mode)
            self._note(path, found, smudge(signature) if is_racy(status, self._started_ns) else signature)

    def _look_at_pinned(self, path: bytes) -> None:
        if not self._scope.is_pinned(path):
            return
        try:
            self._look_at(path, os.lstat(os.path.join(self._scope.root, path)))
        except OSError:
            return

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
