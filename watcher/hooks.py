"""What an agent's event sets in motion: a checkpoint before, the ledger after.

Owns the steps from an event to its answer, the same for every agent. When a turn begins belongs to `watcher.turns`;
how a project's state is found to `watcher.engine`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from config.errors import CheckpointError
from config.settings import OnFailure
from store.checkpoint import Kind, Label, take_checkpoint
from store.errors import (
    DeadlinePassedError,
    ObjectMissingError,
    StoreBusyError,
    StoreError,
    TooBroadError,
    TooManyFilesError,
)
from store.files import find_free_bytes
from store.git import find_git
from store.ledger import NOTHING, Written, fingerprint_entry, fingerprint_file, load_ledger, save_ledger
from store.objects import Oid
from store.project import resolve_path
from store.tree import compare
from watcher.events import CONTAINERS, EventKind, Status, Why
from watcher.reasons import describe_command, describe_file_tool
from watcher.turns import OpenCall, advance, begin_call, end_call, mark_served
from watcher.view import describe_checkpoint

if TYPE_CHECKING:
    from store.ledger import Fingerprint
    from store.objects import Commit
    from store.project import Project
    from watcher.events import Event
    from watcher.home import Desk, Home


@dataclass(frozen=True, slots=True)
class Attempt:
    """Say what came of protecting one project."""

    workdir: str
    why: Why | None
    """Why no checkpoint was taken; nothing when one was."""
    checkpoint: Commit | None = None
    """What was taken, or what already holds the state."""
    detail: str = ""
    """More about a failure, one sentence."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Say what came of an event."""

    attempts: tuple[Attempt, ...] = ()
    """One for each project that the event touched."""
    why: Why | None = None
    """Why there was nothing to do."""
    is_blocked: bool = False
    """Whether the tool is not to run."""

    @property
    def message(self) -> str:
        """Return what the user has to know; empty when everything is well."""
        failed = [attempt for attempt in self.attempts if attempt.why is not None and attempt.why.is_unprotected]
        if not failed:
            return ""
        named = "; ".join(f"{attempt.workdir} ({attempt.detail or attempt.why})" for attempt in failed)
        refused = "The tool was refused, since " if self.is_blocked else ""
        return f"hermes-checkpoints: {refused}not protected: {named}"

    def to_json(self) -> dict[str, object]:
        """Return the answer as agents get it."""
        first = self.attempts[0] if self.attempts else None
        why = first.why if first is not None else self.why
        raw: dict[str, object] = {
            "ok": not any(attempt.why is Why.ERROR for attempt in self.attempts),
            "taken": any(attempt.why is None for attempt in self.attempts),
            "why": why.value if why is not None else None,
            "checkpoint": describe_checkpoint(first.checkpoint) if first is not None and first.checkpoint else None,
        }
        if len(self.attempts) > 1:
            raw["checkpoints"] = [
                {
                    "workdir": attempt.workdir,
                    "taken": attempt.why is None,
                    "why": attempt.why.value if attempt.why is not None else None,
                    "checkpoint": describe_checkpoint(attempt.checkpoint) if attempt.checkpoint else None,
                }
                for attempt in self.attempts
            ]
        if self.message:
            raw["message"] = self.message
        if self.is_blocked:
            raw["blocked"] = True
        return raw


_NOT_BY_NAME = "(call)"
"""What a call without an id is remembered by."""


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
    attempts = tuple(_protect(home, event, project, paths, now) for project, paths in touched.items())
    settings, _ = home.settings()
    failed = any(attempt.why is not None and attempt.why.is_unprotected for attempt in attempts)
    return Answer(attempts, is_blocked=failed and settings.on_failure is OnFailure.BLOCK)


def _session_switch(home: Home, event: Event) -> bool | None:
    """Return the session's own word on checkpoints, said now or earlier."""
    if event.checkpoints is not None:
        return event.checkpoints
    session = home.sessions.find(event.session)
    return session.checkpoints if session is not None else None


def _find_touched(home: Home, event: Event) -> dict[Project, list[str]]:
    """Return the projects that a call touches, each with the resolved paths that were named in it."""
    touched: dict[Project, list[str]] = {}
    for path in event.paths:
        touched.setdefault(home.find_project(path, event.cwd), []).append(resolve_path(path, event.cwd))
    if event.is_shell:
        touched.setdefault(home.find_project(event.cwd, event.cwd), [])
    return touched


def _protect(home: Home, event: Event, project: Project, paths: list[str], now: float) -> Attempt:
    """Make sure that the state before a call can be brought back, and say how that went."""
    settings, _ = home.settings()
    try:
        home.refuse_too_broad(project)
        if not home.is_in_effect(project, settings, _session_switch(home, event)):
            return Attempt(project.workdir, Why.DISABLED)
        if find_git(os.environ.get("PATH")) is None:
            return Attempt(project.workdir, Why.NO_GIT, detail="git is not installed")
        with home.work_on(project, wait_s=settings.hook_deadline_s) as desk:
            return _protect_under_lock(desk, event, paths, now)
    except CheckpointError as error:
        return Attempt(project.workdir, _why_of(error), detail=error.message)
    except OSError as error:
        return Attempt(project.workdir, Why.ERROR, detail=error.strerror or str(error))


def _protect_under_lock(desk: Desk, event: Event, paths: list[str], now: float) -> Attempt:
    home, project = desk.home, desk.store.project
    session, turn = advance(
        home.sessions.find(event.session), event, now=now, idle_gap_s=desk.settings.watch.idle_gap_s
    )
    is_served = session.is_served(turn, project.hash)
    attempt = Attempt(project.workdir, Why.ALREADY_THIS_TURN)
    named = [relative for path in paths if (relative := project.relative(path))]
    if not is_served or event.is_shell or desk.has_unpinned(named):
        attempt, tree = _look(desk, event, named, turn, now=now, is_served=is_served)
        if attempt.checkpoint is not None:
            session = mark_served(session, turn, project.hash, attempt.checkpoint.oid.hex())
        if tree is not None and event.is_shell:
            call = event.call or _NOT_BY_NAME
            known = session.open_calls.get(call)
            trees = {**(known.trees if known else {}), project.hash: tree.hex()}
            session = begin_call(session, call, OpenCall(trees, turn, event.tool))
    home.sessions.keep(event.session, session)
    return attempt


def _look(
    desk: Desk, event: Event, named: list[bytes], turn: str, *, now: float, is_served: bool
) -> tuple[Attempt, Oid | None]:
    """Bring the baseline up to date, and make it a checkpoint unless the turn has one.

    Returns:
        How it went, and the tree of the state; nothing when it could not be recorded.
    """
    project = desk.store.project
    try:
        if find_free_bytes(desk.store.layout.base) < desk.settings.min_free_bytes:
            raise _NoSpaceError(f"less than {desk.settings.min_free_mb} MB of disk are free")
        has_new = desk.has_unpinned(named)
        baseline = desk.bring_up_to_date(named)
        if is_served and not has_new:
            return Attempt(project.workdir, Why.ALREADY_THIS_TURN), baseline.tree
        label = Label(Kind.TOOL, _describe(event, named), now, event.session or None, turn, event.tool or None)
        taken = take_checkpoint(desk.store, baseline, label, keep_count=desk.settings.max_snapshots)
    except (CheckpointError, OSError) as error:
        detail = error.message if isinstance(error, CheckpointError) else error.strerror or str(error)
        why = _why_of(error)
        desk.note_attempt(now=now, failure=f"{why}: {detail}")
        return Attempt(project.workdir, why, detail=detail), None
    desk.note_attempt(now=now)
    return Attempt(project.workdir, None if taken.is_new else Why.UNCHANGED, taken.checkpoint), baseline.tree


class _NoSpaceError(StoreError):
    """Report that there is too little disk to add anything."""

    kind = "no-space"


def _why_of(error: Exception) -> Why:
    match error:
        case StoreBusyError():
            return Why.BUSY
        case DeadlinePassedError():
            return Why.DEADLINE
        case TooManyFilesError():
            return Why.TOO_MANY_FILES
        case TooBroadError():
            return Why.TOO_BROAD
        case _NoSpaceError():
            return Why.NO_SPACE
        case _:
            return Why.ERROR


def _describe(event: Event, named: list[bytes]) -> str:
    """Return the reason of the checkpoint before a call."""
    if event.command is not None and not event.paths:
        return describe_command(event.command)
    return describe_file_tool(event.tool, [os.fsdecode(path) for path in named])


def _after_tool(home: Home, event: Event, now: float) -> Answer:
    """Record what a call left behind. A call that was refused left nothing."""
    if event.status is Status.BLOCKED or (event.status is Status.ERROR and not event.is_shell):
        return Answer(why=Why.NOT_MUTATING)
    if not event.paths and not event.is_shell:
        return Answer(why=Why.NOT_MUTATING)
    settings, _ = home.settings()
    for project, paths in _find_touched(home, event).items():
        try:
            home.refuse_too_broad(project)
            if not home.is_in_effect(project, settings, _session_switch(home, event)):
                continue
            with home.work_on(project, wait_s=settings.hook_deadline_s) as desk:
                _record(desk, event, paths, now)
        except (CheckpointError, OSError) as error:
            detail = error.message if isinstance(error, CheckpointError) else error.strerror or str(error)
            return Answer((Attempt(project.workdir, _why_of(error), detail=f"the change was not recorded: {detail}"),))
    return Answer(why=Why.NOT_MUTATING)


def _record(desk: Desk, event: Event, paths: list[str], now: float) -> None:
    """Write into the ledger what a call left at each path it changed."""
    home, project = desk.home, desk.store.project
    session, turn = advance(
        home.sessions.find(event.session), event, now=now, idle_gap_s=desk.settings.watch.idle_gap_s
    )
    found: dict[bytes, Fingerprint] = {}
    for path in paths:
        relative, content = project.relative(path), fingerprint_file(os.fsencode(path))
        if relative and content is not None:
            found[relative] = content
    call = event.call or _NOT_BY_NAME
    if event.is_shell and (opened := session.open_calls.get(call)) is not None:
        found |= _find_effects(desk, opened)
        session = end_call(session, call)
    _write_ledger(desk, found, Written(NOTHING, now, event.session or None, turn, event.tool or None))
    home.sessions.keep(event.session, session)


def _find_effects(desk: Desk, opened: OpenCall) -> dict[bytes, Fingerprint]:
    """Return what every path that changed since a call began holds now."""
    objects, project = desk.store.objects, desk.store.project
    before = opened.trees.get(project.hash)
    if before is None:
        return {}
    after = desk.bring_up_to_date().tree
    try:
        changed = list(compare(objects, Oid(bytes.fromhex(before)), after))
    except ObjectMissingError:
        return {}
    return {difference.path: fingerprint_entry(objects, difference.new) for difference in changed}


def _write_ledger(desk: Desk, found: dict[bytes, Fingerprint], written: Written) -> None:
    """Record what stands at some paths as written by the call that `written` tells of."""
    if not found:
        return
    layout, project = desk.store.layout, desk.store.project
    ledger = load_ledger(layout, project)
    ledger |= {path: replace(written, content=content) for path, content in found.items()}
    save_ledger(layout, project, ledger)


def _note_turn(home: Home, event: Event, now: float) -> Answer:
    """Follow a session; nothing is written before anything is in effect."""
    settings, _ = home.settings()
    if not home.layout.exists() and event.checkpoints is not True:
        return Answer(why=Why.NOT_MUTATING)
    try:
        project = home.find_project(event.cwd, event.cwd)
        with home.work_on(project, wait_s=settings.hook_deadline_s) as desk:
            _follow_session(desk, event, now)
    except (CheckpointError, OSError) as error:
        detail = error.message if isinstance(error, CheckpointError) else error.strerror or str(error)
        return Answer((Attempt(event.cwd, _why_of(error), detail=detail),))
    return Answer(why=Why.NOT_MUTATING)


def _follow_session(desk: Desk, event: Event, now: float) -> None:
    """Remember what an event says of its session. Calls whose end never came are not waited for."""
    sessions = desk.home.sessions
    if event.kind is EventKind.SESSION_END:
        sessions.forget(event.session, now=now)
        return
    known = sessions.find(event.session)
    session, _ = advance(known, event, now=now, idle_gap_s=desk.settings.watch.idle_gap_s)
    if event.kind is EventKind.TURN_START:
        session = replace(session, open_calls={})
    sessions.keep(event.session, session)
