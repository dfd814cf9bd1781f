"""A comparison on a terminal: in colours and by pages. Into a pipe or a file it goes as it is, byte for byte."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from watcher.rollback import printable, render_diff

if TYPE_CHECKING:
    from watcher.cli.terminal import Terminal

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
"""By how a line of a patch begins."""
_HEADERS = ("diff ", "index ", "+++", "---", "new file", "deleted file", "old mode", "new mode")
_LESS = "FRX"
"""Keep one page on the screen, let colours through: what git has `less` do."""


def show_diff(terminal: Terminal, diff: dict[str, object]) -> None:
    """Print a comparison."""
    if terminal.as_json or not sys.stdout.isatty():
        terminal.show(diff, lambda: render_diff(diff))
        return
    os.environ.setdefault("LESS", _LESS)
    is_coloured = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    lines = (colour(line) if is_coloured else _clean(line) for line in render_diff(diff).split("\n"))
    click.echo_via_pager("\n".join(lines), color=is_coloured)


def colour(line: str) -> str:
    """Return a line of a patch in its colour; control characters in it do nothing to the terminal."""
    clean = _clean(line)
    if line.startswith(_HEADERS):
        return click.style(clean, bold=True)
    name = _COLOURS.get(line[:1])
    return clean if name is None else click.style(clean, fg=name)


def _clean(line: str) -> str:
    return "\t".join(printable(part) for part in line.split("\t"))
