"""The adapter for Claude Code's hooks.

Source: https://code.claude.com/docs/en/hooks, and payloads recorded from Claude Code 2.1.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from config.errors import UsageError
from store.files import to_path
from watcher.agents.answer import HookOutput
from watcher.events import Event, EventKind, Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from watcher.answers import Answer

_KINDS = {
    "SessionStart": EventKind.SESSION_START,
    "UserPromptSubmit": EventKind.TURN_START,
    "PreToolUse": EventKind.BEFORE_TOOL,
    "PostToolUse": EventKind.AFTER_TOOL,
    "PostToolUseFailure": EventKind.AFTER_TOOL,
    "Stop": EventKind.TURN_END,
    "StopFailure": EventKind.TURN_END,
    "SessionEnd": EventKind.SESSION_END,
}
_PATH_FIELDS = {
    "Write": "file_path",
    "Edit": "file_path",
    "MultiEdit": "file_path",
    "NotebookEdit": "notebook_path",
}
_SHELLS = frozenset({"Bash", "PowerShell", "Monitor"})
_OUR_TOOLS = "mcp__hermes-checkpoints__"


class ClaudeCode:
    """Translate Claude Code's hook payloads."""

    def translate(self, payload: Mapping[str, object]) -> Event | None:
        """Return the event in a payload; events and tools that change nothing have none.

        Raises:
            UsageError: It has no event name.
        """
        name = payload.get("hook_event_name")
        if not isinstance(name, str):
            raise UsageError("The payload has no hook_event_name: it is not one of Claude Code's.")
        kind = _KINDS.get(name)
        if kind is None:
            return None
        tool = _text(payload, "tool_name")
        given = payload.get("tool_input")
        arguments = given if isinstance(given, dict) else {}
        path = _text(arguments, _PATH_FIELDS[tool]) if tool in _PATH_FIELDS else ""
        return Event(
            kind=kind,
            session=_text(payload, "session_id"),
            turn=_text(payload, "prompt_id") or None,
            tool=tool,
            call=_text(payload, "tool_use_id"),
            paths=(path,) if to_path(path) is not None else (),
            command=_text(arguments, "command") if tool in _SHELLS else None,
            changes_anything=tool.startswith("mcp__") and not tool.startswith(_OUR_TOOLS),
            cwd=_directory(payload),
            status=Status.ERROR if name == "PostToolUseFailure" else Status.OK,
        )

    def answer(self, event: Event, answer: Answer) -> HookOutput:
        """Stay silent, unless the tool is refused or goes on unprotected, or the agent has to know of something."""
        if event.kind is EventKind.TURN_START and answer.context:
            output = {"hookEventName": "UserPromptSubmit", "additionalContext": answer.context}
            return HookOutput(stdout=json.dumps({"hookSpecificOutput": output}) + "\n")
        if event.kind is not EventKind.BEFORE_TOOL or not answer.is_alarming:
            return HookOutput()
        if answer.is_blocked:
            return HookOutput(stderr=f"{answer.message}\n", exit_code=2)
        return HookOutput(stdout=json.dumps({"systemMessage": answer.message}) + "\n")


def _directory(payload: Mapping[str, object]) -> str:
    cwd = _text(payload, "cwd")
    return cwd if cwd.startswith("/") and to_path(cwd) is not None else "/"


def _text(raw: Mapping[str, object], name: str) -> str:
    """Return a text field; one that is missing, of another type, or no possible name is as if it were not there."""
    value = raw.get(name)
    return value if isinstance(value, str) and "\0" not in value else ""
