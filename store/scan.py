"""The slow road: find out about the whole project, and read only the files whose stat data changed.

Owns the scan and its use of the stat cache. It is taken where nobody could watch: without a service, after lost
events, on file systems without events. git compares the stat data, quicker than Python can; where the cache can't be
used, or other files count than when it was made, every directory is walked instead.
"""

from __future__ import annotations

import gc
import os
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING

from store.baseline import Baseline, refresh, too_many_files, with_scope
from store.capture import LeftOut, Reason, Walk, list_directory, look_at_root
from store.entries import EMPTY_TREE
from store.errors import DeadlinePassedError, GitFailedError, ObjectMissingError
from store.git import WorkTree, run_git
from store.index import (
    Beside,
    StatCache,
    entries_of,
    is_racy_to_git,
    list_directories,
    load_index,
    load_summary,
    mode_of,
    save_index,
    sign,
    sign_rules,
    smudge,
)
from store.intake import Intake
from store.layout import baseline_ref
from store.pack import PACKED_FILES
from store.pathname import lead_to, parent_of
from store.permissions import Permissions
from store.tree import Changes, compare, splice

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from store.capture import Scope
    from store.entries import Entry, Node, Oid
    from store.index import Summary
    from store.project_store import ProjectStore

_GIT_TIMEOUT_S = 600.0
_REMEMBERED_AT = 64
"""So many changed files are read again rather than have the whole cache written anew."""


def scan(
    store: ProjectStore,
    scope: Scope,
    *,
    hints: Iterable[bytes] = (),
    by_walk: bool = False,
) -> Baseline:
    """Return the state of all of a project's files, and keep their stat data for the next scan.

    The caller holds the lock. After a crash the old stat cache is still valid for the tree that it names. When the
    time is over or the user interrupts, what was read so far is kept, and the next scan goes on from there.

    Args:
        store: The project's part of the store.
        scope: What counts.
        hints: Paths that are known to have changed. git says nothing of pipes and sockets, which are only named.
        by_walk: Look at every name, as other names may count now than when the cache was made.

    Raises:
        StoreError: The project can't be read.
        TooManyFilesError: A walk met more files than the settings allow. The caller counts where git named
            what changed.
        DeadlinePassedError: The time is over.
    """
    summary = load_summary(store.layout.index_file(store.project.hash)) if not by_walk else None
    if summary is not None and summary.beside.digest == scope.digest() and store.objects.has(summary.tree):
        try:
            found = _scan_by_git(store, scope, summary, hints)
        except (GitFailedError, ObjectMissingError):
            found = None
        if found is not None:
            return found
    return _scan_by_walk(store, scope)


def _scan_by_git(store: ProjectStore, scope: Scope, summary: Summary, hints: Iterable[bytes]) -> Baseline | None:
    """Let git compare the stat data, and look only at what it names.

    Returns:
        Nothing when a `.gitignore` file changed, or so much that a walk is quicker.
    """
    started_ns = time.time_ns()
    unlisted = _Unlisted(scope, summary)
    with ThreadPoolExecutor(2) as beside:
        others = beside.submit(_ask_git, store, scope, [b"ls-files", b"--others", *scope.patterns.git_arguments()])
        changed = beside.submit(_ask_git, store, scope, [b"diff-files", b"--name-only", b"--ignore-submodules=all"])
        unlisted.look()
        named = changed.result() | others.result()
    if len(named) >= PACKED_FILES or unlisted.rules_changed or any(path.endswith(b".gitignore") for path in named):
        return None
    before = summary.beside
    baseline = Baseline(
        summary.tree,
        summary.file_count,
        MappingProxyType({path: Reason(reason) for path, reason in before.left_out.items()}),
        before.permissions,
        before.empty_directories,
        linked=before.linked,
    )
    trees = {path.rstrip(b"/") for path in named if path.endswith(b"/")} | set(baseline.nested) | unlisted.trees
    paths = {path for path in named if not path.endswith(b"/")}
    paths |= before.left_out.keys() | scope.pinned.keys() | set(hints)
    fresh = refresh(store.objects, scope, baseline, paths, trees)
    if len(named) >= _REMEMBERED_AT or _describe(scope, fresh, before.rule_files) != before:
        _remember(store, scope, fresh, before, started_ns)
    return fresh


def _ask_git(store: ProjectStore, scope: Scope, arguments: list[bytes]) -> set[bytes]:
    """Return the paths that a git command names, by the stat cache."""
    command = [*arguments[:1], b"-z", *arguments[1:]]
    timeout_s = max(1.0, min(_GIT_TIMEOUT_S, scope.limits.deadline - time.monotonic()))
    work_tree = WorkTree(scope.root, store.layout.index_file(store.project.hash))
    return set(run_git(store.layout.store, command, work_tree=work_tree, timeout_s=timeout_s).split(b"\0")) - {b""}


class _Unlisted:
    """Find what git says nothing of.

    That is: pipes, sockets and devices, new directories without files, new repositories, permission bits of
    directories, and `.gitignore` files that ignore themselves. Only names and kinds are looked at, and only in
    directories that hold captured files.
    """

    def __init__(self, scope: Scope, summary: Summary) -> None:
        self.trees: set[bytes] = set()
        """What has to be looked at."""
        self.rules_changed = False
        self._scope = scope
        self._permissions = summary.beside.permissions
        self._rule_files = summary.beside.rule_files
        self._known = frozenset(summary.directories) | lead_to(summary.beside.empty_directories)

    def look(self) -> None:
        """Look at every directory that is known."""
        seen: set[bytes] = set()
        for directory in (b"", *sorted(self._known)):
            full = os.path.join(self._scope.root, directory) if directory else self._scope.root
            status = _look_at(full)
            if status is None or not stat.S_ISDIR(status.st_mode):
                self.trees |= {directory} - {b""}
                continue
            if directory and stat.S_IMODE(status.st_mode) != self._permissions.of_directory(directory):
                self.trees.add(directory)
            self._look_in(directory, full, seen)
        self.rules_changed |= seen != {path for path in self._rule_files if self._is_known(parent_of(path))}

    def _is_known(self, directory: bytes) -> bool:
        return not directory or directory in self._known

    def _look_in(self, directory: bytes, full: bytes, seen: set[bytes]) -> None:
        prefix = directory + b"/" if directory else b""
        for entry in list_directory(full):
            name = entry.name
            if entry.is_file(follow_symlinks=False):
                if name == b".gitignore":
                    seen.add(prefix + name)
                    self.rules_changed |= self._rule_files.get(prefix + name) != sign_rules(full + b"/" + name)
                elif name == b".git" and directory:
                    self.trees.add(directory)
            elif entry.is_dir(follow_symlinks=False):
                if name == b".git":
                    self.trees |= {directory} - {b""}
                elif prefix + name not in self._known and not self._is_ignored(prefix + name, is_dir=True):
                    self.trees.add(prefix + name)
            elif not entry.is_symlink() and not self._is_ignored(prefix + name, is_dir=False):
                self.trees.add(prefix + name)

    def _is_ignored(self, path: bytes, *, is_dir: bool) -> bool:
        return self._scope.rules.is_ignored(path, is_dir=is_dir)


def _remember(store: ProjectStore, scope: Scope, fresh: Baseline, before: Beside, started_ns: int) -> None:
    """Bring the stat cache up to a newer state of the project."""
    index_file = store.layout.index_file(store.project.hash)
    cache = load_index(index_file)
    if cache is None:
        return
    for difference in compare(store.objects, cache.tree, fresh.tree):
        status = _look_at(os.path.join(scope.root, difference.path))
        if difference.new is None:
            cache.entries.pop(difference.path, None)
        elif difference.new.is_gitlink or status is None or mode_of(status) != difference.new.mode:
            cache.entries |= entries_of({difference.path: difference.new})
        else:
            signature = sign(status, difference.new.mode)
            racy = is_racy_to_git(status, started_ns)
            cache.entries[difference.path] = (smudge(signature) if racy else signature, difference.new.oid)
    _keep_alive(store, fresh.tree)
    save_index(index_file, StatCache(fresh.tree, cache.entries, _describe(scope, fresh, before.rule_files)))


def _describe(scope: Scope, fresh: Baseline, rule_files: Mapping[bytes, str], *, is_whole: bool = True) -> Beside:
    """Return what is kept beside the entries of the stat cache."""
    digest = scope.digest() if is_whole else ""
    return Beside(digest, fresh.left_out, fresh.permissions, fresh.empty_directories, rule_files, fresh.linked)


def _look_at(path: bytes) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def _scan_by_walk(store: ProjectStore, scope: Scope) -> Baseline:
    """Look at every directory and file in this process."""
    objects, index_file = store.objects, store.layout.index_file(store.project.hash)
    cache = load_index(index_file)
    if cache is None or not objects.has(cache.tree):
        cache = StatCache(EMPTY_TREE)
    interruption: BaseException | None = None
    with _without_search_for_cycles(), Intake(objects, scope) as intake:
        work = _Scan(scope, cache, intake)
        try:
            work.compare()
            work.read()
        except (DeadlinePassedError, KeyboardInterrupt) as error:
            interruption = error
            work.keep_what_was_read()
        tree = splice(objects, cache.tree, work.changes)
        if tree == EMPTY_TREE:
            objects.write_tree({})
    found = work.finish(tree)
    beside = _describe(scope, found, work.sign_rule_files(), is_whole=interruption is None)
    if work.is_new or tree != cache.tree or beside != cache.beside:
        _keep_alive(store, tree)
        save_index(index_file, StatCache(tree, work.entries, beside))
    if interruption is not None:
        raise interruption
    return with_scope(found, scope)


@contextmanager
def _without_search_for_cycles() -> Iterator[None]:
    """Keep Python from looking for cycles among hundreds of thousands of objects that make none."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Scan:
    """Compare every file with the stat cache, then read those that differ."""

    def __init__(self, scope: Scope, cache: StatCache, intake: Intake) -> None:
        self.changes: Changes = {}
        self.entries: dict[bytes, tuple[bytes, Oid]] = {}
        self.left_out: dict[bytes, Reason] = {}
        self.is_new = False
        """Tell whether the stat cache has to be written, though the content may be the same."""
        self._scope = scope
        self._cache = cache
        self._intake = intake
        self._started_ns = time.time_ns()
        self._unread: set[bytes] = set()
        self._modes: dict[bytes, int] = {}
        """The mode of each captured file and directory, as `lstat` gives it."""
        self._empty: set[bytes] = set()
        self._linked: set[bytes] = set()

    def compare(self) -> None:
        """Look at the stat data of every file that counts."""
        walk, max_files = Walk(self._scope), self._scope.limits.max_files
        for path, status in walk.files():
            self._look_at(path, status)
            if len(self.entries) + len(self._unread) > max_files:
                seen = self.entries.keys() | self._unread
                raise too_many_files(self._scope.root, max_files, seen)
        for path in self._scope.pinned.keys() - self.entries.keys():
            self._look_at_pinned(path)
        for path, entry in walk.nested.items():
            self._note(path, entry, entries_of({path: entry})[path][0])
        self._modes |= walk.modes
        self._empty = walk.empty
        self.left_out.update(walk.left_out)
        self.left_out.update(self._scope.list_withheld())
        for path in self._cache.entries.keys() - self.entries.keys() - self._unread:
            self.changes[path] = None

    def read(self) -> None:
        """Store the content of the files whose stat data differs.

        Raises:
            DeadlinePassedError: The time is over; what was not read is as the cache has it, or not there.
        """
        for (path, status), found in self._intake.results():
            self._take_in(path, status, found)

    def keep_what_was_read(self) -> None:
        """Read no more. What was not looked at is as the cache has it, so that its files are compared next time."""
        for (path, status), found in self._intake.finished():
            self._take_in(path, status, found)
        above = list_directories(self.entries)
        for path, known in self._cache.entries.items():
            is_open = path not in self.changes and path not in self.entries and path not in above
            if is_open and self.entries.keys().isdisjoint(list_directories([path])):
                self.entries[path] = known

    def finish(self, tree: Oid) -> Baseline:
        """Return what was found; the tree is of the same entries."""
        directories = list_directories(self.entries) | lead_to(frozenset(self._empty))
        modes = {path: mode for path, mode in self._modes.items() if path in self.entries or path in directories}
        for path in directories - modes.keys():  # those above a pinned file were not walked
            if (status := _look_at(os.path.join(self._scope.root, path))) is not None:
                modes[path] = status.st_mode
        root = Permissions(stat.S_IMODE(look_at_root(self._scope.root).st_mode))
        files = {path: mode for path, mode in modes.items() if not stat.S_ISLNK(mode)}
        return Baseline(
            tree,
            len(self.entries),
            MappingProxyType(self.left_out),
            root.update(files),
            frozenset(self._empty),
            linked=frozenset(self._linked),
        )

    def sign_rule_files(self) -> dict[bytes, str]:
        """Return the stat data of every `.gitignore` that counted; of one that changed just now, what none has."""
        rules = self._scope.rules
        paths = {os.path.join(directory, b".gitignore") for directory in rules.sources} | rules.unreadable
        return {path: sign_rules(os.path.join(self._scope.root, path), self._started_ns) for path in paths}

    def _look_at(self, path: bytes, status: os.stat_result) -> None:
        mode = mode_of(status)
        if status.st_nlink > 1 and stat.S_ISREG(status.st_mode):
            self._linked.add(path)
        known = self._cache.entries.get(path)
        if known is not None and mode is not None and known[0] == sign(status, mode) and self._fits(status):
            self.entries[path] = known
            self._modes[path] = status.st_mode
        else:
            self._unread.add(path)
            self._intake.add(path, status)

    def _look_at_pinned(self, path: bytes) -> None:
        if not self._scope.is_pinned(path):
            return
        try:
            self._look_at(path, os.lstat(os.path.join(self._scope.root, path)))
        except OSError:
            return

    def _take_in(self, path: bytes, status: os.stat_result, found: Node | LeftOut | None) -> None:
        if found is None or isinstance(found, LeftOut):
            if found is not None:
                self.left_out[path] = found.reason
            if path in self._cache.entries:
                self.changes[path] = None
            return
        if found.bits is not None:
            self._modes[path] = stat.S_IFREG | found.bits
        signature = sign(status, found.entry.mode)
        self._note(path, found.entry, smudge(signature) if is_racy_to_git(status, self._started_ns) else signature)

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
