"""Put our hooks into the settings of the agents on this machine, and take them out again.

Owns which file is whose, the command line that is put in, and the copy that is kept of each file. What stands in the
files belongs to `watcher.agents.settings`.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import stat
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from config.errors import UsageError
from config.paths import resolve_paths
from store.files import write_atomically
from watcher.agents.settings import MARK, Hooks, Style, add_hooks, has_hooks, remove_hooks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from config.paths import Paths

_KEPT = ".before-hermes-checkpoints"
_SECONDS = 30
"""Longer than the service's own deadline, so that it is the service that gives up."""


@dataclass(frozen=True, slots=True)
class Installable:
    """Hold how one agent is hooked."""

    agent: str
    title: str
    program: str
    """What it is started by."""
    user_file: str
    """Its settings, relative to the home directory."""
    project_file: str
    """Its settings, relative to a project."""
    hooks: Hooks
    next_step: str = ""
    """What the user still has to do, if anything."""
    suffix: str = ""
    """What stands behind the command line."""


_CLAUDE_LIKE = (
    "SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "Stop", "SessionEnd",
)  # fmt: skip
AGENTS: Mapping[str, Installable] = {
    each.agent: each
    for each in (
        Installable(
            "claude-code",
            "Claude Code",
            "claude",
            ".claude/settings.json",
            ".claude/settings.json",
            Hooks(Style.GROUPS, _CLAUDE_LIKE, _SECONDS),
        ),
        Installable(
            "gemini",
            "Gemini CLI",
            "gemini",
            ".gemini/settings.json",
            ".gemini/settings.json",
            Hooks(
                Style.GROUPS,
                ("SessionStart", "BeforeAgent", "BeforeTool", "AfterTool", "AfterAgent", "SessionEnd"),
                _SECONDS * 1000,
            ),
            next_step="In a project, Gemini CLI runs hooks once you trust the folder.",
        ),
        Installable(
            "codex",
            "Codex CLI",
            "codex",
            ".codex/hooks.json",
            ".codex/hooks.json",
            Hooks(
                Style.GROUPS,
                ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "Interrupt", "SessionEnd"),
                _SECONDS,
            ),
            next_step="Codex CLI lists new hooks when it starts, and runs none before you trust them there.",
        ),
        Installable(
            "cursor",
            "Cursor",
            "cursor",
            ".cursor/hooks.json",
            ".cursor/hooks.json",
            Hooks(
                Style.FLAT,
                (
                    "sessionStart", "beforeSubmitPrompt", "preToolUse", "postToolUse", "postToolUseFailure", "stop",
                    "sessionEnd",
                ),
                _SECONDS,
                {"version": 1},
            ),
        ),
        Installable(
            "copilot",
            "Copilot CLI",
            "copilot",
            ".copilot/hooks/hermes-checkpoints.json",
            ".github/hooks/hermes-checkpoints.json",
            Hooks(Style.SHELLS, _CLAUDE_LIKE, _SECONDS, {"version": 1}),
            next_step="In a project, Copilot CLI runs hooks once you trust the folder.",
            suffix=" || exit 0",
        ),
    )
}  # fmt: skip
"""The hooks are for every tool: one that nobody knows may change anything."""


@dataclass(frozen=True, slots=True)
class Change:
    """Say what an installation does to one file."""

    path: str
    before: str | None
    after: str | None
    """Nothing when the file goes."""

    @property
    def is_empty(self) -> bool:
        """Tell whether the file stays as it is."""
        return self.before == self.after


def find_agent(name: str) -> Installable:
    """Return how an agent is hooked.

    Raises:
        UsageError: It is not known how.
    """
    known = AGENTS.get({"claude": "claude-code"}.get(name, name))
    if known is None:
        raise UsageError(f"It is not known how to hook {name!r}; known are: {', '.join(AGENTS)}.")
    return known


def find_file(agent: Installable, project: str | None) -> str:
    """Return an agent's settings file: the user's, or a project's. A link is followed, so that it stays one."""
    base = os.path.expanduser("~") if project is None else project
    return os.path.realpath(os.path.join(base, agent.user_file if project is None else agent.project_file))


def plan_install(agent: Installable, path: str, paths: Paths) -> Change:
    """Return what putting our hooks in changes.

    Raises:
        UsageError: The file can't be understood.
    """
    before = _read(path)
    return Change(path, before, _add(agent, before, paths))


def plan_uninstall(agent: Installable, path: str, paths: Paths) -> Change:
    """Return what taking our hooks out changes: the file is as it was if nothing else was changed in it since.

    Raises:
        UsageError: The file can't be understood.
    """
    before = _read(path)
    if before is None or not has_hooks(before):
        return Change(path, before, before)
    kept = _read(path + _KEPT)
    with contextlib.suppress(UsageError):
        if _add(agent, kept, paths) == before:
            return Change(path, before, kept)
    return Change(path, before, remove_hooks(before))


def apply(change: Change, *, keeps_copy: bool) -> None:
    """Change a file.

    Args:
        change: What is done.
        keeps_copy: Whether what it was is kept beside it; otherwise such a copy goes.
    """
    copy = change.path + _KEPT
    if keeps_copy and change.before is not None and not has_hooks(change.before):
        _write(copy, change.before, like=change.path)
    if change.after is None:
        os.unlink(change.path)
    else:
        os.makedirs(os.path.dirname(change.path), exist_ok=True)
        _write(change.path, change.after, like=change.path)
    if not keeps_copy:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(copy)


def is_present(agent: Installable) -> bool:
    """Tell whether an agent is on this machine: its program, or its folder of settings."""
    folder = os.path.join(os.path.expanduser("~"), agent.user_file.split("/", maxsplit=1)[0])
    return shutil.which(agent.program) is not None or os.path.isdir(folder)


def is_hooked(path: str) -> bool:
    """Tell whether our hooks are in a settings file."""
    try:
        return has_hooks(_read(path) or "")
    except UsageError:
        return False


def format_command(agent: Installable, paths: Paths) -> str:
    """Return the command line of the hooks: absolute, with an interpreter that nothing around it has a part in."""
    client = os.path.join(os.path.dirname(os.path.abspath(__file__)), MARK)
    words = [sys.executable, "-I", "-S", client, agent.agent]
    default = resolve_paths(home=None, profile=None, environ={**os.environ, "HERMES_HOME": ""})
    if paths.home != default.home:
        words = ["env", f"HERMES_HOME={paths.home}", *words]
    return shlex.join(words) + agent.suffix


def _add(agent: Installable, text: str | None, paths: Paths) -> str:
    return add_hooks(text, agent.hooks, format_command(agent, paths))


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} can't be read: {error}") from error


def _write(path: str, text: str, *, like: str) -> None:
    """Replace a file; its permission bits are those of another one, if that is there."""
    try:
        bits = stat.S_IMODE(os.stat(like).st_mode)
    except FileNotFoundError:
        bits = 0o600
    write_atomically(path, text.encode())
    os.chmod(path, bits)
