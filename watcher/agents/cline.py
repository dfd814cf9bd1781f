"""The adapter for Cline's hooks, of its command line and of its VS Code extension.

Source: `sdk/packages/core/src/hooks` and `apps/vscode/src/core/hooks` of https://github.com/cline/cline, and payloads
recorded from Cline CLI 3.0.
"""

from __future__ import annotations

from watcher.agents.answer import HookOutput
from watcher.agents.calls import Tools
from watcher.agents.hooked import Form, HookedAgent, as_json
from watcher.events import EventKind


class Cline(HookedAgent):
    """Translate Cline's hook payloads. Refusing a tool ends the agent's whole run: Cline knows nothing less."""

    form = Form(
        agent="Cline",
        kinds={
            "agent_start": EventKind.TURN_START,
            "prompt_submit": EventKind.TURN_START,
            "tool_call": EventKind.BEFORE_TOOL,
            "tool_result": EventKind.AFTER_TOOL,
            "agent_end": EventKind.TURN_END,
            "agent_abort": EventKind.TURN_END,
            "agent_error": EventKind.TURN_END,
            "session_shutdown": EventKind.SESSION_END,
            "TaskStart": EventKind.TURN_START,
            "UserPromptSubmit": EventKind.TURN_START,
            "PreToolUse": EventKind.BEFORE_TOOL,
            "PostToolUse": EventKind.AFTER_TOOL,
            "TaskComplete": EventKind.TURN_END,
            "TaskCancel": EventKind.TURN_END,
        },
        tools=Tools(
            files={"editor": "path", "write_to_file": "path", "replace_in_file": "path"},
            shells={"run_commands": "commands", "execute_command": "command"},
            patches={"apply_patch": "input"},
            readers=frozenset(
                {
                    "read_files", "read_file", "list_files", "search_files", "search_codebase", "spawn_agent",
                    "list_code_definition_names", "fetch_web_content", "ask_question", "attempt_completion",
                }
            ),
        ),
        event=(("hookName",),),
        session=(("sessionContext", "rootSessionId"), ("taskId",)),
        tool=(("tool_call", "name"), ("tool_result", "name"), ("preToolUse", "toolName"), ("postToolUse", "toolName")),
        arguments=(
            ("tool_call", "input"), ("tool_result", "input"),
            ("preToolUse", "parameters"), ("postToolUse", "parameters"),
        ),
        call=(("tool_call", "id"), ("tool_result", "id")),
        cwd=(("workspaceRoots",), ("workspaceInfo", "rootPath")),
    )  # fmt: skip

    def tell(self, context: str) -> HookOutput:
        """Add to the model's next request."""
        return as_json({"contextModification": context})

    def refuse(self, reason: str) -> HookOutput:
        """End the run, which is all that can be done."""
        return as_json({"cancel": True, "errorMessage": reason})

    def warn(self, message: str) -> HookOutput:
        """Say it where what hooks say is logged."""
        return HookOutput(stderr=f"{message}\n")
