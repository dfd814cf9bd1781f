"""After a tool ran: record in the ledger what it left behind, so that a rollback knows it from hand edits.

Owns the steps from the end of a call to the ledger's entries. What a shell call changed is everything that changed
between its beginning and its end.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from store.ledger import NOTHING, Written, fingerprint_file, fingerprint_node, load_ledger, made_by_others, save_ledger
from watcher.open_calls import read_state, record_effects
from watcher.turns import NOT_BY_NAME, advance, end_call

if TYPE_CHECKING:
    from collections.abc import Iterable

    from store.ledger import Ledger
    from watcher.events import Event
    from watcher.home import Desk


def forget_call(desk: Desk, event: Event) -> None:
    """Take note that a call did not take place: it was refused."""
    sessions = desk.home.sessions
    if (session := sessions.find(event.session)) is not None:
        sessions.keep(event.session, end_call(session, event.call, desk.store.project.hash))


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
        record_effects(desk, opened, ledger, written)
        session = end_call(session, event.call, project.hash)
    if ledger != before:
        save_ledger(desk.store.layout, project, ledger)
    sessions.keep(event.session, session)


def _record_named(desk: Desk, served: str | None, paths: Iterable[str], ledger: Ledger, written: Written) -> None:
    """Record what every path that a call named holds now. What it held before is known from the turn's checkpoint."""
    objects, project = desk.store.objects, desk.store.project
    began = read_state(desk, served)
    for path in paths:
        relative, content = project.relative(path), fingerprint_file(os.fsencode(path))
        if relative and content is not None:
            before = fingerprint_node(objects, began.find(objects, relative)) if began is not None else NOTHING
            existed = made_by_others(before, ledger.get(relative))
            ledger[relative] = replace(written, content=content, existed=existed)
