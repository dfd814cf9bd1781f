"""What an agent tells us, in one form for every agent, and what we answer.

Owns the generic event and the words of its answer. Translating an agent's own payload belongs to `watcher.agents`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from config.errors import UsageError
from store.files import to_path

if TYPE_CHECKING:
    from collections.abc import Mapping


class EventKind(StrEnum):
    """Say what happened in the agent."""

    SESSION_START = "session_start"
    TURN_START = "turn_start"
    BEFORE_TOOL = "before_tool"
    AFTER_TOOL = "after_tool"
    TURN_END = "turn_end"
    SESSION_END = "session_end"


class Status(StrEnum):
    """Say how a tool call ended."""

    OK = "ok"
    ERROR = "error"
    BLOCKED = "blocked"


class Why(StrEnum):
    """Say why no checkpoint was taken."""

    UNCHANGED = "unchanged"
    ALREADY_THIS_TURN = "already-this-turn"
    DISABLED = "disabled"
    NOT_MUTATING = "not-mutating"
    CONTAINER = "container"
    TOO_BROAD = "too-broad"
    TOO_MANY_FILES = "too-many-files"
    BUSY = "busy"
    DEADLINE = "deadline"
    NO_GIT = "no-git"
    NO_SPACE = "no-space"
    ERROR = "error"

    @property
    def is_unprotected(self) -> bool:
        """Tell whether the tool's change can't be taken back though it should be possible."""
        return self not in (Why.UNCHANGED, Why.ALREADY_THIS_TURN, Why.DISABLED, Why.NOT_MUTATING)


CONTAINERS = frozenset({"docker", "singularity", "modal", "daytona", "vercel_sandbox"})
"""Back ends whose paths are not of this machine."""


@dataclass(frozen=True, slots=True)
class Event:
    """Hold one generic event."""

    kind: EventKind
    session: str = ""
    """One run of an agent; empty when it does not say."""
    turn: str | None = None
    """One user prompt; nothing when the agent does not say."""
    tool: str = ""
    call: str = ""
    """The tool call's own id; empty when the agent has none."""
    paths: tuple[str, ...] = ()
    """What a file tool changes, absolute or relative to `cwd`."""
    command: str | None = None
    """What a shell tool runs."""
    changes_anything: bool = False
    """Whether a tool without paths or a command may change files all the same."""
    cwd: str = "/"
    """Absolute."""
    pid: int | None = None
    """The process whose work the call is, which may outlive what the agent tells of it; nothing if it does not say."""
    backend: str = "local"
    checkpoints: bool | None = None
    """The session's own switch; nothing when it has none."""
    status: Status = Status.OK

    @property
    def is_shell(self) -> bool:
        """Tell whether what the tool changes can't be known beforehand."""
        return self.command is not None or self.changes_anything


def parse_event(raw: Mapping[str, object]) -> Event:
    """Return the generic event in a JSON object; unknown fields are ignored.

    Raises:
        UsageError: It is no event, or a field has the wrong type.
    """
    kind = raw.get("event")
    if kind not in tuple(EventKind):
        allowed = ", ".join(EventKind)
        raise UsageError(f"The event's field `event` is {kind!r}; it must be one of: {allowed}.")
    paths = raw.get("paths") or []
    if not isinstance(paths, list) or any(to_path(path) is None for path in paths):
        raise UsageError("The event's field `paths` must be a list of file names.")
    status = raw.get("status") or Status.OK
    if status not in tuple(Status):
        raise UsageError(f"The event's field `status` is {status!r}; it must be one of: {', '.join(Status)}.")
    cwd = _text(raw, "cwd") or "/"
    if not cwd.startswith("/") or to_path(cwd) is None:
        raise UsageError("The event's field `cwd` must be an absolute directory.")
    checkpoints = raw.get("checkpoints")
    if checkpoints is not None and not isinstance(checkpoints, bool):
        raise UsageError("The event's field `checkpoints` must be true or false.")
    pid = raw.get("pid")
    if pid is not None and (not isinstance(pid, int) or isinstance(pid, bool) or pid <= 0):
        raise UsageError("The event's field `pid` must be the number of a process.")
    return Event(
        kind=EventKind(str(kind)),
        session=_text(raw, "session") or "",
        turn=_text(raw, "turn") or None,
        tool=_text(raw, "tool") or "",
        call=_text(raw, "call") or "",
        paths=tuple(paths),
        command=_text(raw, "command"),
        cwd=cwd,
        pid=pid,
        backend=_text(raw, "backend") or "local",
        checkpoints=checkpoints,
        status=Status(str(status)),
    )


def _text(raw: Mapping[str, object], name: str) -> str | None:
    value = raw.get(name)
    if value is not None and not isinstance(value, str):
        raise UsageError(f"The event's field `{name}` must be text.")
    return value
