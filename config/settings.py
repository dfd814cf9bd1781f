"""What a user may set: the settings and their layers.

Layers, each over the one before: `defaults.yaml`, section `checkpoints:` of the user's file, overrides of the caller.
What is wrong with a layer belongs to `config.rules`, reading the file to `config.section`, and where it is to
`config.paths`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import yaml

from config.choices import Durability, NestedRepos, OnFailure, Terminal
from config.errors import ConfigError
from config.rules import check_layer
from config.section import read_section

if TYPE_CHECKING:
    from collections.abc import Mapping

_MIB = 1024 * 1024
_PROBLEMS_SHOWN = 50


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
    for source, layer in ((file, read_section(file, problems)), ("overrides", overrides or {})):
        values.update(check_layer(layer, source, problems))
    if problems:
        raise ConfigError(_join(problems), hint="Every key and its values: docs/reference/configuration.md.")
    return _build(values)


def default_excludes() -> bytes:
    """Return the patterns that are not captured by default, as the text of a git ignore file."""
    return resources.files("config").joinpath("excludes.txt").read_bytes()


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


@cache
def _load_default_values() -> Mapping[str, object]:
    """Read the defaults that ship with the program, by dotted key."""
    text = resources.files("config").joinpath("defaults.yaml").read_text(encoding="utf-8")
    problems: list[str] = []
    values = check_layer(yaml.safe_load(text), "defaults.yaml", problems)
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
