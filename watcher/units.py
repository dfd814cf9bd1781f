"""What the user's service manager is told: a systemd unit, or a launchd agent.

Pure. Writing the file and talking to the manager belongs to `watcher.supervisor`.
Source: systemd.service(5), "Command lines"; systemd.exec(5), "Environment"; launchd.plist(5).
"""

from __future__ import annotations

import hashlib
import os
from importlib.resources import files
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from config.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAME = "hermes-checkpoints"
_LABEL = "local.hermes-checkpoints"


def name_service(home: str, *, default_home: str) -> str:
    """Return the name of a home's service; each home has its own.

    Args:
        home: The home, absolute and resolved.
        default_home: The one that has the plain name.
    """
    if home == default_home:
        return NAME
    return f"{NAME}-{hashlib.sha256(os.fsencode(home)).hexdigest()[:8]}"


def label_agent(name: str) -> str:
    """Return launchd's label for a service."""
    return _LABEL + name.removeprefix(NAME)


def format_systemd(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return a systemd user unit.

    Args:
        command: What is run; the program absolute.
        environment: Variables that it is run with.

    Raises:
        UsageError: A word can't stand in a unit.
    """
    lines = "".join(
        f"Environment={_quote(f'{name}={value}', is_command=False)}\n" for name, value in environment.items()
    )
    return _template(f"{NAME}.service").format(command=" ".join(_quote(word) for word in command), environment=lines)


def format_launchd(label: str, command: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return a launchd agent's property list.

    Args:
        label: Its name among all agents.
        command: What is run; the program absolute.
        environment: Variables that it is run with.

    Raises:
        UsageError: A word can't stand in a property list.
    """
    for word in (*command, *environment.values()):
        _refuse_odd(word)
    return _template(f"{NAME}.plist").format(
        label=escape(label),
        arguments="\n".join(f"    <string>{escape(word)}</string>" for word in command),
        environment="\n".join(
            f"    <key>{escape(name)}</key>\n    <string>{escape(value)}</string>"
            for name, value in environment.items()
        ),
    )


def _template(name: str) -> str:
    return files("config").joinpath("units", name).read_text(encoding="utf-8")


def _quote(word: str, *, is_command: bool = True) -> str:
    """Return a word as systemd reads it back: specifiers, variables and quotes mean nothing in it."""
    _refuse_odd(word)
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped.replace("$", "$$") if is_command else escaped}"'


def _refuse_odd(word: str) -> None:
    if not word.isprintable():
        raise UsageError(
            f"{word!a} can't be part of a service's command line: it has characters that can't be printed."
        )
