"""Maintenance of one home: sweeps, reclaiming space, clearing; when it is due, and one at a time.

Owns when maintenance is done and whom it tells. What goes belongs to `store.retention`, how to `store.prune` and
`store.gc`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from store.archives import list_archives, list_put_aside, put_base_aside, remove_tree
from store.errors import StoreBusyError, StoreError
from store.files import measure_bytes
from store.gc import Caller, collect
from store.prune import Owner, Policy, prune, read_last_prune, write_last_prune
from store.retention import is_sweep_due
from store.volumes import judge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from config.settings import Settings
    from store.entries import Oid
    from store.layout import ProjectHash
    from store.mounts import WorkdirState
    from store.project import ProjectRecord
    from store.prune import Pruned
    from watcher.home import Home

_log = logging.getLogger(__name__)
_WAIT_S = 60.0
"""How long maintenance waits for a hook; the other way round it is milliseconds."""


@dataclass(frozen=True, slots=True)
class Cleared:
    """Say what clearing did."""

    count: int
    freed_bytes: int
    problems: tuple[str, ...] = ()


def classify(record: ProjectRecord) -> WorkdirState:
    """Tell whether a project's workdir is there."""
    return judge(record.workdir, record.evidence).state


class Upkeep:
    """Do the maintenance of one home."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._guard = threading.Lock()
        self._stopping = threading.Event()
        self.last_gc: float | None = None
        """When space was last reclaimed by this process, in seconds since the epoch."""

    def stop(self) -> None:
        """Have maintenance that runs end soon; what it did so far stays done."""
        self._stopping.set()

    @contextlib.contextmanager
    def _hold(self) -> Iterator[None]:
        if self._stopping.is_set():
            raise StoreBusyError("The service is stopping, so maintenance goes on another time.")
        with self._home.hold(wait_s=_WAIT_S):
            yield

    def sweep(self, policy: Policy, *, now: float, wait_s: float = _WAIT_S) -> Pruned:
        """Sweep now.

        Args:
            policy: What is to go.
            now: Seconds since the epoch.
            wait_s: How long to wait for maintenance that is at work.

        Raises:
            StoreBusyError: Other maintenance is at work, or the store was busy for too long.
        """
        owner = Owner(self._caller(), classify, self._forget)
        if policy.dry_run:
            return prune(self._home.layout, owner, policy, now=now)
        with self._alone(wait_s=wait_s):
            pruned = prune(self._home.layout, owner, policy, now=now)
        if not pruned.failed:
            write_last_prune(self._home.layout, now=now)
        return pruned

    def sweep_if_due(self, *, now: float) -> Pruned | None:
        """Sweep by the settings, if that is wanted and its time has come; one that fails is tried again."""
        settings, _ = self._home.settings()
        interval_s = settings.min_interval_hours * 3600
        layout = self._home.layout
        due = is_sweep_due(read_last_prune(layout), now=now, interval_s=interval_s)
        if not settings.auto_prune or not due or not os.path.isdir(layout.base):
            return None
        try:
            pruned = self.sweep(policy_of(settings), now=now, wait_s=0)
        except StoreBusyError as error:
            _log.info("no sweep: %s", error.message)
            return None
        for problem in pruned.problems:
            _log.warning("sweep: %s", problem)
        _log.info("sweep: %d bytes freed, %d checkpoints dropped", pruned.freed_bytes, pruned.dropped)
        return pruned

    def collect_if_pending(self, *, now: float) -> bool:
        """Reclaim space if refs moved since that was last done, and tell whether it was."""
        layout = self._home.layout
        if not os.path.exists(layout.gc_pending_file):
            return False
        try:
            with self._alone(wait_s=0):
                done = collect(layout, self._caller(), now=now)
        except StoreError as error:
            _log.info("no gc: %s", error.message)
            return False
        for problem in (*done.problems, *([done.failed] if done.failed else [])):
            _log.warning("gc: %s", problem)
        _log.info("gc: %d bytes freed", done.freed_bytes)
        self.last_gc = now
        return done.failed is None

    def clear(self) -> Cleared:
        """Remove everything: every project's checkpoints and the archives. The lock stays, and so does the opt-in.

        Raises:
            StoreBusyError: Maintenance is at work, or the store was busy for too long.
        """
        layout = self._home.layout
        size = measure_bytes(layout.base)
        with self._alone(wait_s=_WAIT_S), self._without_collection(), self._home.hold(wait_s=_WAIT_S):
            if os.path.isdir(layout.base):
                put_base_aside(layout)
            for engine in self._home.engines():
                engine.forget()
        problems: list[str] = []
        for path in list_put_aside(layout):
            try:
                remove_tree(path)
            except OSError as error:
                problems.append(f"{path} could not be removed: {error.strerror}.")
        return Cleared(1, size, tuple(problems))

    def clear_archives(self) -> Cleared:
        """Remove the archives of older repositories, and nothing else."""
        count, freed, problems = 0, 0, []
        for archive in list_archives(self._home.paths.base):
            try:
                remove_tree(archive.path)
            except OSError as error:
                problems.append(f"{archive.name} could not be removed: {error.strerror}.")
            else:
                count, freed = count + 1, freed + archive.size_bytes
        return Cleared(count, freed, tuple(problems))

    @contextlib.contextmanager
    def _alone(self, *, wait_s: float) -> Iterator[None]:
        """Do maintenance, if no other thread of this process does."""
        if not self._guard.acquire(timeout=wait_s):
            raise StoreBusyError(f"The store is being cleaned up already: {self._home.layout.base}")
        try:
            yield
        finally:
            self._guard.release()

    @contextlib.contextmanager
    def _without_collection(self) -> Iterator[None]:
        """Wait until no other process collects."""
        layout = self._home.layout
        if not os.path.isdir(layout.store):
            yield
            return
        lock = FileLock(layout.gc_lock_file, mode=0o600, fallback_to_soft=False)
        try:
            lock.acquire(timeout=_WAIT_S)
        except Timeout:
            raise StoreBusyError(f"The store is being cleaned up already: {layout.base}") from None
        try:
            yield
        finally:
            lock.release()

    def _caller(self) -> Caller:
        return Caller(self._hold, self._list_needed, self._home.name, self._stopping.is_set)

    def _list_needed(self) -> list[Oid]:
        return [oid for engine in self._home.engines() for oid in engine.list_needed(self._home.layout)]

    def _forget(self, project: ProjectHash) -> None:
        self._home.sessions.forget_project(project)
        engine = self._home.find_engine(project)
        if engine is not None:
            engine.forget()


def policy_of(settings: Settings) -> Policy:
    """Return what a sweep by the settings removes; orphans never."""
    return Policy(retention_days=settings.retention_days, max_bytes=settings.max_total_size_bytes)
