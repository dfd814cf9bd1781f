"""The adapter for Cursor's hooks.

Source: https://cursor.com/docs/hooks, and the hook code of its SDK 1.0. Not tried with the program itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from watcher.agents.calls import Tools
from watcher.agents.hooked import Form, HookedAgent, as_json
from watcher.events import EventKind

if TYPE_CHECKING:
    from watcher.agents.answer import HookOutput


class Cursor(HookedAgent):
    """Translate Cursor's hook payloads. What it prints has to be JSON, or Cursor denies the tool."""

    form = Form(
        agent="Cursor",
        kinds={
            "sessionStart": EventKind.SESSION_START,
            "beforeSubmitPrompt": EventKind.TURN_START,
            "preToolUse": EventKind.BEFORE_TOOL,
            "postToolUse": EventKind.AFTER_TOOL,
            "postToolUseFailure": EventKind.AFTER_TOOL,
            "stop": EventKind.TURN_END,
            "sessionEnd": EventKind.SESSION_END,
        },
        tools=Tools(
            files={"Write": "file_path", "Delete": "file_path", "Edit": "file_path", "StrReplace": "file_path"},
            shells={"Shell": "command"},
            readers=frozenset({"Read", "Grep", "Glob", "LS", "SemanticSearch", "WebSearch", "WebFetch", "Task"}),
        ),
        session=(("session_id",), ("conversation_id",)),
        turn=(("generation_id",),),
        call=(("tool_use_id",),),
        cwd=(("cwd",), ("workspace_roots",)),
        own_cwd="cwd",
        failures=frozenset({"postToolUseFailure"}),
    )

    def tell(self, context: str) -> HookOutput:
        """Add to the prompt."""
        return as_json({"additional_context": context})

    def refuse(self, reason: str) -> HookOutput:
        """Deny, and say why to the user and the model."""
        return as_json({"permission": "deny", "user_message": reason, "agent_message": reason})

    def warn(self, message: str) -> HookOutput:
        """Tell the user."""
        return as_json({"user_message": message})
