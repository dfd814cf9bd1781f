"""`clear` and `clear-legacy`: everything, or the archives of older repositories."""

from __future__ import annotations

import os
import time

import click

from watcher.cli.confirm import DECLINED, is_confirmed
from watcher.cli.status import format_size, render_status
from watcher.cli.terminal import PARTLY_DONE, Terminal

_SHOWN = 20
_FORCE = click.option("-f", "--force", is_flag=True, help="Don't ask.")


@click.command("clear")
@_FORCE
@click.pass_obj
def command(terminal: Terminal, *, force: bool) -> int:
    """Remove all checkpoints of all projects, and the archives. Projects stay opted in."""
    if not os.path.isdir(terminal.paths.base):
        return _nothing(terminal, "Nothing to clear — checkpoint base does not exist.")
    if not force:
        summary = render_status(terminal.ask("status"), _SHOWN, now=time.time())
        shown = f"{summary}\n\nAll /rollback history for every working directory will be lost."
        if not is_confirmed(terminal, shown, "Proceed?"):
            return DECLINED
    cleared = terminal.ask("clear")
    terminal.show(
        cleared,
        lambda: (
            "\n".join(f"Could not clear everything: {problem}" for problem in _problems(cleared))
            or f"Cleared. Reclaimed {format_size(cleared['bytes_freed'])}."
        ),
    )
    return PARTLY_DONE if cleared["errors"] else 0


@click.command("clear-legacy")
@_FORCE
@click.pass_obj
def legacy_command(terminal: Terminal, *, force: bool) -> int:
    """Remove the archives of older repositories, and nothing else."""
    archives = terminal.ask("status")["legacy_archives"]
    assert isinstance(archives, list)  # noqa: S101 - our own JSON
    if not archives:
        return _nothing(terminal, "No legacy archives to clear.")
    if not force:
        shown = "\n".join(f"  {each['name']:<40}  {format_size(each['size_bytes']):>10}" for each in archives)
        if not is_confirmed(terminal, shown, "Delete all legacy archives?"):
            return DECLINED
    cleared = terminal.ask("clear", legacy=True)
    terminal.show(cleared, lambda: _render_legacy(cleared))
    return PARTLY_DONE if cleared["errors"] else 0


def _render_legacy(cleared: dict[str, object]) -> str:
    lines = [f"Deleted {cleared['deleted']} archive(s), reclaimed {format_size(cleared['bytes_freed'])}."]
    if problems := _problems(cleared):
        lines.append(f"Could not delete {len(problems)} archive(s) (see logs).")
    return "\n".join([*lines, *(f"  {problem}" for problem in problems)])


def _nothing(terminal: Terminal, text: str) -> int:
    empty: dict[str, object] = {"deleted": 0, "bytes_freed": 0, "errors": 0, "problems": []}
    terminal.show(empty, lambda: text)
    return 0


def _problems(cleared: dict[str, object]) -> list[str]:
    problems = cleared["problems"]
    assert isinstance(problems, list)  # noqa: S101 - our own JSON
    return problems
