"""Take one checkpoint: the straight line from a baseline to a commit at the tip.

Owns what a checkpoint records and when none is needed. What the baseline holds belongs to `store.baseline` and
`store.scan`; how far back histories go to `store.history`.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from store.entries import EMPTY_TREE, Oid
from store.files import write_atomically
from store.history import list_history, trim_history
from store.layout import tip_ref, watch_ref
from store.objects import Commit
from store.state import STATE_FIELDS, format_state

if TYPE_CHECKING:
    from store.baseline import Baseline
    from store.layout import Layout
    from store.project_store import ProjectStore

_LABELLED_NESTED = 3


class Kind(StrEnum):
    """Say what a checkpoint was taken for."""

    TOOL = "tool"
    UNHOOKED = "unhooked"
    MANUAL = "manual"
    SAFETY = "pre-rollback"


@dataclass(frozen=True, slots=True)
class Label:
    """Say why, for whom and when a checkpoint is taken."""

    kind: Kind
    reason: str
    """One line, shown in lists."""
    now: float
    """Seconds since the epoch."""
    session: str | None = None
    turn: str | None = None
    tool: str | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """Say what came of an attempt that did not fail."""

    checkpoint: Commit
    """The project's newest checkpoint now."""
    is_new: bool
    """Whether it was taken just now; otherwise nothing had changed since it."""


def take_checkpoint(
    store: ProjectStore,
    baseline: Baseline,
    label: Label,
    *,
    keep_count: int,
    even_if_unchanged: bool = False,
) -> Taken:
    """Make the baseline the project's newest checkpoint, unless it is already.

    A state before a change that nobody announced goes into a history of its own, so that a user's saves never push
    an agent's checkpoints out; it is recorded only if the newest checkpoint of neither history holds it.

    The caller holds the lock. Everything that the commit needs is in the store before the ref moves, so a crash
    leaves the old tip or the new one.

    Args:
        store: The project's part of the store.
        baseline: The state to record.
        label: What to record about it.
        keep_count: How many checkpoints the history keeps.
        even_if_unchanged: Take one though the newest holds the same.

    Raises:
        GitFailedError: The store can't be written, or another program moved the tip.
    """
    objects, is_unhooked = store.objects, label.kind is Kind.UNHOOKED
    ref, other = tip_ref(store.project.hash), watch_ref(store.project.hash)
    if is_unhooked:
        ref, other = other, ref
    tip = objects.read_ref(ref)
    commit = _describe(baseline, label, parent=tip)
    if not even_if_unchanged:
        for known in (tip, objects.read_ref(other)) if is_unhooked else (tip,):
            if known is not None and _says_the_same(newest := objects.read_commit(known), commit):
                return Taken(newest, is_new=False)
    if baseline.tree == EMPTY_TREE:
        objects.write_tree({})
    oid = objects.write_commit(commit)
    objects.move_ref(ref, old=tip, new=oid)
    trim_history(store.layout, list_history(store, unhooked=is_unhooked), keep_count)
    mark_gc_pending(store.layout)
    return Taken(objects.read_commit(oid), is_new=True)


def record_state(store: ProjectStore, baseline: Baseline, label: Label) -> Oid:
    """Write the baseline into the store as a commit that is in no history, and return its id.

    It is found again until the next gc; one that an open call names, for a day.
    """
    if baseline.tree == EMPTY_TREE:
        store.objects.write_tree({})
    return store.objects.write_commit(_describe(baseline, label, parent=None))


def _says_the_same(newest: Commit, commit: Commit) -> bool:
    """Tell whether two checkpoints hold the same, and leave the same out.

    What a checkpoint left out is never taken for created since, so it has to know of it. What the newest one, of
    another program, does not tell of its state is taken to be the same.
    """
    left_out = all((newest.note.get(field) or []) == (commit.note.get(field) or []) for field in ("skipped", "nested"))
    beside = all(newest.note.get(field, now) == now for field, now in commit.note.items() if field in STATE_FIELDS)
    return newest.tree == commit.tree and left_out and beside


def mark_gc_pending(layout: Layout) -> None:
    """Note that refs moved since the last gc."""
    if not os.path.exists(layout.gc_pending_file):
        write_atomically(layout.gc_pending_file, b"", flush=False)


def _describe(baseline: Baseline, label: Label, *, parent: Oid | None) -> Commit:
    """Return the commit to write."""
    note: dict[str, object] = {"v": 1, "kind": label.kind.value}
    note |= {
        key: value
        for key, value in (("session", label.session), ("turn", label.turn), ("tool", label.tool))
        if value is not None
    }
    if baseline.left_out:
        listed = sorted(baseline.left_out.items())  # all of them: a rollback never removes what was left out
        note["skipped"] = [{"path": os.fsdecode(path), "reason": reason.value} for path, reason in listed]
    note["nested"] = [os.fsdecode(path) for path in baseline.nested]
    note |= format_state(baseline.state)
    return Commit(
        oid=Oid(b""),
        tree=baseline.tree,
        parent=parent,
        seconds=int(label.now),
        offset_min=time.localtime(label.now).tm_gmtoff // 60,
        subject=label.reason + _label_nested(baseline.nested),
        note=note,
    )


def _label_nested(nested: list[bytes]) -> str:
    """Return what a reason says of nested repositories."""
    if not nested:
        return ""
    shown = ", ".join(_one_line(os.fsdecode(path)) for path in nested[:_LABELLED_NESTED])
    more = f" (+{len(nested) - _LABELLED_NESTED})" if len(nested) > _LABELLED_NESTED else ""
    return f" [nested git repos not captured: {shown}{more}]"


def _one_line(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)
