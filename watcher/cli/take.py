"""`take`: a checkpoint by hand."""

from __future__ import annotations

import click

from watcher.cli.terminal import Terminal
from watcher.rollback import printable


@click.command("take")
@click.option("-m", "--message", "reason", default="", help="What to call it.")
@click.pass_obj
def command(terminal: Terminal, reason: str) -> None:
    """Take a checkpoint of this project now; asking for it is consent enough."""
    taken = terminal.ask_long("take", workdir=terminal.directory, reason=reason)
    terminal.show(taken, lambda: render_taken(taken))


def render_taken(taken: dict[str, object]) -> str:
    """Return what came of taking a checkpoint, for people."""
    checkpoint, skipped = taken["checkpoint"], taken["skipped"]
    assert isinstance(checkpoint, dict)  # noqa: S101 - our own JSON
    assert isinstance(skipped, list)  # noqa: S101 - our own JSON
    name, message = checkpoint["short_hash"], printable(str(checkpoint["message"]))
    if taken["taken"]:
        lines = [f"📸 Checkpoint {name}: {message} ({taken['files']} files, {taken['elapsed_ms']} ms)"]
    else:
        lines = [f"Nothing has changed since checkpoint {name}: {message}"]
    shown = [f"  not captured: {printable(each['path'])} ({each['reason']})" for each in skipped[:10]]
    more = [f"  … and {len(skipped) - 10} more, see --json"] if len(skipped) > 10 else []
    return "\n".join([*lines, *shown, *more])
