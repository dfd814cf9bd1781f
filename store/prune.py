"""The sweep: what is old goes, space is reclaimed, and the store is brought under its size cap.

Owns carrying out what `store.retention` decides. The lock is taken in short pieces, and what is decided is decided
again under it, so that a project that is worked on meanwhile stays.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from store.archives import Archive, list_archives, remove_tree
from store.checkpoint import mark_gc_pending
from store.errors import CorruptFileError, GitFailedError, ObjectMissingError, StoreError
from store.files import measure_bytes, read_file, to_seconds, write_atomically
from store.gc import collect
from store.held import list_loose, list_packs
from store.history import follow_history, read_shallow, trim_history
from store.mounts import WorkdirState
from store.objects import ObjectStore
from store.project import ProjectRecord, list_projects, load_record, save_record
from store.reach import measure_drops
from store.retention import (
    Candidate,
    Decision,
    Verdict,
    count_drops,
    decide_project,
    is_from_other_clock,
    is_stale,
    list_droppable,
)
from store.roots import list_refs_of, read_roots
from store.stale import remove_stale_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from store.gc import Caller, Collected
    from store.layout import Layout, ProjectHash
    from store.objects import Commit

_ROUNDS = 40
"""More collections in one sweep would mean that sizes can't be trusted."""
_FREED_SHARE = 0.5
"""When less of what should have been freed is, something keeps it that is not known."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Say what is to go."""

    retention_days: float
    max_bytes: int | None
    """The size cap of the store; nothing for none."""
    confirmed: frozenset[ProjectHash] = frozenset()
    """Orphans that go."""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Owner:
    """Say how a sweep reaches those who use the store."""

    caller: Caller
    """Who has it done."""
    classify: Callable[[ProjectRecord], WorkdirState]
    """Tells whether a project's workdir is there."""
    forget: Callable[[ProjectHash], None] = lambda _: None
    """Called under the lock; drops what is remembered elsewhere of a project that is gone."""


@dataclass(slots=True)
class Pruned:
    """Say what a sweep did, or would do."""

    dry_run: bool = False
    decisions: list[Decision] = field(default_factory=list)
    commit_counts: dict[ProjectHash, int] = field(default_factory=dict)
    archives: list[Archive] = field(default_factory=list)
    """Those that went."""
    dropped: int = 0
    """How many checkpoints went for the size cap."""
    freed_bytes: int = 0
    problems: list[str] = field(default_factory=list)
    failed: bool = False
    """Whether it stopped before its end."""
    is_over_cap: bool = False

    def list_decided(self, verdict: Verdict) -> list[Decision]:
        """Return the projects of which one thing was decided."""
        return [decision for decision in self.decisions if decision.verdict is verdict]


def prune(layout: Layout, owner: Owner, policy: Policy, *, now: float) -> Pruned:
    """Sweep once.

    Args:
        layout: The store. The caller does not hold its lock.
        owner: Those who use it.
        policy: What is to go.
        now: Seconds since the epoch.

    Raises:
        StoreBusyError: The store was busy for too long; what was done so far stays done.
    """
    sweep = _Sweep(layout, owner, policy, now)
    if policy.dry_run:
        sweep.preview()
    else:
        before = measure_bytes(layout.base)
        sweep.run()
        sweep.pruned.freed_bytes = max(0, before - measure_bytes(layout.base))
    return sweep.pruned


class _Sweep:
    """Carry one sweep out."""

    def __init__(self, layout: Layout, owner: Owner, policy: Policy, now: float) -> None:
        self.pruned = Pruned(dry_run=policy.dry_run)
        self._layout = layout
        self._owner = owner
        self._policy = policy
        self._now = now
        self._garbage_bytes = 0
        """What nothing names, as last measured."""
        self._last_dropped = ""
        """The history that lost a checkpoint last; the next one has its turn."""
        self._is_cramped = False
        """Whether garbage is left for want of disk: no history is dropped to pay for that."""

    def preview(self) -> None:
        """Find out what would go; nothing is written."""
        self._decide()
        self.pruned.archives = self._list_old_archives()
        gone = {each.candidate.hash for each in self.pruned.decisions if each.verdict is not Verdict.KEEP}
        self.pruned.freed_bytes = sum(archive.size_bytes for archive in self.pruned.archives)
        if not self._layout.exists():
            return
        histories = {name: each for name, each in self._list_histories().items() if name.rpartition("/")[2] not in gone}
        sizes, order = self._measure_objects(), list_droppable(histories)
        freed = self._measure_drops(histories, order, sizes, without=gone)
        excess = measure_bytes(self._layout.store) - self._garbage_bytes - (self._policy.max_bytes or 0)
        if self._policy.max_bytes is not None and excess > 0:
            while self.pruned.dropped < len(freed) and excess > 0:
                excess -= freed[self.pruned.dropped]
                self.pruned.dropped += 1
                self.pruned.freed_bytes += freed[self.pruned.dropped - 1]
            self.pruned.is_over_cap = excess > 0
        self.pruned.freed_bytes += self._garbage_bytes

    def run(self) -> None:
        """Do all of it, up to the first step that fails."""
        self._decide()
        self._remove_archives()
        for decision in self.pruned.decisions:
            if decision.verdict is not Verdict.KEEP and not self.pruned.failed:
                self._remove_project(decision)
        if self.pruned.failed or not self._layout.exists():
            return
        if self._collect() is not None:
            self._honour_cap()

    def _decide(self) -> None:
        for project, record in list_projects(self._layout):
            self.pruned.decisions.append(self._decide_project(project, record))
        counts = {name.rpartition("/")[2]: len(each) for name, each in self._list_histories().items() if _is_main(name)}
        for decision in self.pruned.decisions:
            self.pruned.commit_counts[decision.candidate.hash] = counts.get(decision.candidate.hash, 0)

    def _decide_project(self, project: ProjectHash, record: ProjectRecord | CorruptFileError) -> Decision:
        if isinstance(record, CorruptFileError):
            candidate = Candidate(project, None, self._now, WorkdirState.UNKNOWN)
        else:
            state = self._owner.classify(record)
            is_cut_off = os.path.exists(self._layout.journal_file(project))
            touched = record.last_touch or record.created_at or self._now  # what is not known is no reason
            candidate = Candidate(project, record.workdir, touched, state, is_cut_off)
        policy = self._policy
        return decide_project(
            candidate, now=self._now, retention_days=policy.retention_days, confirmed=policy.confirmed
        )

    def _list_old_archives(self) -> list[Archive]:
        days = self._policy.retention_days
        archives = list_archives(self._layout.base)
        return [archive for archive in archives if is_stale(archive.mtime, now=self._now, retention_days=days)]

    def _remove_archives(self) -> None:
        for archive in self._list_old_archives():
            try:
                remove_tree(archive.path)
            except OSError as error:
                self.pruned.problems.append(f"{archive.name} could not be removed: {error.strerror}.")
            else:
                self.pruned.archives.append(archive)
        for archive in list_archives(self._layout.base):
            if is_from_other_clock(archive.mtime, now=self._now):
                with contextlib.suppress(OSError):
                    os.utime(archive.path, (self._now, self._now), follow_symlinks=False)

    def _remove_project(self, decision: Decision) -> None:
        project = decision.candidate.hash
        with self._owner.caller.hold():
            again = self._look_again(project)
            if again is None or again.verdict is Verdict.KEEP:
                self.pruned.decisions[self.pruned.decisions.index(decision)] = replace(
                    decision, verdict=Verdict.KEEP, reason="it was worked on meanwhile"
                )
                return
            try:
                delete_project(self._layout, project)
            except (GitFailedError, OSError) as error:
                text = error.message if isinstance(error, GitFailedError) else f"{error}."
                self._fail(f"{decision.candidate.workdir} could not be deleted: {text}")
                return
            self._owner.forget(project)

    def _look_again(self, project: ProjectHash) -> Decision | None:
        try:
            record = load_record(self._layout, project)
        except CorruptFileError:
            return None
        return None if record is None else self._decide_project(project, record)

    def _collect(self) -> Collected | None:
        """Reclaim space; nothing comes back when that failed, and the sweep is over."""
        self._bring_times_down()
        done = collect(self._layout, self._owner.caller, now=self._now, thorough=True)
        self.pruned.problems += [problem for problem in done.problems if problem not in self.pruned.problems]
        self._is_cramped = done.is_partial
        if done.failed is not None:
            self._fail(f"Space could not be reclaimed: {done.failed}")
            return None
        return done

    def _bring_times_down(self) -> None:
        """Let what was touched by a clock that was ahead grow old from now on."""
        for project, record in list_projects(self._layout):
            if isinstance(record, ProjectRecord) and is_from_other_clock(record.last_touch, now=self._now):
                with self._owner.caller.hold():
                    fresh = load_record(self._layout, project)
                    if fresh is not None:
                        save_record(self._layout, project, replace(fresh, last_touch=self._now))

    def _honour_cap(self) -> None:
        """Drop the oldest checkpoints, as many as it takes, and measure what that really frees."""
        if self._policy.max_bytes is None:
            return
        for _ in range(_ROUNDS):
            size = measure_bytes(self._layout.store)
            excess = size - self._policy.max_bytes
            if excess <= 0:
                return
            histories = self._list_histories()
            order = list_droppable(_begin_after(self._last_dropped, histories))
            freed = self._measure_drops(histories, order, self._measure_objects())
            count = count_drops(freed, excess)
            if count == 0 or self._is_cramped:
                break
            self.pruned.dropped += self._drop(histories, order[:count])
            self._last_dropped = order[count - 1]
            if self._collect() is None:
                break
            if size - measure_bytes(self._layout.store) < _FREED_SHARE * sum(freed[:count]):
                self._fail("Less space was freed than the dropped checkpoints took, so no more are dropped.")
                break
        self.pruned.is_over_cap = measure_bytes(self._layout.store) > self._policy.max_bytes
        if self.pruned.is_over_cap and not self.pruned.failed:
            why = "no more could be freed" if self._is_cramped else "every project has only one checkpoint"
            self.pruned.problems.append(f"The store is over its size cap, though {why}.")

    def _drop(self, histories: Mapping[str, list[Commit]], order: Iterable[str]) -> int:
        """Drop the oldest checkpoints of some histories, and return how many went."""
        dropped, names = 0, list(order)
        for name in dict.fromkeys(names):
            planned = histories[name]
            with self._owner.caller.hold():
                objects = ObjectStore(self._layout.store)
                fresh = follow_history(objects, name, read_shallow(self._layout))
                if not fresh or fresh[-1].oid != planned[-1].oid:
                    continue  # somebody else trimmed it meanwhile
                keep_count = max(1, len(fresh) - names.count(name))
                dropped += len(trim_history(self._layout, fresh, keep_count))
                mark_gc_pending(self._layout)
        return dropped

    def _list_histories(self) -> dict[str, list[Commit]]:
        """Return every history by its ref, newest checkpoint first; one that can't be read is left alone."""
        found: dict[str, list[Commit]] = {}
        if not self._layout.exists():
            return found
        objects, cut = ObjectStore(self._layout.store), read_shallow(self._layout)
        for name in sorted(read_roots(self._layout, now=self._now).named):
            if name.startswith(("refs/hermes/", "refs/watch/")):
                with contextlib.suppress(StoreError):
                    found[name] = follow_history(objects, name, cut)
        return found

    def _measure_objects(self) -> dict[bytes, int]:
        """Return how much room every object takes."""
        sizes = dict(list_loose(self._layout.store))
        for pack in list_packs(self._layout.store):
            sizes |= pack.sizes
        return sizes

    def _measure_drops(
        self,
        histories: Mapping[str, list[Commit]],
        order: list[str],
        sizes: Mapping[bytes, int],
        *,
        without: Iterable[str] = (),
    ) -> list[int]:
        """Return what each of a series of drops frees."""
        left = {name: list(history) for name, history in histories.items()}
        drops = [left[name].pop().oid for name in order]
        roots = read_roots(self._layout, now=self._now).named
        others = [
            oid for name, oid in roots.items() if name not in histories and not set(name.split("/")) & set(without)
        ]
        kept = [*others, *(commit.oid for history in left.values() for commit in history)]
        with self._owner.caller.hold():
            kept += self._owner.caller.list_needed()
        measured = measure_drops(ObjectStore(self._layout.store), kept, drops, sizes)
        self._garbage_bytes = sum(sizes.values()) - measured.kept_bytes - sum(measured.freed)
        return measured.freed

    def _fail(self, problem: str) -> None:
        self.pruned.failed = True
        self.pruned.problems.append(problem)


def delete_project(layout: Layout, project: ProjectHash) -> None:
    """Delete everything that the store has of a project. The caller holds the lock.

    Its own file goes last: after a crash the project is still found, and deleted the next time.

    Raises:
        GitFailedError: A ref can't be removed; the rest is left as it is.
    """
    objects = ObjectStore(layout.store)
    for name in list_refs_of(layout, project):
        _delete_ref(layout, objects, name)
    mark_gc_pending(layout)
    for path in (
        layout.index_file(project),
        layout.statistics_file(project),
        layout.ledger_file(project),
        layout.project_file(project),
    ):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _delete_ref(layout: Layout, objects: ObjectStore, name: str) -> None:
    path = os.path.join(layout.store, name)
    remove_stale_lock(layout.store, f"{path}.lock")
    try:
        objects.delete_ref(name)
    except (GitFailedError, ObjectMissingError):
        try:
            os.unlink(path)  # what is damaged can't be removed in git's way
        except OSError as error:
            raise GitFailedError(f"{name} could not be removed: {error.strerror}.") from error


def read_last_prune(layout: Layout) -> float | None:
    """Return when the last sweep was, in seconds since the epoch; nothing when that is not known."""
    with contextlib.suppress(ValueError, OSError):
        return to_seconds(float((read_file(layout.last_prune_file) or b"").decode()))
    return None


def write_last_prune(layout: Layout, *, now: float) -> None:
    """Remember a sweep that went well."""
    if os.path.isdir(layout.base):
        write_atomically(layout.last_prune_file, f"{now}".encode())


def _begin_after(name: str, histories: Mapping[str, list[Commit]]) -> dict[str, list[Commit]]:
    """Return the histories with those that had their turn last."""
    return dict(sorted(histories.items(), key=lambda each: (each[0] <= name, each[0])))


def _is_main(name: str) -> bool:
    return name.startswith("refs/hermes/")
