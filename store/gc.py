"""Reclaim space: remove what nothing names any more, and pack the rest together, while others go on working.

Owns the collection. It finds out what is needed and packs it without the lock, and removes under the lock in pieces
of milliseconds. Before each piece what is named by then is added to what is needed, so nothing goes that a checkpoint
taken meanwhile rests on: whoever takes one holds the lock from its first object to its ref. Objects are removed only
after the pack that replaces them is on disk, so a kill at any point leaves some garbage and nothing broken.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from store.collected import note_removal
from store.debris import find_debris, remove_debris
from store.entries import Oid
from store.errors import GitFailedError, StoreBusyError
from store.files import find_free_bytes, flush_directory, measure_bytes
from store.git import run_git
from store.held import PACK_PARTS, Pack, list_loose, list_packs, loose_path
from store.history import forget_commit_graph, read_shallow, write_shallow
from store.index import load_summary
from store.objects import ObjectStore
from store.project import list_hashes
from store.reach import Reached
from store.roots import Roots, list_remembered, project_of, read_roots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from store.layout import Layout

    Hold = Callable[[], AbstractContextManager[None]]

_PIECE_S = 0.003
"""For how long files are removed before others get the lock."""
_PAUSE_S = 0.002
_PACK_TIMEOUT_S = 3600.0
_SPARE_BYTES = 1 << 20
_DEAD_SHARE = 0.1
"""A pack with less garbage is left alone, unless all of it has to go."""
_SMALL_COUNT = 20
"""So many packs, or ten times as many loose objects, are packed together."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Say how a collection reaches whoever has it done, and lets them go on working."""

    hold: Hold
    """Takes the lock for the body of a `with`; that is done many times."""
    list_needed: Callable[[], Iterable[Oid]] = tuple
    """Called under the lock; returns what the caller has in mind and no ref names."""
    name: bytes = b""
    """Names the caller; others forget what they have in mind when objects are removed."""
    is_given_up: Callable[[], bool] = lambda: False
    """Tells whether the caller does not want it done any more."""


@dataclass(slots=True)
class Collected:
    """Say what came of a collection."""

    freed_bytes: int = 0
    debris_bytes: int = 0
    debris_count: int = 0
    problems: list[str] = field(default_factory=list)
    """What was skipped, and why; everything else was collected."""
    is_partial: bool = False
    """Whether garbage is left, since there was too little disk to pack anew what is beside it."""
    failed: str | None = None
    """Why it could not be completed, if it could not."""


def collect(
    layout: Layout,
    caller: Caller,
    *,
    now: float,
    thorough: bool = False,
) -> Collected:
    """Remove what nothing names, and pack what is left.

    Args:
        layout: The store. The caller does not hold its lock.
        caller: Who has it done.
        now: Seconds since the epoch.
        thorough: Whether all garbage goes, whatever that costs; otherwise packs with little of it are left alone.

    Raises:
        StoreBusyError: Another collection is at work, or the lock is held by others for too long.
    """
    if not layout.exists():
        return Collected()
    lock = FileLock(layout.gc_lock_file, mode=0o600, fallback_to_soft=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise StoreBusyError(f"The store is being cleaned up already: {layout.base}") from None
    try:
        before = measure_bytes(layout.store)
        work = _Collection(layout, caller, now)
        try:
            work.run(thorough=thorough)
        except (GitFailedError, OSError) as error:
            work.collected.failed = error.message if isinstance(error, GitFailedError) else f"{error}."
        work.collected.freed_bytes = max(0, before - measure_bytes(layout.store))
        return work.collected
    finally:
        lock.release()


class _Collection:
    """Carry one collection out."""

    def __init__(self, layout: Layout, caller: Caller, now: float) -> None:
        self.collected = Collected()
        self._layout = layout
        self._caller = caller
        self._hold = caller.hold
        self._now = now
        self._reached = Reached()
        self._first: dict[str, Oid] = {}

    def run(self, *, thorough: bool) -> None:
        """Go through all steps."""
        store = self._layout.store
        self._clear_debris()
        packs, loose = list_packs(store), list_loose(store)
        self._find_needed()
        self._remove_loose([oid for oid in loose if oid not in self._reached.oids])
        packs = self._remove_packs(packs, elsewhere=())
        loose = {oid: size for oid, size in loose.items() if oid in self._reached.oids}
        for group in self._plan_packing(packs, loose, thorough=thorough):
            self._pack_together(group, packs, loose)
        self._finish()

    def _clear_debris(self) -> None:
        debris = find_debris(self._layout.store, now=self._now)
        with self._hold():
            self._layout.restore_directories()
            forget_commit_graph(self._layout)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self._layout.store, "objects", "pack", "multi-pack-index"))
            self.collected.debris_bytes = remove_debris(debris)
            self.collected.debris_count = len(debris)

    def _find_needed(self) -> None:
        """Find out what is named, while others go on."""
        with self._hold():
            roots = read_roots(self._layout, now=self._now)
            kept = list(self._caller.list_needed())
        self._first = dict(roots.named)
        self._tell_damage(roots, self._grow(roots, [*kept, *self._list_indexed()]))

    def _list_indexed(self) -> Iterator[Oid]:
        """Yield the trees that stat caches rest on: a kill may have kept one from being replaced with its ref.

        One that is replaced later has its ref before it.
        """
        for project in list_hashes(self._layout):
            summary = load_summary(self._layout.index_file(project))
            if summary is not None:
                yield summary.tree

    def _grow(self, roots: Roots, kept: Iterable[Oid]) -> dict[str, bytes]:
        """Add everything that is named now to what is needed; return what is named and missing."""
        objects = ObjectStore(self._layout.store)
        missing: dict[str, bytes] = {}
        self._reached.cut_at(read_shallow(self._layout))
        for name, oid in sorted(roots.named.items(), key=lambda each: not _is_history(each[0])):
            growth = self._reached.grow(objects, [oid], follow_parents=_is_history(name))
            if growth.missing and name.startswith("refs/"):
                missing[name] = growth.missing[0]
        self._reached.grow(objects, kept, follow_parents=False)
        projects = {project_of(name) for name in {*roots.damaged, *missing}} - {None}
        for project in projects:
            self._reached.grow(objects, list_remembered(self._layout, str(project)))
        return missing

    def _tell_damage(self, roots: Roots, missing: dict[str, bytes]) -> None:
        self.collected.problems += [f"{name} was skipped: {why}." for name, why in sorted(roots.damaged.items())]
        self.collected.problems += [
            f"{name} is not whole: object {oid.hex()} is missing." for name, oid in sorted(missing.items())
        ]

    @contextlib.contextmanager
    def _removing(self) -> Iterator[None]:
        """Hold the lock for one piece, with everything needed that is named by now."""
        with self._hold():
            roots = read_roots(self._layout, now=self._now)
            self._grow(roots, list(self._caller.list_needed()))
            note_removal(self._layout, self._caller.name)
            self._bound_histories(roots)
            yield
        time.sleep(_PAUSE_S)

    def _bound_histories(self, roots: Roots) -> None:
        """Have histories end where what came before is not needed, so that git misses nothing."""
        objects = ObjectStore(self._layout.store)
        cut = read_shallow(self._layout)
        needed = {oid for oid in cut if oid in self._reached.oids}
        for name, oid in roots.named.items():
            if _is_history(name) or not name.startswith("refs/") or oid not in self._reached.oids:
                continue
            if objects.read_raw(oid)[0] == "commit":
                parent = objects.read_commit(oid).parent
                needed |= {oid} if parent is not None and parent not in self._reached.oids else set()
        if needed != cut:
            write_shallow(self._layout, needed)

    def _remove_loose(self, dead: Sequence[bytes]) -> None:
        waiting = list(dead)
        while waiting:
            with self._removing():
                self._unlink_some(waiting)

    def _unlink_some(self, waiting: list[bytes]) -> None:
        """Remove loose objects that are not needed, for a few milliseconds; they leave the list."""
        until = time.monotonic() + _PIECE_S
        while waiting and time.monotonic() < until:
            oid = waiting.pop()
            if oid not in self._reached.oids:
                self._unlink(oid)

    def _unlink(self, oid: bytes) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(loose_path(self._layout.store, oid))

    def _remove_packs(self, packs: Sequence[Pack], *, elsewhere: Sequence[Pack]) -> list[Pack]:
        """Remove the packs of which nothing is needed that is in no other one, and return the rest."""
        left: list[Pack] = []
        for place, pack in enumerate(packs):
            others = [*elsewhere, *left, *packs[place + 1 :]]
            if not self._is_replaceable(pack, others):
                left.append(pack)
                continue
            with self._removing():
                if not self._is_replaceable(pack, others):
                    left.append(pack)
                    continue
                gone = _hide_pack(pack)
            for path in gone:
                os.unlink(path)
        return left

    def _is_replaceable(self, pack: Pack, others: Sequence[Pack]) -> bool:
        if os.path.exists(pack.stem + ".keep"):
            return False
        there = [other for other in others if os.path.exists(other.stem + ".idx")]  # another program may pack too
        return all(oid not in self._reached.oids or any(oid in other.sizes for other in there) for oid in pack.sizes)

    def _plan_packing(self, packs: list[Pack], loose: dict[bytes, int], *, thorough: bool) -> list[list[Pack]]:
        """Return which packs are rewritten together, the loose objects with the first group."""
        packs = [pack for pack in packs if not os.path.exists(pack.stem + ".keep")]
        needed = {
            pack.stem: sum(size for oid, size in pack.sizes.items() if oid in self._reached.oids) for pack in packs
        }
        worn = [pack for pack in packs if self._is_worn(pack, needed[pack.stem], thorough=thorough)]
        is_scattered = len(packs) >= _SMALL_COUNT or len(loose) >= 10 * _SMALL_COUNT
        if thorough and (len(packs) > 1 or loose or worn):
            worn = packs
        elif not worn and not is_scattered:
            return []
        elif is_scattered and len(packs) >= _SMALL_COUNT:
            worn = packs
        loose_bytes = sum(loose.values())
        free = find_free_bytes(self._layout.store) - _SPARE_BYTES
        if sum(needed[pack.stem] for pack in worn) + loose_bytes <= free:
            return [worn]
        self.collected.is_partial = True
        self.collected.problems.append("Little disk is free, so packs were rewritten one by one, as far as they fit.")
        fitting = [pack for pack in sorted(worn, key=lambda pack: needed[pack.stem]) if needed[pack.stem] <= free]
        return [*([[]] if loose_bytes <= free else []), *([pack] for pack in fitting)]

    def _is_worn(self, pack: Pack, needed_bytes: int, *, thorough: bool) -> bool:
        total = sum(pack.sizes.values())
        return total > needed_bytes if thorough else total - needed_bytes > _DEAD_SHARE * total

    def _pack_together(self, group: list[Pack], packs: list[Pack], loose: dict[bytes, int]) -> None:
        """Write what is needed of some packs into a new one, with what is loose, then remove what it replaces.

        Args:
            group: The packs; they leave `packs` when they are removed.
            packs: All that there are; the new one joins them.
            loose: The loose objects; they are packed once.
        """
        wanted = {oid for pack in group for oid in pack.sizes if oid in self._reached.oids} | loose.keys()
        kept = [pack for pack in packs if pack not in group]
        wanted -= {oid for pack in kept for oid in pack.sizes}
        fresh = [self._write_pack(wanted)] if wanted else []
        group = [pack for pack in group if all(pack.stem != new.stem for new in fresh)]
        self._remove_packs(group, elsewhere=[*fresh, *kept])
        packs[:] = [*kept, *fresh]
        for oid in loose:
            if any(oid in pack.sizes for pack in packs):
                self._unlink(oid)  # whoever has one in mind finds it in the pack
        loose.clear()

    def _write_pack(self, wanted: set[bytes]) -> Pack:
        """Have git write a pack of some objects, and wait until it is on disk."""
        store = self._layout.store
        directory = os.path.join(store, "objects", "pack")
        if find_free_bytes(store) < _SPARE_BYTES:
            raise GitFailedError("The disk is full, so nothing can be packed together.", hint="Free some space.")
        lines = b"".join(
            b"%s %s\n" % (oid.hex().encode(), self._reached.names.get(oid, b"").replace(b"\n", b"?"))
            for oid in sorted(wanted)
        )
        command = ["pack-objects", "-q", "--threads=1", "--window-memory=64m", "--delta-base-offset"]
        printed = run_git(
            store,
            [*command, os.path.join(directory, "pack")],
            stdin=lines,
            timeout_s=_PACK_TIMEOUT_S,
            is_given_up=self._caller.is_given_up,
        )
        stem = os.path.join(directory, f"pack-{printed.decode().strip()}")
        flush_directory(directory)
        for pack in list_packs(store):
            if pack.stem == stem and wanted <= pack.sizes.keys():
                return pack
        raise GitFailedError(f"git pack-objects wrote no whole pack {stem}.")

    def _finish(self) -> None:
        """Note that everything is collected, unless refs moved meanwhile."""
        with self._hold():
            self._layout.restore_directories()
            forget_commit_graph(self._layout)
            if not self.collected.is_partial and read_roots(self._layout, now=self._now).named == self._first:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._layout.gc_pending_file)


def _hide_pack(pack: Pack) -> list[str]:
    """Take a pack out of the store, and return the files that are left to remove.

    To free a large file takes longer than to rename it, and needs no lock. After a kill they are debris.
    """
    directory, name = os.path.split(pack.stem)
    gone: list[str] = []
    for part in PACK_PARTS:
        aside = os.path.join(directory, f"tmp_pack_{name}{part}")
        with contextlib.suppress(FileNotFoundError):
            os.rename(pack.stem + part, aside)
            gone.append(aside)
    return gone


def _is_history(name: str) -> bool:
    """Tell whether what is named is the newest of a series, all of which counts."""
    return name.startswith("refs/") and not name.startswith(("refs/rollback/", "refs/baseline/"))
