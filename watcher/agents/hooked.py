"""Agents whose hooks get one JSON object: where each fact stands in it, as a table.

Owns the reading of such a payload. Each agent's own table and its way of being answered are in a module of its own.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from config.errors import UsageError
from store.files import to_path
from watcher.agents.answer import HookOutput
from watcher.agents.calls import Call, Tools, describe_call, name_call
from watcher.events import Event, EventKind, Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from watcher.answers import Answer

CLAUDE_KINDS = {
    "SessionStart": EventKind.SESSION_START,
    "UserPromptSubmit": EventKind.TURN_START,
    "PreToolUse": EventKind.BEFORE_TOOL,
    "PostToolUse": EventKind.AFTER_TOOL,
    "PostToolUseFailure": EventKind.AFTER_TOOL,
    "Stop": EventKind.TURN_END,
    "SessionEnd": EventKind.SESSION_END,
}
"""The events of Claude Code, which other agents took over."""
Field = tuple[str, ...]
"""Where a value stands: the name of a field, or the names on the way to one."""


@dataclass(frozen=True, slots=True)
class Form:
    """Hold where an agent's payloads say what; of several places the first that says something counts."""

    agent: str
    """The agent's name, for errors."""
    kinds: Mapping[str, EventKind]
    """What each of its events means; those that are missing mean nothing to us."""
    tools: Tools
    event: tuple[Field, ...] = (("hook_event_name",),)
    session: tuple[Field, ...] = (("session_id",),)
    turn: tuple[Field, ...] = ()
    tool: tuple[Field, ...] = (("tool_name",),)
    arguments: tuple[Field, ...] = (("tool_input",),)
    call: tuple[Field, ...] = ()
    cwd: tuple[Field, ...] = (("cwd",),)
    own_cwd: str = ""
    """The argument by which a call has a directory of its own."""
    status: tuple[Field, ...] = ()
    failures: frozenset[str] = frozenset()
    """Events that come after calls that failed."""


class HookedAgent(ABC):
    """Translate the payloads of one agent by its form."""

    form: Form

    def translate(self, payload: Mapping[str, object]) -> Event | None:
        """Return the event in a payload; events and tools that change nothing have none, or one without a change.

        Raises:
            UsageError: It does not say what happened.
        """
        form, name = self.form, find_text(payload, self.form.event)
        if not name:
            raise UsageError(f"The payload does not name an event: it is not one of {form.agent}'s.")
        kind = form.kinds.get(name)
        if kind is None:
            return None
        tool, arguments = find_text(payload, form.tool), find(payload, form.arguments)
        is_call = kind in (EventKind.BEFORE_TOOL, EventKind.AFTER_TOOL)
        call = describe_call(form.tools, tool, arguments) if is_call else Call()
        return Event(
            kind=kind,
            session=find_text(payload, form.session),
            turn=find_text(payload, form.turn) or None,
            tool=tool if is_call else "",
            call=(find_text(payload, form.call) or name_call(tool, arguments)) if is_call else "",
            paths=call.paths,
            command=call.command,
            changes_anything=call.changes_anything,
            cwd=_find_directory(payload, form, arguments),
            status=_find_status(payload, form, name),
        )

    def answer(self, event: Event, answer: Answer) -> HookOutput:
        """Stay silent, unless the tool is refused or goes on unprotected, or the agent has to know of something."""
        if event.kind is EventKind.TURN_START and answer.context:
            return self.tell(answer.context)
        if event.kind is not EventKind.BEFORE_TOOL or not answer.is_alarming:
            return HookOutput()
        return self.refuse(answer.message) if answer.is_blocked else self.warn(answer.message)

    @abstractmethod
    def tell(self, context: str) -> HookOutput:
        """Return what lets the model know of something at the beginning of a turn."""

    @abstractmethod
    def refuse(self, reason: str) -> HookOutput:
        """Return what keeps a tool from running."""

    def warn(self, message: str) -> HookOutput:
        """Return what tells the user that a tool runs unprotected."""
        return as_json({"systemMessage": message})


def as_json(answer: Mapping[str, object]) -> HookOutput:
    """Return an answer as one line of JSON."""
    return HookOutput(stdout=json.dumps(answer) + "\n")


def find(payload: Mapping[str, object], places: tuple[Field, ...]) -> object:
    """Return the first value that stands at one of some places; nothing when there is none."""
    for place in places:
        value: object = payload
        for name in place:
            value = value.get(name) if isinstance(value, dict) else None
        if value is not None:
            return value
    return None


def find_text(payload: Mapping[str, object], places: tuple[Field, ...]) -> str:
    """Return the first text at one of some places; one of another type, or no possible name, is as if not there."""
    for place in places:
        value = find(payload, (place,))
        if isinstance(value, str) and value and "\0" not in value:
            return value
    return ""


def _find_directory(payload: Mapping[str, object], form: Form, arguments: object) -> str:
    """Return where a call runs: absolute, since what is relative is so to the payload's own directory."""
    given = find(payload, form.cwd)
    if isinstance(given, list):
        given = next(iter(given), None)
    cwd = given if isinstance(given, str) and given.startswith("/") and to_path(given) is not None else "/"
    own = arguments.get(form.own_cwd) if form.own_cwd and isinstance(arguments, dict) else None
    return os.path.normpath(os.path.join(cwd, own)) if isinstance(own, str) and to_path(own) is not None else cwd


def _find_status(payload: Mapping[str, object], form: Form, name: str) -> Status:
    if name in form.failures:
        return Status.ERROR
    said = find_text(payload, form.status)
    return Status(said) if said in tuple(Status) else Status.OK
