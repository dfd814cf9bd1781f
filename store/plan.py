"""Decide what a rollback does with each path: pure, no disk, no store.

Owns the table of who keeps what. Carrying it out belongs to `store.restore`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from store.entries import MODE_LINK
from store.ledger import Author
from store.pathname import list_above

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from store.entries import Node


class Mode(StrEnum):
    """Say how far a rollback goes."""

    DEFAULT = "default"
    """Take back what the agent did, keep what the user did."""
    ALL = "all"
    """Make the project what it was, hand edits included."""
    SELECTED = "selected"
    """Make the selected paths what they were, whoever changed them."""
    EVERYTHING_RECORDED = "everything-recorded"
    """Put every recorded file back and remove nothing, since nothing is known of who wrote what."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Say how one path differs from the checkpoint."""

    path: bytes
    target: Node | None
    """What the checkpoint has there; nothing when it was created since."""
    current: Node | None
    """What is there now; nothing when it is gone."""
    author: Author
    """Who left what is there now."""
    is_captured: bool = True
    """Whether checkpoints hold what is there now; not so for files ignored or too large."""
    obstacle: str = ""
    """Why what is there can't be recorded, so that it must not be overwritten."""

    @property
    def differs_in_bits_only(self) -> bool:
        """Tell whether a file or a directory is what it was but for its permission bits."""
        if (
            self.target is None
            or self.current is None
            or MODE_LINK in (self.target.entry.mode, self.current.entry.mode)
        ):
            return False
        return self.target.entry.oid == self.current.entry.oid and self.target.is_directory == self.current.is_directory

    @property
    def makes_directory(self) -> bool:
        """Tell whether the checkpoint has a directory there."""
        return self.target is not None and self.target.is_directory


@dataclass(frozen=True, slots=True)
class LeftInPlace:
    """Say that a path should change and can't."""

    path: bytes
    reason: str


@dataclass(slots=True)
class Plan:
    """Say what a rollback does."""

    write: dict[bytes, Standing] = field(default_factory=dict)
    """What is put back."""
    remove: dict[bytes, Standing] = field(default_factory=dict)
    """What is removed."""
    kept: list[bytes] = field(default_factory=list)
    """The user's edits that stay, in order."""
    left: list[LeftInPlace] = field(default_factory=list)
    """What should change and can't, in order."""

    @property
    def is_empty(self) -> bool:
        """Tell whether no file changes."""
        return not self.write and not self.remove


def plan_rollback(standings: Iterable[Standing], mode: Mode, uncaptured: Collection[bytes]) -> Plan:
    """Return what a rollback does with every path that differs.

    Args:
        standings: Each path that differs from the checkpoint.
        mode: How far it goes.
        uncaptured: Directories that hold something that no checkpoint holds, and every directory above them.
    """
    plan = Plan()
    standings = sorted(standings, key=lambda each: each.path)
    for standing in standings:
        _decide(plan, standing, mode)
    directories = {each.path for each in standings if each.current is not None and each.current.is_directory}
    _resolve_conflicts(plan, uncaptured, directories)
    plan.kept.sort()
    plan.left.sort(key=lambda left: left.path)
    return plan


def _decide(plan: Plan, standing: Standing, mode: Mode) -> None:
    """Put one path where the table puts it."""
    wanted = mode in (Mode.ALL, Mode.SELECTED, Mode.EVERYTHING_RECORDED) or standing.author is Author.AGENT
    if standing.obstacle:
        plan.left.append(LeftInPlace(standing.path, standing.obstacle))
    elif standing.current is not None and standing.current.is_gitlink:
        plan.left.append(LeftInPlace(standing.path, "a nested git repository is there"))
    elif standing.target is not None:
        if wanted:
            plan.write[standing.path] = standing
        else:
            plan.kept.append(standing.path)
    elif wanted and mode is not Mode.EVERYTHING_RECORDED:
        plan.remove[standing.path] = standing
    else:
        plan.kept.append(standing.path)


def _resolve_conflicts(plan: Plan, uncaptured: Collection[bytes], directories: Collection[bytes]) -> None:
    """Leave in place what can't be put back, since something that stays is in its way.

    A directory that stays is in the way of a file, and not of what goes into it.
    """
    staying = {*plan.kept, *(left.path for left in plan.left)}
    above_staying = {above for path in staying for above in list_above(path)}
    staying -= set(directories)
    for path, standing in list(plan.write.items()):
        blocker = next((above for above in list_above(path) if above in staying), None)
        if blocker is not None:
            reason = "something of yours is in the way"
        elif path in above_staying and not standing.makes_directory:
            reason = "a directory with files of yours is in the way"
        elif path in uncaptured:
            reason = "a directory that holds uncaptured content is in the way"
        else:
            continue
        del plan.write[path]
        plan.left.append(LeftInPlace(path, reason))
