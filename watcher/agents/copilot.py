"""The adapter for Copilot CLI's hooks.

Source: https://docs.github.com/en/copilot/reference/hooks-reference, and payloads recorded from Copilot CLI 1.0.102.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from watcher.agents.calls import Tools
from watcher.agents.hooked import CLAUDE_KINDS, Form, HookedAgent, as_json
from watcher.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from watcher.agents.answer import HookOutput
    from watcher.events import Event


class Copilot(HookedAgent):
    """Translate Copilot CLI's hook payloads, in both of its spellings. Any exit code but 0 denies the tool."""

    form = Form(
        agent="Copilot CLI",
        kinds=CLAUDE_KINDS
        | {
            "sessionStart": EventKind.SESSION_START,
            "userPromptSubmitted": EventKind.TURN_START,
            "preToolUse": EventKind.BEFORE_TOOL,
            "postToolUse": EventKind.AFTER_TOOL,
            "postToolUseFailure": EventKind.AFTER_TOOL,
            "agentStop": EventKind.TURN_END,
            "sessionEnd": EventKind.SESSION_END,
        },
        tools=Tools(
            files={"create": "path", "edit": "path", "Write": "path", "Edit": "path"},
            shells={"bash": "command", "Bash": "command", "powershell": "command"},
            patches={"apply_patch": "input"},
            readers=frozenset(
                {"view", "Read", "grep", "rg", "glob", "task", "report_intent", "update_todo", "web_fetch"}
            ),
        ),
        event=(("hook_event_name",), ("hookEventName",)),
        session=(("sessionId",), ("session_id",)),
        tool=(("toolName",), ("tool_name",)),
        arguments=(("toolArgs",), ("tool_input",), ("toolInput",)),
        failures=frozenset({"postToolUseFailure", "PostToolUseFailure"}),
    )

    def translate(self, payload: Mapping[str, object]) -> Event | None:
        """Return the event in a payload; in the one spelling nothing names it, so its fields have to tell."""
        if "hook_event_name" not in payload and "hookEventName" not in payload:
            payload = {**payload, "hookEventName": _name_event(payload)}
        return super().translate(payload)

    def tell(self, context: str) -> HookOutput:
        """Add to the prompt."""
        return as_json({"additionalContext": context})

    def refuse(self, reason: str) -> HookOutput:
        """Deny."""
        return as_json({"permissionDecision": "deny", "permissionDecisionReason": reason})


_TELLING = (
    ("toolInput", "permissionRequest"),
    ("toolResult", "postToolUse"),
    ("stopReason", "agentStop"),
    ("prompt", "userPromptSubmitted"),
    ("source", "sessionStart"),
    ("reason", "sessionEnd"),
)
"""Fields that one event alone has, the surest first."""


def _name_event(payload: Mapping[str, object]) -> str:
    if "toolArgs" in payload and "toolResult" not in payload:
        return "postToolUseFailure" if "error" in payload else "preToolUse"
    return next((event for field, event in _TELLING if field in payload), "")
