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
from store.ledger import NOTHING, Written, fingerprint_file, fingerprint_node, load_ledger, save_ledger
from store.state import compare_states, state_of
from watcher.protection import NOT_BY_NAME
from watcher.turns import OpenCall, advance, end_call

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from store.ledger import Fingerprint
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
    found: dict[bytes, Fingerprint] = {}
    for path in paths:
        relative, content = project.relative(path), fingerprint_file(os.fsencode(path))
        if relative and content is not None:
            found[relative] = content
    opened = session.open_calls.get(event.call or NOT_BY_NAME)
    if event.is_shell and opened is not None:
        found |= _find_effects(desk, opened)
        session = end_call(session, event.call or NOT_BY_NAME)
    _write_ledger(desk, found, Written(NOTHING, now, event.session or None, turn, event.tool or None))
    sessions.keep(event.session, session)


def _find_effects(desk: Desk, opened: OpenCall) -> dict[bytes, Fingerprint]:
    """Return what every path that changed since a call began holds now."""
    objects, project = desk.store.objects, desk.store.project
    before = opened.states.get(project.hash)
    if before is None:
        return {}
    after = desk.bring_up_to_date().state
    try:
        began = state_of(objects.read_commit(Oid(bytes.fromhex(before))))
        changed = compare_states(objects, began, after)
    except (ObjectMissingError, CheckpointNotFoundError, ValueError):
        return {}
    return {
        change.path: fingerprint_node(objects, change.new)
        for change in changed
        if change.old is not None or _is_younger(os.path.join(project.root, change.path), opened.began_at)
    }


def _is_younger(full: bytes, began_at: float) -> bool:
    """Tell whether a file that a call seems to have created was touched since the call began.

    One that was not was there before, and only counts now: a rule, a limit or a repository around it is gone.
    """
    try:
        return os.lstat(full).st_ctime >= began_at - _TICK_S
    except OSError:
        return True


def _write_ledger(desk: Desk, found: Mapping[bytes, Fingerprint], written: Written) -> None:
    """Record what stands at some paths as written by the call that `written` tells of."""
    if not found:
        return
    layout, project = desk.store.layout, desk.store.project
    ledger = load_ledger(layout, project)
    ledger |= {path: replace(written, content=content) for path, content in found.items()}
    save_ledger(layout, project, ledger)
