"""Our hooks in an agent's settings file: put in, taken out, everything else kept.

Pure: texts in, texts out. The files belong to `watcher.installation`. A file that is not plain JSON, such as one with
comments, is refused: writing it anew would lose them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from config.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MARK = "hook_client.py"
"""What every command line of ours holds."""
_INDENT = re.compile(r"\n([ \t]+)\S")


class Style(Enum):
    """Say how an agent groups its hooks."""

    GROUPS = auto()
    """`{event: [{hooks: [{type, command, timeout}]}]}`"""
    FLAT = auto()
    """`{event: [{command, timeout}]}`"""
    SHELLS = auto()
    """`{event: [{type, bash, powershell, timeoutSec}]}`"""


@dataclass(frozen=True, slots=True)
class Hooks:
    """Hold what is put into an agent's settings."""

    style: Style
    events: Sequence[str]
    timeout: int
    """In the agent's own unit."""
    top: Mapping[str, object] = field(default_factory=dict)
    """What the file says besides, unless it says it otherwise already."""


def add_hooks(text: str | None, hooks: Hooks, command: str) -> str:
    """Return a settings file with our hooks; those that are there already are replaced.

    Args:
        text: The file; nothing when there is none.
        hooks: What is put in.
        command: The command line that they run.

    Raises:
        UsageError: The file can't be understood, or is of another shape.
    """
    settings = _parse(text) if text is not None and text.strip("\ufeff \t\r\n") else {}
    _take_out(settings)
    for name, value in hooks.top.items():
        settings.setdefault(name, value)
    table = settings.setdefault("hooks", {})
    for event in hooks.events:
        entries = table.setdefault(event, [])
        if not isinstance(entries, list):
            raise UsageError(f"The settings' hooks for {event} are no list.")
        entries.append(_format_entry(hooks, command))
    return _format(settings, text)


def remove_hooks(text: str) -> str:
    """Return a settings file without our hooks.

    Raises:
        UsageError: The file can't be understood, or is of another shape.
    """
    settings = _parse(text)
    return _format(settings, text) if _take_out(settings) else text


def has_hooks(text: str) -> bool:
    """Tell whether our hooks are in a settings file."""
    return MARK in text


def _format_entry(hooks: Hooks, command: str) -> dict[str, object]:
    match hooks.style:
        case Style.FLAT:
            return {"command": command, "timeout": hooks.timeout}
        case Style.SHELLS:
            return {"type": "command", "bash": command, "powershell": command, "timeoutSec": hooks.timeout}
        case Style.GROUPS:
            return {"hooks": [{"type": "command", "command": command, "timeout": hooks.timeout}]}


def _take_out(settings: dict[str, Any]) -> bool:
    """Take our hooks out, with what is left empty by that; tell whether there were any."""
    table = settings.get("hooks", {})
    if not isinstance(table, dict):
        raise UsageError("The settings' hooks are no object.")
    found = False
    for event in list(table):
        entries = table[event]
        if not isinstance(entries, list) or not has_hooks(json.dumps(entries)):
            continue
        found = True
        kept = [left for entry in entries if (left := _without_ours(entry)) is not None]
        if kept:
            table[event] = kept
        else:
            del table[event]
    if found and not table:
        del settings["hooks"]
    return found


def _without_ours(entry: object) -> object:
    """Return an entry without our command; nothing when that was all of it."""
    if not isinstance(entry, dict) or not has_hooks(json.dumps(entry)):
        return entry
    inner = entry.get("hooks")
    if not isinstance(inner, list):
        return None
    kept = [each for each in inner if not has_hooks(json.dumps(each))]
    return {**entry, "hooks": kept} if kept else None


def _parse(text: str) -> dict[str, Any]:
    def refuse_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise UsageError("The settings name something twice; one of the two would be lost.")
        return found

    try:
        settings = json.loads(text.removeprefix("\ufeff"), object_pairs_hook=refuse_twins)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"The settings are no plain JSON ({error}); they are left as they are.",
            hint="Comments have to go before hooks can be put in by a program.",
        ) from error
    if not isinstance(settings, dict):
        raise UsageError("The settings are no JSON object; they are left as they are.")
    return settings


def _format(settings: dict[str, Any], before: str | None) -> str:
    """Return settings as text, indented and ended as they were."""
    text = before or ""
    indent = found[1] if (found := _INDENT.search(text)) else "  "
    ending = "\r\n" if "\r\n" in text else "\n"
    lines = json.dumps(settings, indent=indent, ensure_ascii=False).replace("\n", ending)
    is_ended = not text.strip() or text.endswith("\n")
    return ("\ufeff" if text.startswith("\ufeff") else "") + lines + (ending if is_ended else "")
