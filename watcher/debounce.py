"""When a project that changes without any announcement is looked at, and when a burst of such changes begins.

Pure: no clock, no thread, no disk. Looking belongs to `watcher.settling`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_RESTLESS_LOOKS = 3
"""What changed at so many looks of one burst, one after the other, is under constant change."""
_MOST_DOUBLINGS = 7
_MOST_RESTLESS = 1000


@dataclass(frozen=True, slots=True)
class Pace:
    """Hold how long is waited, in seconds."""

    quiet_s: float
    """After the last change, before the state counts as settled."""
    idle_gap_s: float
    """After the last change, before a burst is over."""
    max_wait_s: float
    """After the first change, under constant change."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Hold what is known of a project's changes; times are seconds of a clock that never goes back."""

    first: float | None = None
    """The first change that was not looked at yet."""
    last: float = float("-inf")
    """The last change."""
    look_count: int = 0
    """How often this burst was looked at."""
    streaks: Mapping[bytes, int] = field(default_factory=dict)
    """By path: at how many looks of this burst it had changed, up to the last one without a gap."""
    restless: frozenset[bytes] = frozenset()
    """Paths under constant change: they keep no burst alive, and begin none."""
    restless_at: float = float("-inf")
    """When one of these last changed."""


def note_change(changes: Changes, now: float, pace: Pace) -> Changes:
    """Return the changes after one that counts."""
    if changes.first is None and now - changes.last > pace.idle_gap_s:
        changes = replace(changes, look_count=0, streaks={})
    return replace(changes, first=now if changes.first is None else changes.first, last=now)


def note_restless(changes: Changes, now: float) -> Changes:
    """Return the changes after one of a path that is under constant change."""
    return replace(changes, restless_at=now)


def calm_down(changes: Changes, now: float, pace: Pace) -> Changes:
    """Return the changes after a pause in which nothing was under constant change any more."""
    return replace(changes, restless=frozenset()) if now - changes.restless_at > pace.idle_gap_s else changes


def next_look(changes: Changes, pace: Pace) -> float | None:
    """Return when the project is to be looked at; nothing when nothing changed since it was.

    A burst is looked at when it begins, so that the state before it is kept, and when it is over. One that does not
    end is looked at more and more seldom, once it is known what never rests.
    """
    if changes.first is None:
        return None
    if not changes.look_count:
        return min(changes.last + pace.quiet_s, changes.first + pace.max_wait_s)
    doublings = min(max(0, changes.look_count - _RESTLESS_LOOKS), _MOST_DOUBLINGS)
    longest_s = pace.max_wait_s * (1 << doublings)
    return min(changes.last + pace.idle_gap_s, changes.first + longest_s)


def note_look(changes: Changes, paths: Collection[bytes], now: float) -> Changes:
    """Return the changes after a look.

    Args:
        changes: Before it.
        paths: What had changed.
        now: When it was.
    """
    streaks = {path: changes.streaks.get(path, 0) + 1 for path in paths}
    found = {path for path, count in streaks.items() if count >= _RESTLESS_LOOKS}
    restless = changes.restless | found
    return replace(
        changes,
        first=None,
        look_count=changes.look_count + 1,
        streaks=streaks,
        restless=restless if len(restless) <= _MOST_RESTLESS else changes.restless,
        restless_at=now if found else changes.restless_at,
    )
