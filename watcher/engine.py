"""One project's engine: what is known of its files, kept true by events, or by a scan where events can't vouch.

Owns the choice between the fast and the slow road, and the life of the project's watch. Taking checkpoints of the
state it returns belongs to `watcher.home`.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from config.choices import NestedRepos
from store.apply import ASIDE
from store.baseline import refresh, too_many_files
from store.capture import Limits, Scope
from store.collected import is_own_removal, sign_store
from store.errors import ObjectMissingError, TooManyFilesError
from store.patterns import Patterns, pattern_of
from store.scan import scan
from watcher.dirty import Dirty, DirtySet
from watcher.exclusion import ExclusionRules
from watcher.refusal import Refusal
from watcher.unannounced import Unannounced, find_other_names

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from config.settings import Settings
    from store.baseline import Baseline
    from store.collected import StoreSign
    from store.entries import Oid
    from store.ignore import IgnoreRules
    from store.layout import Layout
    from store.objects import ObjectStore
    from store.project import Project
    from store.project_store import ProjectStore
    from watcher.follower import WatchState
    from watcher.observer import ProjectWatch
    from watcher.progress import Progress

_BARRIER_S = 2.0
"""Longer than this nobody waits for events; a scan is quicker than it seems."""
_OTHER_RULES = "the rules of what counts changed"


class Engine:
    """Know the state of one project's files. Its methods are called with the store's lock held."""

    def __init__(
        self,
        project: Project,
        *,
        follow_events: bool,
        home_name: bytes = b"",
        on_change: Callable[[Engine], None] | None = None,
    ) -> None:
        """Know nothing yet.

        Args:
            project: Which one.
            follow_events: Whether its files are watched.
            home_name: What the home it belongs to is named by when it has objects removed from the store.
            on_change: Called on a thread of the watch after something changed; it must be quick.
        """
        self.project = project
        self._on_change = on_change
        self._follow_events = follow_events
        self._home_name = home_name
        self._may_watch = True
        self._dirty = DirtySet("not looked at yet")
        self._watch: ProjectWatch | None = None
        self._baseline: Baseline | None = None
        self._terms: object = None
        """What decides which files count, apart from the files; when it changes, everything is looked at."""
        self._patterns = Patterns("")
        self._rules: IgnoreRules | None = None
        self._unannounced = Unannounced(project.root)
        self._refusal: Refusal | None = None
        self._store_sign: StoreSign | None = None

    def allow_watching(self) -> None:
        """Follow events from the next look on, where this home does so at all."""
        self._may_watch = True

    def stop_watching(self) -> None:
        """Stop following events until it is allowed again; meanwhile every state is found by a scan."""
        self._may_watch = False
        if self._watch is not None:
            self._watch.stop()
            self._watch = None

    def find_baseline(self, layout: Layout) -> Baseline | None:
        """Return the state of the files when they were last looked at; nothing before the first look.

        There is none either when another process removed objects since, as some of it may be gone.
        """
        self._follow_store(layout)
        return self._baseline

    def has_changed_beyond(self, paths: Collection[bytes]) -> bool:
        """Tell whether anything but some paths may have changed since the files were last looked at."""
        return self._dirty.has_more_than(paths)

    @property
    def watch_state(self) -> WatchState | None:
        """Return how the project is watched; nothing when it is not."""
        return None if self._watch is None else self._watch.state

    def bring_up_to_date(
        self,
        store: ProjectStore,
        settings: Settings,
        pinned: Mapping[bytes, bool],
        deadline: float,
        *,
        whatever_size: bool = False,
        on_progress: Progress | None = None,
    ) -> Baseline:
        """Return the state of the project's files as they are now.

        Args:
            store: The project's part of the store.
            settings: What counts.
            pinned: Ignored paths that a tool named, each with whether it existed before.
            deadline: When to give up, on the monotonic clock.
            whatever_size: Return it though there are more files than the settings allow.
            on_progress: Called now and then, while many files are read, with how many of how many are.

        Raises:
            TooManyFilesError: There are more files than the settings allow.
            DeadlinePassedError: The time is over.
        """
        limits = Limits(
            max_file_bytes=settings.max_file_size_bytes,
            max_files=sys.maxsize if whatever_size else settings.max_files,
            capture_nested=settings.nested_repos is NestedRepos.CAPTURE,
            deadline=deadline,
        )
        if on_progress is not None:
            limits = replace(limits, on_progress=on_progress)
        self._follow_terms(store, settings)
        self._follow_store(store.layout)
        is_seen = self._watch is not None and self._watch.barrier(min(_BARRIER_S, deadline - time.monotonic()))
        dirty = self._dirty.take()
        if self._refusal is not None and is_seen and self._is_refused_still(dirty, limits):
            raise too_many_files(self.project.root, limits.max_files)
        try:
            baseline = self._look(store, limits, pinned, dirty, is_seen=is_seen)
        except TooManyFilesError as error:
            # What was dirty is not needed any more: without a baseline, everything is looked at the next time.
            self._refusal = Refusal(self.project.root, error.seen, max_files=limits.max_files)
            self._baseline = None
            raise
        except BaseException:
            self._dirty.put_back(dirty)
            self._unannounced.forget()
            raise
        self._baseline, self._refusal = baseline, None
        if baseline.file_count > limits.max_files:
            raise too_many_files(self.project.root, limits.max_files)
        return baseline

    def is_ignored(self, store: ProjectStore, settings: Settings, path: bytes) -> bool:
        """Tell whether a file is ignored, by the rules of now."""
        self._follow_terms(store, settings)
        if self._rules is None:
            self._rules = self._patterns.compile(self.project.root)
        return self._rules.afresh().is_ignored(path, is_dir=False)

    def distrust(self, reason: str) -> None:
        """Look at every file next time, whatever the events said, and at what is to be watched."""
        self._dirty.need_scan(reason)
        if self._watch is not None:
            self._watch.refresh(reason)

    def list_needed(self, layout: Layout) -> list[Oid]:
        """Return what the next look rests on, and no ref may name, so that a collection leaves it."""
        self._follow_store(layout)
        return [] if self._baseline is None else [self._baseline.tree]

    def forget(self) -> None:
        """Know nothing of the project any more: it is gone from the store."""
        self._baseline = None

    def note_path(self, path: bytes) -> None:
        """Look at a path again next time, whatever the events say."""
        self._dirty.add_path(path)

    def _look(
        self, store: ProjectStore, limits: Limits, pinned: Mapping[bytes, bool], dirty: Dirty, *, is_seen: bool
    ) -> Baseline:
        """Take the fast road if events can vouch for it, else the slow one."""
        if not self._can_vouch(dirty, limits) or self._rules is None or self._baseline is None or not is_seen:
            return self._look_everywhere(store, limits, pinned, dirty)
        known, nested = self._baseline, self._baseline.nested
        changed = self._unannounced.find_changed(known.linked | pinned.keys())
        if _change_rules(changed):
            self.distrust(_OTHER_RULES)
            return self._look_everywhere(store, limits, pinned, replace(dirty, paths=dirty.paths | changed))
        if dirty.is_empty and not changed and not nested:
            return known
        if dirty.trees:
            self._rules = self._rules.afresh()
        scope = Scope(self.project.root, self._patterns, self._rules, limits, pinned)
        try:
            fresh = refresh(store.objects, scope, known, dirty.paths | changed, dirty.trees | set(nested))
            return _look_at_other_names(store.objects, scope, known, fresh)
        except ObjectMissingError:
            return self._scan(store, scope)

    def _can_vouch(self, dirty: Dirty, limits: Limits) -> bool:
        """Tell whether nothing can have changed but what is dirty. Nested repositories are not watched."""
        return dirty.scan_reason is None and not _change_rules(dirty.paths) and not limits.capture_nested

    def _look_everywhere(
        self, store: ProjectStore, limits: Limits, pinned: Mapping[bytes, bool], dirty: Dirty
    ) -> Baseline:
        """Scan, and watch from before the scan on."""
        self._rules = self._patterns.compile(self.project.root)
        if self._follow_events and self._may_watch and self._watch is None:
            from watcher.observer import ProjectWatch  # noqa: PLC0415 - watchdog is slow to import, and only the service watches

            excluded = ExclusionRules(self.project.root, lambda: self._patterns)
            on_dirty = None if self._on_change is None else partial(self._on_change, self)
            self._watch = ProjectWatch(
                self.project.root, excluded.is_excluded, self._dirty, forget=excluded.forget, on_dirty=on_dirty
            )
            self._watch.start()
        scope = Scope(self.project.root, self._patterns, self._rules, limits, pinned)
        by_walk = self._refusal is not None or _change_rules(dirty.paths)
        return self._scan(store, scope, hints=dirty.paths | dirty.trees, by_walk=by_walk)

    def _scan(
        self, store: ProjectStore, scope: Scope, *, hints: Collection[bytes] = (), by_walk: bool = False
    ) -> Baseline:
        """Look at every file."""
        baseline = scan(store, scope, hints=hints, by_walk=by_walk)
        self._rules = scope.rules.afresh()  # what was read of every directory is not kept in memory
        self._unannounced.forget()
        return baseline

    def _is_refused_still(self, dirty: Dirty, limits: Limits) -> bool:
        """Tell whether a project that was too large when it was last walked is so still, without a walk."""
        holds = self._refusal is not None and self._refusal.still_holds(dirty, max_files=limits.max_files)
        return holds and not _change_rules(dirty.paths)

    def _follow_store(self, layout: Layout) -> None:
        """Forget the state of the files when another process removed objects, since some of it may be gone."""
        sign, known = sign_store(layout), self._store_sign
        if sign != known:
            self._store_sign = sign
            if known is not None and not is_own_removal(layout, known, self._home_name):
                self._baseline = None

    def _follow_terms(self, store: ProjectStore, settings: Settings) -> None:
        patterns = Patterns(
            store.layout.exclude_file,
            tuple(os.fsencode(pattern) for pattern in settings.exclude),
            include=tuple(os.fsencode(pattern) for pattern in settings.include),
            never=(*(pattern_of(base) for base in [self.project.relative(store.layout.base)] if base), ASIDE + b"*"),
        ).open_folders(self.project.root)
        terms = (patterns, settings.max_file_size_bytes, settings.nested_repos, _sign(store.layout.exclude_file))
        if terms != self._terms:
            self._terms = terms
            self._patterns = patterns
            self._rules = None
            self._dirty.need_scan(_OTHER_RULES)
            if self._watch is not None:
                self._watch.refresh(_OTHER_RULES)


def _look_at_other_names(objects: ObjectStore, scope: Scope, before: Baseline, fresh: Baseline) -> Baseline:
    """Look at the other names of files that have more than one since the last look: their content changed as well."""
    others = find_other_names(objects, scope.root, fresh, fresh.linked - before.linked)
    return refresh(objects, scope, fresh, others, ()) if others else fresh


def _change_rules(paths: Iterable[bytes]) -> bool:
    return any(path == b".gitignore" or path.endswith(b"/.gitignore") for path in paths)


def _sign(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_size
