"""The adapter for Gemini CLI's hooks.

Source: https://github.com/google-gemini/gemini-cli/blob/main/docs/hooks/reference.md, and payloads recorded from
Gemini CLI 0.61.
"""

from __future__ import annotations

from watcher.agents.answer import HookOutput
from watcher.agents.calls import Tools
from watcher.agents.hooked import Form, HookedAgent, as_json
from watcher.events import EventKind


class Gemini(HookedAgent):
    """Translate Gemini CLI's hook payloads; it names neither turns nor calls."""

    form = Form(
        agent="Gemini CLI",
        kinds={
            "SessionStart": EventKind.SESSION_START,
            "BeforeAgent": EventKind.TURN_START,
            "BeforeTool": EventKind.BEFORE_TOOL,
            "AfterTool": EventKind.AFTER_TOOL,
            "AfterAgent": EventKind.TURN_END,
            "SessionEnd": EventKind.SESSION_END,
        },
        tools=Tools(
            files={"write_file": "file_path", "replace": "file_path"},
            shells={"run_shell_command": "command"},
            readers=frozenset(
                {
                    "read_file", "read_many_files", "list_directory", "grep_search", "search_file_content", "glob",
                    "google_web_search", "web_fetch", "write_todos", "invoke_agent", "ask_user",
                }
            ),
        ),
        own_cwd="dir_path",
    )  # fmt: skip

    def tell(self, context: str) -> HookOutput:
        """Add to the prompt."""
        return as_json({"hookSpecificOutput": {"hookEventName": "BeforeAgent", "additionalContext": context}})

    def refuse(self, reason: str) -> HookOutput:
        """Block by the exit code."""
        return HookOutput(stderr=f"{reason}\n", exit_code=2)
