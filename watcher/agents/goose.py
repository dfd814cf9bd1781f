"""The adapter for Goose's hooks.

Source: `crates/goose/src/hooks/mod.rs` of https://github.com/aaif-goose/goose. Not tried with the program itself.
"""

from __future__ import annotations

from watcher.agents.answer import HookOutput
from watcher.agents.calls import Tools
from watcher.agents.hooked import CLAUDE_KINDS, Form, HookedAgent, as_json


class Goose(HookedAgent):
    """Translate Goose's hook payloads. Whatever is printed counts as a decision, so what is none goes elsewhere."""

    form = Form(
        agent="Goose",
        kinds=CLAUDE_KINDS,
        tools=Tools(
            files={"write": "path", "edit": "path", "developer__text_editor": "path"},
            shells={"shell": "command", "developer__shell": "command"},
            readers=frozenset({"tree", "read", "view", "analyze"}),
        ),
        event=(("event",),),
        call=(("tool_call_id",),),
        cwd=(("working_dir",),),
        failures=frozenset({"PostToolUseFailure"}),
    )

    def tell(self, context: str) -> HookOutput:
        """Say it to whoever reads the log: what hooks print reaches no model."""
        return HookOutput(stderr=f"{context}\n")

    def refuse(self, reason: str) -> HookOutput:
        """Block."""
        return as_json({"decision": "block", "reason": reason})

    def warn(self, message: str) -> HookOutput:
        """Say it where what hooks say is logged."""
        return HookOutput(stderr=f"{message}\n")
