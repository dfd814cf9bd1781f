"""Calls whose changes can't be known beforehand: what they changed so far is the agent's.

Owns the comparison of the state before such a call with the files as they are, be the call over, cut off, or still at
work while somebody rolls back.
"""

from __future__ import annotations

import os
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from store.checkpoint import record_state
from store.entries import Oid
from store.errors import CheckpointNotFoundError, ObjectMissingError
from store.ledger import NOTHING, Written, fingerprint_node, load_ledger, made_by_others, save_ledger
from store.state import compare_states, state_of
from watcher.processes import is_running
from watcher.turns import end_call

if TYPE_CHECKING:
    from store.checkpoint import Label
    from store.ledger import Ledger
    from store.state import State
    from watcher.home import Desk
    from watcher.turns import OpenCall

_TICK_S = 0.02
"""File times advance in steps of the kernel's timer, at most 10 ms."""


def record_open_calls(desk: Desk, *, now: float) -> None:
    """Write into the ledger what calls that are still at work changed so far in one project.

    Only calls whose process is known count: the end of any other may never have been announced, as when it was refused,
    and what was changed since may be the user's. A call whose process is gone has ended.

    Args:
        desk: The project, under the lock.
        now: Seconds since the epoch.

    Raises:
        CorruptFileError: The ledger can't be understood.
    """
    project, sessions = desk.store.project.hash, desk.home.sessions
    for name, session in sessions.list_at_work(project):
        owned = {
            call: opened
            for call, opened in session.open_calls.items()
            if opened.owner is not None and project in opened.states
        }
        if not owned:
            continue
        ledger = load_ledger(desk.store.layout, desk.store.project)
        before, after = ledger.copy(), session
        for call, opened in owned.items():
            written = Written(NOTHING, now, name or None, opened.turn, opened.tool or None)
            record_effects(desk, opened, ledger, written)
            if opened.owner is not None and not is_running(opened.owner):
                after = end_call(after, call, project)
        if ledger != before:
            save_ledger(desk.store.layout, desk.store.project, ledger)
        sessions.keep(name, after)


def go_on_from_here(desk: Desk, label: Label) -> None:
    """Have open calls be compared with the files as they are now: what was done up to here is not theirs.

    Args:
        desk: The project, under the lock.
        label: How the state is recorded.
    """
    project, sessions = desk.store.project.hash, desk.home.sessions
    at_work = sessions.list_at_work(project)
    if not at_work:
        return
    state = record_state(desk.store, desk.bring_up_to_date(whatever_size=True), label).hex()
    for name, session in at_work:
        calls = {
            call: replace(opened, states={**opened.states, project: state}, began_at=label.now)
            if project in opened.states
            else opened
            for call, opened in session.open_calls.items()
        }
        sessions.keep(name, replace(session, open_calls=MappingProxyType(calls)))


def record_effects(desk: Desk, opened: OpenCall, ledger: Ledger, written: Written) -> None:
    """Record what every path that changed since a call began holds now."""
    objects, project = desk.store.objects, desk.store.project
    began = read_state(desk, opened.states.get(project.hash))
    if began is None:
        return
    try:
        changes = compare_states(objects, began, desk.bring_up_to_date().state)
    except ObjectMissingError:
        return
    for change in changes:
        if change.old is None and not _is_younger(os.path.join(project.root, change.path), opened.began_at):
            continue
        existed = made_by_others(fingerprint_node(objects, change.old), ledger.get(change.path))
        ledger[change.path] = replace(written, content=fingerprint_node(objects, change.new), existed=existed)


def read_state(desk: Desk, commit: str | None) -> State | None:
    """Return the state in a commit, given in hex; nothing when it is not known, or gone with a gc."""
    if commit is None:
        return None
    try:
        return state_of(desk.store.objects.read_commit(Oid(bytes.fromhex(commit))))
    except (ObjectMissingError, CheckpointNotFoundError, ValueError):
        return None


def _is_younger(full: bytes, began_at: float) -> bool:
    """Tell whether a file that a call seems to have created was touched since the call began.

    One that was not was there before, and only counts now: a rule, a limit or a repository around it is gone.
    """
    try:
        return os.lstat(full).st_ctime >= began_at - _TICK_S
    except OSError:
        return True
