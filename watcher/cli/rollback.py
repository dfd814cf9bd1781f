"""`rollback`: list the checkpoints, show what changed, put back."""

from __future__ import annotations

import sys

import click

from config.errors import UsageError
from watcher.cli.pager import show_diff
from watcher.cli.terminal import PARTLY_DONE, Terminal
from watcher.rollback import (
    DiffRequest,
    ListRequest,
    Request,
    RestoreRequest,
    SettleRequest,
    parse_rollback,
    render_list,
    render_restore,
)


@click.command("rollback", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[list | diff N | N [--all | FILE…]]")
@click.option("--yes", is_flag=True, help="Don't ask before a full restore.")
@click.pass_obj
def command(terminal: Terminal, words: tuple[str, ...], *, yes: bool) -> int:
    """List checkpoints, or go back to one; hand edits stay unless --all is given.

    \b
    rollback                 list the checkpoints
    rollback diff N          what changed since checkpoint N
    rollback N               restore to checkpoint N, keeping your hand-edits
    rollback N --all         full restore, overwriting your hand-edits too
    rollback N FILE…         restore some files or directories
    rollback N --session ID  take back only what one session wrote
    rollback --resume        finish a rollback that was cut off
    rollback --abort         take it back
    --dry-run                only show what would happen
    """  # noqa: D301 - click takes the backspace character for "keep these lines"
    return carry_out(terminal, parse_rollback(words), yes=yes)


def carry_out(terminal: Terminal, request: Request, *, yes: bool) -> int:
    """Do what was asked for, show it, and return the exit code.

    Args:
        terminal: Where it is shown.
        request: What was asked for.
        yes: Don't ask before a full restore.
    """
    match request:
        case ListRequest():
            listed = terminal.ask("rollback.list", workdir=terminal.directory)
            terminal.show(listed, lambda: render_list(listed))
            return 0
        case DiffRequest(checkpoint):
            diff = terminal.ask("rollback.diff", workdir=terminal.directory, hash=checkpoint)
            show_diff(terminal, diff)
            return 0
        case SettleRequest(action):
            done = terminal.ask("rollback.settle", workdir=terminal.directory, action=action)
            terminal.show(done, lambda: render_restore(done, ()))
            return 0 if done["success"] else PARTLY_DONE
        case RestoreRequest():
            return _restore(terminal, request, yes=yes)


def _restore(terminal: Terminal, request: RestoreRequest, *, yes: bool) -> int:
    arguments: dict[str, object] = {
        "workdir": terminal.directory,
        "cwd": terminal.directory,
        "hash": request.checkpoint,
        "paths": list(request.paths),
        "all": request.everything,
        "session": request.session,
    }
    if request.everything and not request.dry_run and not yes and not terminal.as_json and sys.stdin.isatty():
        preview = terminal.ask("rollback.restore", **arguments, dry_run=True)
        click.echo(render_restore(preview, request.paths))
        if not click.confirm("Overwrite your hand-edits too?"):
            raise UsageError("Nothing was changed.")
    done = terminal.ask("rollback.restore", **arguments, dry_run=request.dry_run)
    terminal.show(done, lambda: render_restore(done, request.paths))
    return 0 if done["success"] else PARTLY_DONE
