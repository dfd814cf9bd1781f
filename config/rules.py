"""Which keys there are, which values each takes, and what is wrong with a layer of settings.

Pure. Every problem is found and named at once.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from config.choices import Durability, NestedRepos, OnFailure, Terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from enum import StrEnum

SECTION = "checkpoints"
"""The part of the user's file that is ours."""
_SHOWN_LENGTH = 40


@dataclass(frozen=True, slots=True)
class _Rule:
    """Say which values a key takes."""

    allowed: str
    """Completes "must be …"."""
    accepts: Callable[[object], bool]
    """Whether a value is allowed."""
    convert: Callable[[Any], object] = lambda value: value
    """Turns an allowed value into what the settings hold."""


def _is_number(value: object, *types: type, low: float, high: float) -> bool:
    """Say whether this is a number in the range; a bool is none, and NaN is in no range."""
    return isinstance(value, types) and not isinstance(value, bool) and low <= value <= high  # type: ignore[operator]


def _whole(low: int, high: int) -> _Rule:
    """Make the rule of a whole number."""
    return _Rule(f"a whole number from {low} to {high}", lambda value: _is_number(value, int, low=low, high=high))


def _number(low: float, high: float) -> _Rule:
    """Make the rule of a number that may have a fraction."""
    return _Rule(f"a number from {low:g} to {high:g}", lambda value: _is_number(value, int, float, low=low, high=high))


def _one_of(choices: type[StrEnum]) -> _Rule:
    """Make the rule of a choice."""
    names = [str(choice) for choice in choices]
    return _Rule(" or ".join(names), lambda value: isinstance(value, str) and value in names, choices)


def _is_patterns(value: object) -> bool:
    """Say whether this is a list of lines, each of which can stand in an ignore file."""
    return isinstance(value, list | tuple) and all(_is_pattern(item) for item in value)


def _is_pattern(item: object) -> bool:
    """Say whether this is one line of text; a lone surrogate can't be written to a file."""
    if not isinstance(item, str) or not item.strip():
        return False
    return not any(char in "\0\r\n" or "\ud800" <= char <= "\udfff" for char in item)


_SWITCH = _Rule("true or false", lambda value: isinstance(value, bool))
_PATTERNS = _Rule("a list of git ignore patterns, one line of text each", _is_patterns, tuple)
_MANY = 1_000_000_000
_DAY_S = 86_400

_RULES: Mapping[str, _Rule] = {
    "enabled": _SWITCH,
    "max_snapshots": _whole(1, _MANY),
    "max_total_size_mb": _whole(0, _MANY),
    "max_file_size_mb": _whole(0, _MANY),
    "auto_prune": _SWITCH,
    "retention_days": _number(0, 36_500),
    "min_interval_hours": _number(0, 87_600),
    "max_files": _whole(1, _MANY),
    "nested_repos": _one_of(NestedRepos),
    "exclude": _PATTERNS,
    "include": _PATTERNS,
    "terminal": _one_of(Terminal),
    "on_failure": _one_of(OnFailure),
    "hook_deadline_s": _number(0.1, 3_600),
    "durability": _one_of(Durability),
    "min_free_mb": _whole(0, _MANY),
    "watch.quiet_ms": _whole(1, 60_000),
    "watch.idle_gap_s": _number(0.1, _DAY_S),
    "watch.max_wait_s": _number(0.1, _DAY_S),
}
"""Every key with the values it takes; those of a nested mapping with a dot."""


def check_layer(layer: object, source: str, problems: list[str], prefix: str = "") -> dict[str, object]:
    """Return a layer's values by dotted key, and add what is wrong with it to the problems."""
    name = f"{source}: {SECTION}.{prefix}".rstrip(".")
    if layer is None:
        return {}
    if isinstance(layer, bool) and not prefix:
        return {"enabled": layer}
    if not hasattr(layer, "items"):
        either = "a mapping" if prefix else "true, false or a mapping"
        problems.append(f"{name} must be {either}, not {_show(layer)}.")
        return {}
    values: dict[str, object] = {}
    for key, value in layer.items():
        dotted = prefix + key if isinstance(key, str) else ""
        rule = _RULES.get(dotted)
        if dotted == "watch":
            values.update(check_layer(value, source, problems, "watch."))
        elif rule is None:
            unknown = f"{source}: {SECTION}.{prefix}{show_key(key)}"
            problems.append(f"{unknown} is not a setting{_suggest(dotted, prefix)}")
        elif rule.accepts(value):
            values[dotted] = rule.convert(value)
        else:
            problems.append(f"{source}: {SECTION}.{dotted} must be {rule.allowed}, not {_show(value)}.")
    return values


def _suggest(dotted: str, prefix: str) -> str:
    """Return how the sentence about an unknown key ends: with the key that was probably meant, if there is one."""
    known = [key for key in (*_RULES, "watch") if key.startswith(prefix)]
    # By the last part too: a key of `watch` that stands one level too high is as likely as a wrong letter.
    names = {key.removeprefix("watch."): key for key in known} | {key: key for key in known}
    close = difflib.get_close_matches(dotted.removeprefix(prefix)[:100], names, n=1)
    return f"; did you mean {names[close[0]]}?" if close else "."


def show_key(key: object) -> str:
    """Return a key as it may stand in a message."""
    return key if isinstance(key, str) and key.isprintable() and len(key) <= _SHOWN_LENGTH else _show(key)


def _show(value: object) -> str:
    """Return a value as a user knows it from YAML, short and on one line."""
    match value:
        case None:
            shown = "nothing"
        case bool():
            shown = str(value).lower()
        case int() | float():
            shown = "so large a number" if abs(value) > _MANY**2 else str(value)
        case str():
            shown = repr(value if len(value) <= _SHOWN_LENGTH else value[: _SHOWN_LENGTH - 1] + "…")
        case list() | tuple():
            bad = [item for item in value if not _is_pattern(item)]
            shown = f"a list that holds {_show(bad[0])}" if bad else "a list"
        case _:
            shown = "a mapping" if hasattr(value, "items") else f"a {type(value).__name__}"
    return shown
