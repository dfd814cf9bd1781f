"""The adapter for Claude Code's hooks.

Source: https://code.claude.com/docs/en/hooks, and payloads recorded from Claude Code 2.1.
"""

from __future__ import annotations

from watcher.agents.answer import HookOutput
from watcher.agents.calls import Tools
from watcher.agents.hooked import CLAUDE_KINDS, Form, HookedAgent, as_json
from watcher.events import EventKind


class ClaudeCode(HookedAgent):
    """Translate Claude Code's hook payloads."""

    form = Form(
        agent="Claude Code",
        kinds=CLAUDE_KINDS | {"StopFailure": EventKind.TURN_END},
        tools=Tools(
            files={
                "Write": "file_path",
                "Edit": "file_path",
                "MultiEdit": "file_path",
                "NotebookEdit": "notebook_path",
            },
            shells={"Bash": "command", "PowerShell": "command", "Monitor": "command"},
            readers=frozenset(
                {
                    "Read", "Glob", "Grep", "LS", "NotebookRead", "WebFetch", "WebSearch", "Agent", "Task", "Skill",
                    "SlashCommand", "TodoWrite", "TaskCreate", "TaskUpdate", "TaskList", "TaskGet", "TaskOutput",
                    "TaskStop", "BashOutput", "KillShell", "AskUserQuestion", "EnterPlanMode", "ExitPlanMode",
                    "ToolSearch", "ListMcpResourcesTool", "ReadMcpResourceTool", "SendMessage",
                }
            ),
        ),
        turn=(("prompt_id",),),
        call=(("tool_use_id",),),
        failures=frozenset({"PostToolUseFailure"}),
    )  # fmt: skip

    def tell(self, context: str) -> HookOutput:
        """Add to the prompt."""
        return as_json({"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": context}})

    def refuse(self, reason: str) -> HookOutput:
        """Block by the exit code."""
        return HookOutput(stderr=f"{reason}\n", exit_code=2)
