"""After a tool ran: record in the ledger what it left behind, so that a rollback knows it from hand edits.

Owns the steps from the end of a call to the ledger's entries. What a shell call changed is everything that changed
between its beginning and its end.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from store.entries import Oid
from store.errors import CheckpointNotFoundError, ObjectMissingError
from store.ledger import NOTHING, Written, fingerprint_file, fingerprint_node, load_ledger, made_by_others, save_ledger
from store.state import compare_states, state_of
from watcher.protection import NOT_BY_NAME
from watcher.turns import OpenCall, advance, end_call

if TYPE_CHECKING:
    from collections.abc import Iterable

    from store.ledger import Ledger
    from store.state import State
    from watcher.events import Event
    from watcher.home import Desk

_TICK_S = 0.02
"""File times advance in steps of the kernel's timer, at most 10 ms."""


def record(desk: Desk, event: Event, paths: Iterable[str], *, now: float) -> None:
    """Write into the ledger what a call left at each path it changed.

    Args:
        desk: A project that it touched, under the lock.
        event: The end of the call.
        paths: What it names in that project, resolved.
        now: Seconds since the epoch.

    Raises:
        CorruptFileError: The ledger can't be understood.
    """
    project, sessions = desk.store.project, desk.home.sessions
    session, turn = advance(sessions.find(event.session), event, now=now, idle_gap_s=desk.settings.watch.idle_gap_s)
    ledger = load_ledger(desk.store.layout, project)
    written = Written(NOTHING, now, event.session or None, turn, event.tool or None)
    before = ledger.copy()
    _record_named(desk, session.find_served(turn, project.hash), paths, ledger, written)
    opened = session.open_calls.get(event.call or NOT_BY_NAME)
    if event.is_shell and opened is not None:
        _record_effects(desk, opened, ledger, written)
        session = end_call(session, event.call or NOT_BY_NAME)
    if ledger != before:
        save_ledger(desk.store.layout, project, ledger)
    sessions.keep(event.session, session)


def _record_named(desk: Desk, served: str | None, paths: Iterable[str], ledger: Ledger, written: Written) -> None:
    """Record what every path that a call named holds now. What it held before is known from the turn's checkpoint."""
    objects, project = desk.store.objects, desk.store.project
    began = _read_state(desk, served)
    for path in paths:
        relative, content = project.relative(path), fingerprint_file(os.fsencode(path))
        if relative and content is not None:
            before = fingerprint_node(objects, began.find(objects, relative)) if began is not None else NOTHING
            existed = made_by_others(before, ledger.get(relative))
            ledger[relative] = replace(written, content=content, existed=existed)


def _record_effects(desk: Desk, opened: OpenCall, ledger: Ledger, written: Written) -> None:
    """Record what every path that changed since a call began holds now."""
    objects, project = desk.store.objects, desk.store.project
    began = _read_state(desk, opened.states.get(project.hash))
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


def _read_state(desk: Desk, commit: str | None) -> State | None:
    """Return the state in a commit; nothing when it is not known, or gone with a gc."""
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
