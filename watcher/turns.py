"""Sessions and turns: which user prompt a tool call belongs to, and which projects it already has a checkpoint of.

Pure: no clock, no disk. Keeping sessions across processes belongs to `watcher.sessions`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from watcher.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from store.layout import ProjectHash
    from watcher.events import Event

NOT_BY_NAME = "(call)"
"""What a call without an id is remembered by."""
_KEPT_NOTICES = 5
_KEPT_TURNS = 50
"""Turns of one session that are remembered, for calls that come late and for counting turns back."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Hold what is known of one user prompt."""

    name: str
    served: Mapping[ProjectHash, str] = field(default_factory=lambda: MappingProxyType({}))
    """By project whose first state of this turn is recorded: the checkpoint that holds it, in hex."""
    reopened: frozenset[ProjectHash] = frozenset()
    """The projects among these that were rolled back since: what comes next finds a state that is in no checkpoint."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Name a process for good: its number alone may come again."""

    pid: int
    started_at: float
    """Seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class OpenCall:
    """Hold where projects stood when a call began whose changes can't be known beforehand."""

    states: Mapping[ProjectHash, str]
    """By project: the commit that holds the state before the call, in hex."""
    turn: str
    tool: str
    began_at: float = 0.0
    """Seconds since the epoch."""
    count: int = 1
    """How many calls of this name are at work: those without ids have one name."""
    owner: Owner | None = None
    """The process whose work the call is; nothing when the agent does not say."""


@dataclass(frozen=True, slots=True)
class Session:
    """Hold what is known of one run of an agent."""

    turns: tuple[Turn, ...] = ()
    """The newest one last."""
    last_event: float = 0.0
    """Seconds since the epoch."""
    is_turn_over: bool = False
    """Whether the end of the newest turn was announced."""
    announces_turns: bool = False
    """Whether the agent ever named a turn or announced one, so that a pause means nothing."""
    checkpoints: bool | None = None
    """The session's own switch; nothing when it has none."""
    notices: tuple[str, ...] = ()
    """What the agent is to be told at its next turn."""
    open_calls: Mapping[str, OpenCall] = field(default_factory=lambda: MappingProxyType({}))
    """Calls that began and did not end yet, by their id."""

    def find_turn(self, name: str) -> Turn | None:
        """Return a remembered turn."""
        return next((turn for turn in reversed(self.turns) if turn.name == name), None)

    def find_served(self, turn: str, project: ProjectHash) -> str | None:
        """Return the checkpoint, in hex, of the first state that a turn found a project in; nothing without one.

        After a rollback the restored state is the new first state.
        """
        known = self.find_turn(turn)
        return known.served.get(project) if known is not None and project not in known.reopened else None


def advance(session: Session | None, event: Event, *, now: float, idle_gap_s: float) -> tuple[Session, str]:
    """Return a session after an event, and the turn that the event belongs to.

    A turn is what the agent names; else it begins where the agent announces one; else after a pause.

    Args:
        session: The session before; nothing for a new one.
        event: What happened.
        now: Seconds since the epoch.
        idle_gap_s: The pause that ends a turn of an agent that announces none.
    """
    known = session or Session()
    if event.checkpoints is not None:
        known = replace(known, checkpoints=event.checkpoints)
    if event.kind is EventKind.SESSION_START:
        return replace(known, last_event=now, is_turn_over=True), known.turns[-1].name if known.turns else ""
    turn = _find_turn(known, event, now=now, idle_gap_s=idle_gap_s)
    if known.find_turn(turn) is None:
        known = replace(known, turns=(*known.turns, Turn(turn))[-_KEPT_TURNS:], is_turn_over=False)
    announces = event.turn is not None or event.kind is EventKind.TURN_START
    return replace(
        known,
        last_event=now,
        is_turn_over=known.is_turn_over or event.kind is EventKind.TURN_END,
        announces_turns=known.announces_turns or announces,
    ), turn


def _find_turn(session: Session, event: Event, *, now: float, idle_gap_s: float) -> str:
    """Return the name of the turn that an event belongs to, which may be a new one."""
    if event.turn is not None:
        return event.turn
    newest = session.turns[-1].name if session.turns else None
    # A clock that was set back far tells nothing of how long the pause was, and one checkpoint more harms nobody.
    is_late = not session.announces_turns and abs(now - session.last_event) > idle_gap_s
    starts_work = event.kind is EventKind.BEFORE_TOOL and (session.is_turn_over or is_late)
    if newest is None or event.kind is EventKind.TURN_START or starts_work:
        return _next_name(session)
    return newest


def _next_name(session: Session) -> str:
    """Return a name for a turn that the agent gave none."""
    numbers = [int(turn.name[1:]) for turn in session.turns if turn.name[:1] == "t" and turn.name[1:].isdecimal()]
    return f"t{max(numbers, default=0) + 1}"


def mark_served(session: Session, turn: str, project: ProjectHash, checkpoint: str) -> Session:
    """Return a session in which a turn has its checkpoint of a project."""
    return replace(
        session,
        turns=tuple(
            replace(
                each,
                served=MappingProxyType({**each.served, project: checkpoint}),
                reopened=each.reopened - {project},
            )
            if each.name == turn
            else each
            for each in session.turns
        ),
    )


def reopen(session: Session, project: ProjectHash, notice: str) -> Session:
    """Return a session in which no turn has its checkpoint of a project any more, since that was rolled back.

    Args:
        session: The session before.
        project: What was rolled back.
        notice: What the agent is told at its next turn, if it ever changed the project.
    """
    is_concerned = any(project in turn.served for turn in session.turns)
    return replace(
        session,
        notices=(*session.notices, notice)[-_KEPT_NOTICES:] if is_concerned else session.notices,
        turns=tuple(
            replace(each, reopened=each.reopened | {project}) if project in each.served else each
            for each in session.turns
        ),
    )


def begin_call(session: Session, call: str, opened: OpenCall) -> Session:
    """Return a session in which a call whose changes can't be known beforehand has begun.

    An agent without ids may have several at work; what changed since the first of them began is theirs. A call with an
    id that begins twice was announced twice.
    """
    name, known = call or NOT_BY_NAME, session.open_calls.get(call or NOT_BY_NAME)
    if known is not None:
        states = {**opened.states, **known.states}
        is_another = not call and not states.keys() > known.states.keys()
        opened = replace(known, states=states, count=known.count + is_another)
    return replace(session, open_calls=MappingProxyType({**session.open_calls, name: opened}))


def end_call(session: Session, call: str, project: ProjectHash) -> Session:
    """Return a session in which a call has ended, as far as one project is concerned."""
    name = call or NOT_BY_NAME
    opened = session.open_calls.get(name)
    if opened is None:
        return session
    calls = {each: other for each, other in session.open_calls.items() if each != name}
    states = {each: state for each, state in opened.states.items() if each != project}
    if opened.count > 1:
        calls[name] = replace(opened, count=opened.count - 1)
    elif states:
        calls[name] = replace(opened, states=states)
    return replace(session, open_calls=MappingProxyType(calls))


def forget_project(session: Session, project: ProjectHash) -> Session:
    """Return a session that knows nothing of one project."""
    calls = {
        name: replace(call, states={each: state for each, state in call.states.items() if each != project})
        for name, call in session.open_calls.items()
    }
    return replace(
        session,
        turns=tuple(
            replace(
                turn,
                served=MappingProxyType({each: oid for each, oid in turn.served.items() if each != project}),
                reopened=turn.reopened - {project},
            )
            for turn in session.turns
        ),
        open_calls=MappingProxyType(
            {name: call for name, call in calls.items() if call.states or not session.open_calls[name].states}
        ),
    )


def count_turns_since(session: Session, project: ProjectHash, checkpoints: Collection[str]) -> int:
    """Return how many turns have to be undone to be back where a project was.

    Args:
        session: The session whose conversation it is.
        project: The project that went back.
        checkpoints: In hex: the checkpoint that it went back to, and every newer one.
    """
    began_since = [turn.served.get(project) in checkpoints for turn in session.turns]
    return len(began_since) - began_since.index(True) if True in began_since else 0
