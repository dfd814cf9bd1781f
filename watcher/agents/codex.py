"""The adapter for Codex CLI's hooks.

Source: https://developers.openai.com/codex/hooks, and payloads recorded from Codex 0.171.
"""

from __future__ import annotations

from watcher.agents.answer import HookOutput
from watcher.agents.calls import Tools
from watcher.agents.hooked import CLAUDE_KINDS, Form, HookedAgent, as_json
from watcher.events import EventKind


class Codex(HookedAgent):
    """Translate Codex CLI's hook payloads."""

    form = Form(
        agent="Codex",
        kinds=CLAUDE_KINDS | {"Interrupt": EventKind.TURN_END},
        tools=Tools(
            shells={"Bash": "command"},
            patches={"apply_patch": "command"},
            readers=frozenset({"view_image", "web_search", "update_plan", "read_file", "list_dir", "grep_files"}),
        ),
        turn=(("turn_id",),),
        call=(("tool_use_id",),),
    )

    def tell(self, context: str) -> HookOutput:
        """Add to the prompt; Codex refuses fields that it does not know."""
        return as_json({"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": context}})

    def refuse(self, reason: str) -> HookOutput:
        """Block by the exit code; without a text it would not count."""
        return HookOutput(stderr=f"{reason}\n", exit_code=2)
