"""One adapter for each agent: its payload in, generic events out, our answer in its form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from config.errors import UsageError
from watcher.agents.claude_code import ClaudeCode
from watcher.agents.cline import Cline
from watcher.agents.codex import Codex
from watcher.agents.copilot import Copilot
from watcher.agents.cursor import Cursor
from watcher.agents.gemini import Gemini
from watcher.agents.generic import Generic
from watcher.agents.goose import Goose
from watcher.agents.hermes import Hermes

if TYPE_CHECKING:
    from watcher.agents.answer import Adapter

_ADAPTERS: dict[str, type[Adapter]] = {
    "generic": Generic,
    "claude-code": ClaudeCode,
    "claude": ClaudeCode,
    "cline": Cline,
    "codex": Codex,
    "copilot": Copilot,
    "cursor": Cursor,
    "gemini": Gemini,
    "goose": Goose,
    "hermes": Hermes,
}


def find_adapter(agent: str) -> Adapter:
    """Return the adapter of an agent.

    Raises:
        UsageError: No such agent is known.
    """
    adapter = _ADAPTERS.get(agent)
    if adapter is None:
        raise UsageError(f"Unknown agent {agent!r}; known are: {', '.join(sorted(_ADAPTERS))}.")
    return adapter()
