"""`diff`: from a checkpoint, or from the first one of the session, to now."""

from __future__ import annotations

import click

from watcher.cli.pager import show_diff
from watcher.cli.terminal import Terminal


@click.command("diff")
@click.argument("checkpoint", default="1", metavar="[N|session]")
@click.pass_obj
def command(terminal: Terminal, checkpoint: str) -> None:
    """Show what changed since checkpoint N, or since the session began."""
    diff = terminal.ask("rollback.diff", workdir=terminal.directory, hash=checkpoint)
    show_diff(terminal, diff)
