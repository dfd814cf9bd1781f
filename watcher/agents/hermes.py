"""The adapter for Hermes Agent's shell hooks.

Source: `agent/shell_hooks.py` of https://github.com/NousResearch/hermes-agent, and payloads recorded from Hermes 0.19.
"""

from __future__ import annotations

from watcher.agents.answer import HookOutput
from watcher.agents.calls import Tools
from watcher.agents.hooked import Form, HookedAgent, as_json
from watcher.events import EventKind


class Hermes(HookedAgent):
    """Translate Hermes Agent's hook payloads; only what is printed counts as an answer, never the exit code."""

    form = Form(
        agent="Hermes Agent",
        kinds={
            "on_session_start": EventKind.SESSION_START,
            "pre_llm_call": EventKind.TURN_START,
            "pre_tool_call": EventKind.BEFORE_TOOL,
            "post_tool_call": EventKind.AFTER_TOOL,
            "on_session_end": EventKind.TURN_END,  # of every turn, whatever its name says
            "on_session_finalize": EventKind.SESSION_END,
            "on_session_reset": EventKind.SESSION_END,
        },
        tools=Tools(
            files={"write_file": "path", "patch": "path"},
            shells={"terminal": "command"},
            patches={"patch": "patch"},
            readers=frozenset(
                {
                    "read_file", "search_files", "list_files", "web_search", "web_extract", "todo", "memory", "clarify",
                    "session_search", "skills_list", "skill_view", "delegate_task", "vision_analyze",
                }
            ),
        ),
        turn=(("extra", "turn_id"),),
        call=(("extra", "tool_call_id"),),
        own_cwd="workdir",
        status=(("extra", "status"),),
    )  # fmt: skip

    def tell(self, context: str) -> HookOutput:
        """Add to the prompt."""
        return as_json({"context": context})

    def refuse(self, reason: str) -> HookOutput:
        """Block."""
        return as_json({"decision": "block", "reason": reason})

    def warn(self, message: str) -> HookOutput:
        """Say it where what hooks say goes; an answer could only block."""
        return HookOutput(stderr=f"{message}\n")
