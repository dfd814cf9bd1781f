"""Before a tool runs: make sure that the state before it can be brought back.

Owns the steps from a call to the checkpoint of each project it touches, at most one in a turn. Nothing here ever
fails the call: what goes wrong is an answer.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from config.errors import CheckpointError
from store.checkpoint import Kind, Label, record_state, take_checkpoint
from store.entries import Oid
from store.git import find_git
from store.state import state_of
from store.tree import look_up, splice
from watcher.answers import Attempt, explain
from watcher.events import Why
from watcher.processes import find_owner
from watcher.reasons import describe_command, describe_file_tool
from watcher.turns import OpenCall, advance, begin_call, mark_served

if TYPE_CHECKING:
    from store.baseline import Baseline
    from store.project import Project
    from watcher.events import Event
    from watcher.home import Desk, Home
    from watcher.turns import Session


def protect(home: Home, event: Event, project: Project, paths: list[str], *, now: float) -> Attempt:
    """Protect one project from a call, and say how that went.

    Args:
        home: Where the project and its checkpoints are.
        event: The call that is about to run.
        project: A project that it touches.
        paths: What it names in that project, resolved.
        now: Seconds since the epoch.
    """
    settings, _ = home.settings()
    is_wanted = True
    try:
        is_wanted = home.is_in_effect(project, settings, home.find_session_switch(event))
        home.refuse_too_broad(project)
        if not is_wanted:
            return Attempt(project.workdir, Why.DISABLED)
        if find_git(os.environ.get("PATH")) is None:
            return Attempt(project.workdir, Why.NO_GIT, detail="git is not installed")
        with home.work_on(project, wait_s=settings.hook_deadline_s) as desk:
            home.engine(project).allow_watching()
            named = [relative for path in paths if (relative := project.relative(path))]
            return _protect_under_lock(desk, event, named, now)
    except (CheckpointError, OSError) as error:
        why, detail = explain(error)
        return Attempt(project.workdir, why, detail=detail, is_wanted=is_wanted)


def _protect_under_lock(desk: Desk, event: Event, named: list[bytes], now: float) -> Attempt:
    """Take the turn's checkpoint if it has none, and remember where a call began whose changes can't be known."""
    project, sessions = desk.store.project, desk.home.sessions
    session, turn = advance(sessions.find(event.session), event, now=now, idle_gap_s=desk.settings.watch.idle_gap_s)
    served = session.find_served(turn, project.hash)
    attempt = Attempt(project.workdir, Why.ALREADY_THIS_TURN)
    if served is None or event.is_shell or desk.list_unpinned(named):
        label = Label(Kind.TOOL, _describe(event, named), now, event.session or None, turn, event.tool or None)
        try:
            attempt, baseline = _look(desk, label, named, served)
        except (CheckpointError, OSError) as error:
            why, detail = explain(error)
            desk.note_attempt(now=now, failure=f"{why}: {detail}")
            attempt = Attempt(project.workdir, why, detail=detail)
        else:
            desk.note_attempt(now=now)
            state = _record_where_it_stands(desk, baseline, label, attempt) if event.is_shell else None
            session = _remember(session, event, label, attempt, project, state)
    sessions.keep(event.session, session)
    return attempt


def _record_where_it_stands(desk: Desk, baseline: Baseline, label: Label, attempt: Attempt) -> Oid:
    """Return a commit that holds the state before a call: the checkpoint of this moment, or one in no history."""
    checkpoint = attempt.checkpoint
    if checkpoint is not None and state_of(checkpoint) == baseline.state:
        return checkpoint.oid
    return record_state(desk.store, baseline, label)


def _remember(
    session: Session, event: Event, label: Label, attempt: Attempt, project: Project, state: Oid | None
) -> Session:
    """Return the session after a look at a project."""
    turn = label.turn or ""
    if attempt.checkpoint is not None:
        session = mark_served(session, turn, project.hash, attempt.checkpoint.oid.hex())
    if state is not None:
        opened = OpenCall({project.hash: state.hex()}, turn, event.tool, label.now, owner=find_owner(event.pid))
        session = begin_call(session, event.call, opened)
    return session


def _look(desk: Desk, label: Label, named: list[bytes], served: str | None) -> tuple[Attempt, Baseline]:
    """Bring the baseline up to date, and make it a checkpoint unless the turn has one.

    Args:
        desk: The project, under the lock.
        label: What the checkpoint says of itself.
        named: What the call names in the project.
        served: The turn's checkpoint, in hex, if it has one.
    """
    workdir = desk.store.project.workdir
    desk.refuse_full_disk()
    added = desk.list_unpinned(named)
    baseline = desk.bring_up_to_date(added)
    if served is None:
        taken = take_checkpoint(desk.store, baseline, label, keep_count=desk.settings.max_snapshots)
        return Attempt(workdir, None if taken.is_new else Why.UNCHANGED, taken.checkpoint), baseline
    completed = _complete(desk, baseline, added, served)
    if completed is None:
        return Attempt(workdir, Why.ALREADY_THIS_TURN), baseline
    taken = take_checkpoint(desk.store, completed, label, keep_count=desk.settings.max_snapshots)
    return Attempt(workdir, None, taken.checkpoint), baseline


def _complete(desk: Desk, baseline: Baseline, added: list[bytes], served: str) -> Baseline | None:
    """Return the turn's first state with the ignored files that a call has named only now, as they are before it.

    Returns:
        Nothing when there are none of them.
    """
    objects = desk.store.objects
    entries = {path: entry for path in added if (entry := look_up(objects, baseline.tree, path)) is not None}
    if not entries:
        return None
    first = objects.read_commit(Oid(bytes.fromhex(served)))
    return replace(baseline, tree=splice(objects, first.tree, entries))


def _describe(event: Event, named: list[bytes]) -> str:
    """Return the reason of the checkpoint before a call."""
    if event.command is not None and not event.paths:
        return describe_command(event.command)
    return describe_file_tool(event.tool, [os.fsdecode(path) for path in named])
