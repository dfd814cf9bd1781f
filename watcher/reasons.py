"""The one-line reasons that checkpoints carry.

Owns how a tool call is described in a list. Reasons come from command lines, so control characters go and what looks
like a secret is masked.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_COMMAND_CHARACTERS = 60
_LINE_CHARACTERS = 200
_UNHOOKED_PATHS = 2
_MASK = "***"
_ASSIGNED = re.compile(
    r"(?i)((?:[a-z0-9_-]*(?:token|secret|passw(?:or)?d|api[_-]?key|access[_-]?key|credential|auth)[a-z0-9_-]*)\s*[=:]\s*)"
    r"(\"[^\"]*\"|'[^']*'|(?:bearer\s+|basic\s+)?[^\s&;|\"']+)"
)
_OPTION = re.compile(r"(?i)(--?(?:password|token|secret|api-?key|auth)[ =])(\S+)")
_IN_URL = re.compile(r"(?i)([a-z][a-z0-9+.-]*://[^\s/:@]*:)([^\s/@]+)(@)")
_KNOWN_SHAPE = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|xox[abprs]-[A-Za-z0-9-]{10,}"
    r"|AKIA[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{30,}|glpat-[A-Za-z0-9_-]{16,}|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_.-]{10,})"
)


def describe_file_tool(tool: str, paths: Sequence[str]) -> str:
    """Return the reason before a file tool: the first path, and how many more there are.

    Args:
        tool: The agent's name for it.
        paths: Relative to the project, in the order of the call.
    """
    name = one_line(tool) or "tool"
    if not paths:
        return f"before {name}"
    more = f" (+{len(paths) - 1})" if len(paths) > 1 else ""
    return f"before {name}: {one_line(paths[0])}{more}"


def describe_command(command: str) -> str:
    """Return the reason before a shell command: its beginning, on one line."""
    return f"before terminal: {one_line(mask_secrets(command))[:_COMMAND_CHARACTERS].rstrip()}"


def describe_unhooked(paths: Sequence[str]) -> str:
    """Return the reason before a change that nobody announced: the first paths, and how many more there are."""
    more = f" (+{len(paths) - _UNHOOKED_PATHS})" if len(paths) > _UNHOOKED_PATHS else ""
    return f"before unhooked change: {', '.join(one_line(path) for path in paths[:_UNHOOKED_PATHS])}{more}"


def mask_secrets(text: str) -> str:
    """Replace what looks like a password, token or key."""
    masked = _IN_URL.sub(rf"\1{_MASK}\3", text)
    masked = _ASSIGNED.sub(rf"\1{_MASK}", masked)
    masked = _OPTION.sub(rf"\1{_MASK}", masked)
    return _KNOWN_SHAPE.sub(_MASK, masked)


def one_line(text: str) -> str:
    """Return text on one line: white space folded, control characters and broken characters replaced."""
    shown = "".join(
        character if character.isprintable() else " " if character.isspace() else "�"
        for character in text[: 4 * _LINE_CHARACTERS]
    )
    return " ".join(shown.split())[:_LINE_CHARACTERS]
