"""What an agent's event sets in motion, the same for every agent.

Owns the way from an event to the projects it touches. What is done before a call belongs to `watcher.protection`,
what is done after it to `watcher.recording`, and when a turn begins to `watcher.turns`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from config.choices import OnFailure
from config.errors import CheckpointError
from store.project import resolve_path
from watcher.answers import Answer, Attempt, explain
from watcher.events import CONTAINERS, EventKind, Status, Why
from watcher.protection import protect
from watcher.recording import forget_call, record
from watcher.turns import advance

if TYPE_CHECKING:
    from store.project import Project
    from watcher.events import Event
    from watcher.home import Desk, Home


def handle_event(home: Home, event: Event, *, now: float) -> Answer:
    """Do what an event asks for. Failures are answers; the tool call is never failed by them.

    Args:
        home: Where the project and its checkpoints are.
        event: What happened.
        now: Seconds since the epoch.
    """
    if event.backend in CONTAINERS:
        return Answer(why=Why.CONTAINER)
    match event.kind:
        case EventKind.BEFORE_TOOL:
            return _before_tool(home, event, now)
        case EventKind.AFTER_TOOL:
            return _after_tool(home, event, now)
        case _:
            return _note_turn(home, event, now)


def _before_tool(home: Home, event: Event, now: float) -> Answer:
    if not event.paths and not event.is_shell:
        return Answer(why=Why.NOT_MUTATING)
    touched = _find_touched(home, event)
    attempts = tuple(protect(home, event, project, paths, now=now) for project, paths in touched.items())
    settings, _ = home.settings()
    answer = Answer(attempts)
    return replace(answer, is_blocked=answer.is_alarming and settings.on_failure is OnFailure.BLOCK)


def _find_touched(home: Home, event: Event) -> dict[Project, list[str]]:
    """Return the projects that a call touches, each with the resolved paths that were named in it."""
    touched: dict[Project, list[str]] = {}
    for path in event.paths:
        touched.setdefault(home.find_project(path, event.cwd), []).append(resolve_path(path, event.cwd))
    if event.is_shell:
        touched.setdefault(home.find_project(event.cwd, event.cwd), [])
    return touched


def _after_tool(home: Home, event: Event, now: float) -> Answer:
    """Record what a call left behind. One that was refused left nothing, a shell command that failed may have."""
    if not (event.paths or event.is_shell) or (event.status is Status.ERROR and not event.is_shell):
        return Answer(why=Why.NOT_MUTATING)
    settings, _ = home.settings()
    failed = []
    for project, paths in _find_touched(home, event).items():
        try:
            home.refuse_too_broad(project)
            if home.is_in_effect(project, settings, home.find_session_switch(event)):
                with home.work_on(project, wait_s=settings.hook_deadline_s) as desk:
                    if event.status is Status.BLOCKED:
                        forget_call(desk, event)
                    else:
                        record(desk, event, paths, now=now)
        except (CheckpointError, OSError) as error:
            why, detail = explain(error)
            failed.append(Attempt(project.workdir, why, detail=f"the change was not recorded: {detail}"))
    return Answer(tuple(failed), why=Why.NOT_MUTATING)


def _note_turn(home: Home, event: Event, now: float) -> Answer:
    """Follow a session; nothing is written before anything is in effect."""
    settings, _ = home.settings()
    if not home.layout.exists() and event.checkpoints is not True:
        return Answer(why=Why.NOT_MUTATING)
    try:
        project = home.find_project(event.cwd, event.cwd)
        with home.work_on(project, wait_s=settings.hook_deadline_s) as desk:
            notices = _follow_session(desk, event, now)
    except (CheckpointError, OSError) as error:
        why, detail = explain(error)
        return Answer((Attempt(event.cwd, why, detail=detail),))
    return Answer(why=Why.NOT_MUTATING, context="\n".join(notices))


def _follow_session(desk: Desk, event: Event, now: float) -> tuple[str, ...]:
    """Remember what an event says of its session. Calls whose end never came are not waited for.

    Returns:
        What the agent is to be told now.
    """
    sessions = desk.home.sessions
    if event.kind is EventKind.SESSION_END:
        sessions.forget(event.session)
        return ()
    known = sessions.find(event.session)
    session, _ = advance(known, event, now=now, idle_gap_s=desk.settings.watch.idle_gap_s)
    notices: tuple[str, ...] = ()
    if event.kind is EventKind.TURN_START:
        notices = session.notices
        session = replace(session, open_calls={}, notices=())
    sessions.keep(event.session, session)
    return notices
