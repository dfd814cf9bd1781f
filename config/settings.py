"""What a user may set: the settings, their layers, and what is wrong with them.

Layers, each over the one before: `defaults.yaml`, section `checkpoints:` of the user's file, overrides of the caller.
Owns validation: every problem is found and named at once. Where the user's file is belongs to `config.paths`.
"""

from __future__ import annotations

import difflib
import os
import stat
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import yaml

from config.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_SECTION = "checkpoints"
_MAX_FILE_BYTES = 1024 * 1024
_MIB = 1024 * 1024
_PROBLEMS_SHOWN = 50
_SHOWN_LENGTH = 40

_Loader: type[yaml.SafeLoader | yaml.CSafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The same loader in C, where PyYAML was built with it: ten times faster on a file of 1 MiB."""


class NestedRepos(StrEnum):
    """What is done with git repositories inside a project."""

    LINK = "link"
    CAPTURE = "capture"


class Terminal(StrEnum):
    """Which shell commands count as mutating before they run."""

    DESTRUCTIVE = "destructive"
    ALWAYS = "always"


class OnFailure(StrEnum):
    """What happens to a mutating tool that can't be protected."""

    ALLOW = "allow"
    BLOCK = "block"


class Durability(StrEnum):
    """When a checkpoint is flushed to disk."""

    BATCH = "batch"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """How file events become checkpoints."""

    quiet_ms: int = 300
    """Milliseconds without events after which a project counts as settled."""
    idle_gap_s: float = 60
    """Seconds without changes that end a burst of unhooked changes."""
    max_wait_s: float = 30
    """Seconds after which a project under constant change is no longer waited for."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a user may set."""

    enabled: bool = False
    """Whether checkpoints are taken in projects that were not opted in one by one."""
    max_snapshots: int = 20
    """Checkpoints kept per project and history."""
    max_total_size_mb: int = 500
    """Cap of the whole store in MiB; 0 for none."""
    max_file_size_mb: int = 10
    """A file larger than this many MiB is left out; 0 for no limit."""
    auto_prune: bool = True
    """Whether the store is swept in the background."""
    retention_days: float = 7
    """Days after which an untouched project goes; 0 for never."""
    min_interval_hours: float = 24
    """Hours in which there is at most one automatic sweep."""
    max_files: int = 50_000
    """A project with more captured files than this is not snapshotted."""
    nested_repos: NestedRepos = NestedRepos.LINK
    """What is done with git repositories inside a project."""
    exclude: tuple[str, ...] = ()
    """Git ignore patterns on top of the default excludes."""
    include: tuple[str, ...] = ()
    """Git ignore patterns of what is captured although it would be ignored."""
    terminal: Terminal = Terminal.DESTRUCTIVE
    """Which shell commands count as mutating before they run."""
    on_failure: OnFailure = OnFailure.ALLOW
    """What happens to a mutating tool that can't be protected."""
    hook_deadline_s: float = 20
    """Seconds after which a hook answers "not protected" instead of waiting."""
    durability: Durability = Durability.BATCH
    """When a checkpoint is flushed to disk."""
    min_free_mb: int = 200
    """Below this many MiB of free disk nothing is added to the store."""
    watch: WatchSettings = WatchSettings()
    """How file events become checkpoints."""

    @property
    def max_total_size_bytes(self) -> int | None:
        """Return the cap of the whole store; None for none."""
        return self.max_total_size_mb * _MIB or None

    @property
    def max_file_size_bytes(self) -> int | None:
        """Return the size of the largest file that is captured; None for no limit."""
        return self.max_file_size_mb * _MIB or None

    @property
    def min_free_bytes(self) -> int:
        """Return how much disk must be free for anything to be added."""
        return self.min_free_mb * _MIB


class SettingsSource:
    """The settings of one file as they are now. A change is picked up at the next call, without a restart.

    Its methods may be called from any thread.

    Args:
        config_file: The user's file; it need not exist.
        overrides: What goes over the file, as for `load_settings`.
    """

    def __init__(self, config_file: str | os.PathLike[str], overrides: Mapping[str, object] | None = None) -> None:
        self._config_file = config_file
        self._overrides = overrides
        self._state: tuple[tuple[int, ...] | None, Settings, str | None] = (None, _load_defaults(), None)

    def current(self) -> tuple[Settings, str | None]:
        """Return the settings, at the cost of one stat as long as the file does not change.

        Returns:
            The last good settings, and what is wrong with the file now; None if nothing is. The settings are the
            defaults as long as there were no good ones.
        """
        signature = _sign(self._config_file)
        seen, settings, problem = self._state
        if signature is None or signature != seen:
            try:
                settings, problem = load_settings(self._config_file, self._overrides), None
            except ConfigError as error:
                problem = error.message
                if isinstance(error.__cause__, OSError):
                    signature = None  # A disk or a limit may recover without a change to the file: read it again.
            self._state = (signature, settings, problem)
        return settings, problem


def load_settings(config_file: str | os.PathLike[str], overrides: Mapping[str, object] | None = None) -> Settings:
    """Read the settings of one home.

    Args:
        config_file: The user's file. If it, or its section `checkpoints:`, is missing, the defaults are valid.
        overrides: Goes over the file: keys as in the section, those of `watch` in a mapping of their own.

    Returns:
        The settings.

    Raises:
        ConfigError: The file can't be read or understood, or holds what is not allowed; every problem is named.
    """
    file = os.fsdecode(config_file)
    problems: list[str] = []
    values = dict(_load_default_values())
    for source, layer in ((file, _read_section(file, problems)), ("overrides", overrides or {})):
        values.update(_check(layer, source, problems))
    if problems:
        raise ConfigError(_join(problems), hint="Every key and its values: docs/reference/configuration.md.")
    return _build(values)


def default_excludes() -> bytes:
    """Return the patterns that are not captured by default, as the text of a git ignore file."""
    return resources.files("config").joinpath("excludes.txt").read_bytes()


# Rules


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


def _check(layer: object, source: str, problems: list[str], prefix: str = "") -> dict[str, object]:
    """Return a layer's values by dotted key, and add what is wrong with it to the problems."""
    name = f"{source}: {_SECTION}.{prefix}".rstrip(".")
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
            values.update(_check(value, source, problems, "watch."))
        elif rule is None:
            unknown = f"{source}: {_SECTION}.{prefix}{_show_key(key)}"
            problems.append(f"{unknown} is not a setting{_suggest(dotted, prefix)}")
        elif rule.accepts(value):
            values[dotted] = rule.convert(value)
        else:
            problems.append(f"{source}: {_SECTION}.{dotted} must be {rule.allowed}, not {_show(value)}.")
    return values


def _suggest(dotted: str, prefix: str) -> str:
    """Return how the sentence about an unknown key ends: with the key that was probably meant, if there is one."""
    known = [key for key in (*_RULES, "watch") if key.startswith(prefix)]
    # By the last part too: a key of `watch` that stands one level too high is as likely as a wrong letter.
    names = {key.removeprefix("watch."): key for key in known} | {key: key for key in known}
    close = difflib.get_close_matches(dotted.removeprefix(prefix)[:100], names, n=1)
    return f"; did you mean {names[close[0]]}?" if close else "."


def _show_key(key: object) -> str:
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


def _join(problems: list[str]) -> str:
    """Return one sentence for one problem, else a first sentence and a line for each."""
    if len(problems) == 1:
        return problems[0]
    lines = [f"There are {len(problems)} problems with the settings:", *problems[:_PROBLEMS_SHOWN]]
    if len(problems) > _PROBLEMS_SHOWN:
        lines.append(f"… and {len(problems) - _PROBLEMS_SHOWN} more.")
    return "\n".join(lines)


def _build(values: Mapping[str, Any]) -> Settings:
    """Make the settings of checked values by dotted key."""
    top = {key: value for key, value in values.items() if "." not in key}
    watch = {key.removeprefix("watch."): value for key, value in values.items() if "." in key}
    return Settings(**top, watch=WatchSettings(**watch))


# Files


@cache
def _load_default_values() -> Mapping[str, object]:
    """Read the defaults that ship with the program, by dotted key."""
    text = resources.files("config").joinpath("defaults.yaml").read_text(encoding="utf-8")
    problems: list[str] = []
    values = _check(yaml.safe_load(text), "defaults.yaml", problems)
    assert not problems, problems  # noqa: S101 - a test holds the shipped file to the rules
    return values


def _load_defaults() -> Settings:
    """Return the settings of a user who set nothing."""
    return _build(_load_default_values())


def _sign(file: str | os.PathLike[str]) -> tuple[int, ...] | None:
    """Return what changes when the file does; None when that can't be said."""
    try:
        status = os.stat(file)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError:
        return None
    # The status change time tells what the others miss: permissions given back, a rewrite with the old mtime.
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


def _read_section(file: str, problems: list[str]) -> object:
    """Return the section of the user's file; None if there is none."""
    text = _read_text(file)
    try:
        return _parse_section(text, file, problems)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark is not None else ""
        raise ConfigError(f"{file} is not valid YAML{where}.") from error


def _read_text(file: str) -> str:
    """Return the text of the user's file; none if it is missing."""
    try:
        with open(file, "rb", opener=_open_without_waiting) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise ConfigError(f"{file} is not a regular file.")
            raw = stream.read(_MAX_FILE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise ConfigError(f"{file} can't be read: {error.strerror}.") from error
    if len(raw) > _MAX_FILE_BYTES:
        raise ConfigError(f"{file} is larger than 1 MiB, too large for settings.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{file} is not UTF-8.") from None


def _open_without_waiting(file: str, flags: int) -> int:
    """Open a file; a pipe in its place must not make us wait for a writer."""
    return os.open(file, flags | os.O_NONBLOCK)


def _parse_section(text: str, file: str, problems: list[str]) -> object:
    """Return the section as Python values. Nothing else in the file is made into values: it belongs to the agent."""
    loader = _Loader(text)
    try:
        document = loader.get_single_node()
        if document is None:
            return None
        if not isinstance(document, yaml.MappingNode):
            raise ConfigError(f"{file} must be a mapping at its top level.")
        sections = [value for key, value in document.value if key.value == _SECTION]
        if len(sections) > 1:
            problems.append(f"{file}: {_SECTION} is given twice.")
        if not sections:
            return None
        found = list(_find_node_problems(sections[0], _SECTION, set()))
        problems.extend(f"{file}: {problem}" for problem in found)
        return None if found else loader.construct_document(sections[0])
    finally:
        loader.dispose()


def _find_node_problems(node: yaml.Node, name: str, seen: set[int]) -> Iterator[str]:
    """Yield what YAML would silently resolve: keys given twice, and aliases, by which a small file becomes huge."""
    if id(node) in seen:
        yield f"{name} must be written out; aliases can't be used here."
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        keys: set[object] = set()
        for key, value in node.value:
            child = f"{name}.{_show_key(key.value)}"
            if isinstance(key, yaml.ScalarNode) and key.value in keys:
                yield f"{child} is given twice."
            keys.add(key.value if isinstance(key, yaml.ScalarNode) else id(key))
            yield from _find_node_problems(key, child, seen)
            yield from _find_node_problems(value, child, seen)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _find_node_problems(item, f"{name}[{index}]", seen)
