"""What goes and what stays, decided without a disk: old projects, old archives, and checkpoints over the size cap.

Owns the policies and their reasons. Carrying them out belongs to `store.prune`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from store.mounts import WorkdirState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from store.layout import ProjectHash

_DAY_S = 86400.0
AHEAD_S = 3600.0
"""A time that lies further in the future than this was written by another clock."""

Name = TypeVar("Name")


class Verdict(StrEnum):
    """Say what becomes of a project."""

    KEEP = "keep"
    STALE = "stale"
    """Untouched for longer than the retention."""
    ORPHAN = "orphan"
    """Its workdir was deleted, and its end was confirmed by hand."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Hold what is known of a project when it is decided whether it stays."""

    hash: ProjectHash
    workdir: str | None
    """Nothing when its file can't be understood."""
    last_touch: float
    """Seconds since the epoch."""
    state: WorkdirState
    is_cut_off: bool = False
    """Whether a rollback of it was cut off and waits to be finished."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Say what becomes of one project, and why."""

    candidate: Candidate
    verdict: Verdict
    reason: str


def decide_project(
    candidate: Candidate, *, now: float, retention_days: float, confirmed: Collection[ProjectHash] = ()
) -> Decision:
    """Decide whether a project stays.

    Args:
        candidate: The project.
        now: Seconds since the epoch.
        retention_days: Untouched for longer is stale; 0 keeps everything.
        confirmed: Orphans that somebody was shown and agreed to delete; no other orphan goes for being one.
    """
    if candidate.workdir is None:
        return Decision(candidate, Verdict.KEEP, "its file can't be understood")
    if candidate.is_cut_off:
        return Decision(candidate, Verdict.KEEP, "a rollback was cut off")
    if candidate.state is WorkdirState.ORPHAN:
        if candidate.hash in confirmed:
            return Decision(candidate, Verdict.ORPHAN, "its workdir was deleted")
        return Decision(candidate, Verdict.KEEP, "its workdir was deleted, which nobody confirmed")
    if is_stale(candidate.last_touch, now=now, retention_days=retention_days):
        return Decision(candidate, Verdict.STALE, f"untouched for more than {retention_days:g} days")
    return Decision(candidate, Verdict.KEEP, _why_kept(candidate, retention_days))


def _why_kept(candidate: Candidate, retention_days: float) -> str:
    if candidate.state is WorkdirState.DETACHED:
        return "its volume is not mounted"
    return "no retention is set" if retention_days <= 0 else f"touched within {retention_days:g} days"


def is_stale(last_touch: float, *, now: float, retention_days: float) -> bool:
    """Tell whether something was untouched for longer than the retention; 0 means that nothing ever is."""
    return retention_days > 0 and last_touch < now - retention_days * _DAY_S


def is_from_other_clock(last_touch: float, *, now: float) -> bool:
    """Tell whether a time lies in the future: it would keep its project for ever, so it is brought down to now."""
    return last_touch > now + AHEAD_S


def is_sweep_due(last_sweep: float | None, *, now: float, interval_s: float) -> bool:
    """Tell whether the interval since the last sweep is over; a time from another clock tells nothing."""
    return last_sweep is None or is_from_other_clock(last_sweep, now=now) or now - last_sweep >= interval_s


def list_droppable(histories: Mapping[Name, Sequence[object]]) -> list[Name]:
    """Return the order in which histories lose their oldest checkpoint, round by round; each keeps its newest.

    Args:
        histories: Checkpoints by history. The mapping's order is the order of a round.
    """
    rounds = max((len(history) for history in histories.values()), default=0) - 1
    return [name for number in range(rounds) for name, history in histories.items() if len(history) > number + 1]


def count_drops(freed_bytes: Iterable[int], excess_bytes: int) -> int:
    """Return how many checkpoints to drop before space is really freed and measured again.

    One less than what the sizes say is needed, and at least one: sizes are known but for how content was packed, so
    the last step is taken alone, and no checkpoint goes that did not have to.

    Args:
        freed_bytes: What each further drop frees, in the order in which checkpoints are dropped.
        excess_bytes: How much there is too much.
    """
    if excess_bytes <= 0:
        return 0
    count, total = 0, 0
    for size in freed_bytes:
        if total + size >= excess_bytes:
            return max(1, count)
        total += size
        count += 1
    return count
