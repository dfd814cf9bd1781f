"""What a tool call changes, by the agent's table of its own tools.

Owns the rule that a tool nobody knows may change anything, and the paths in a patch's text.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from store.files import to_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PATCHED = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)\s*$", re.MULTILINE)
_OURS = re.compile(r"(?i)^(?:mcp_{1,2}|MCP:)?hermes[-_]checkpoints[-_]")


@dataclass(frozen=True, slots=True)
class Tools:
    """Hold an agent's tools, by their names."""

    files: Mapping[str, str] = field(default_factory=dict)
    """Those that change one file, each with the argument that names it."""
    shells: Mapping[str, str] = field(default_factory=dict)
    """Those that run commands, each with the argument that holds them."""
    patches: Mapping[str, str] = field(default_factory=dict)
    """Those that apply a patch in the form `*** Update File: …`, each with the argument that holds it."""
    readers: frozenset[str] = frozenset()
    """Those that change nothing, and those whose own calls are announced one by one."""


@dataclass(frozen=True, slots=True)
class Call:
    """Say what a call changes."""

    paths: tuple[str, ...] = ()
    command: str | None = None
    changes_anything: bool = False


def describe_call(tools: Tools, tool: str, arguments: object) -> Call:
    """Return what a call changes.

    Args:
        tools: The agent's.
        tool: The called one.
        arguments: What it is called with: a JSON object, or a text for some tools of some agents.
    """
    if not tool or tool in tools.readers or _OURS.match(tool):
        return Call()
    if isinstance(arguments, str) and tool not in tools.patches:
        arguments = _parse(arguments)
    given = arguments if isinstance(arguments, dict) else {}
    if tool in tools.patches:
        patch = arguments if isinstance(arguments, str) else given.get(tools.patches[tool])
        paths = tuple(list_patched(patch)) if isinstance(patch, str) else ()
        if paths:
            return Call(paths)
    if tool in tools.files:
        path = given.get(tools.files[tool])
        if isinstance(path, str) and path and to_path(path) is not None:
            return Call((path,))
    if tool in tools.shells:
        command = given.get(tools.shells[tool])
        if isinstance(command, list) and all(isinstance(each, str) for each in command):
            command = "\n".join(command)
        if isinstance(command, str) and "\0" not in command:
            return Call(command=command)
    return Call(changes_anything=True)


def list_patched(patch: str) -> Iterator[str]:
    """Yield every path that a patch adds, changes, deletes or moves something to."""
    for found in _PATCHED.finditer(patch):
        if to_path(found[1]) is not None:
            yield found[1]


def name_call(tool: str, arguments: object) -> str:
    """Return what a call without an id is known by, before it and after it."""
    text = json.dumps([tool, arguments], sort_keys=True, default=str)
    return f"{tool}:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def _parse(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
