"""`run`: a program with checkpoints on for its session."""

from __future__ import annotations

import click

from config.errors import CheckpointError
from watcher.cli.terminal import Terminal
from watcher.rollback import printable
from watcher.session import run_session


@click.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--no-checkpoints", is_flag=True, help="Take none in this session, whatever is set.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="-- PROGRAM [ARGUMENT…]")
@click.pass_obj
def command(terminal: Terminal, words: tuple[str, ...], *, no_checkpoints: bool) -> int:
    """Run a program, such as an agent, with checkpoints on and nothing configured.

    The state before it is a checkpoint, and what it changes is its work: `rollback 1` takes that back. Its exit code is
    passed on.
    """

    def announce(event: dict[str, object]) -> None:
        try:
            answer = terminal.ask("event", **event)
        except CheckpointError as error:
            click.echo(f"hermes-checkpoints: {error.message}", err=True)
            return
        if answer.get("message"):
            click.echo(f"hermes-checkpoints: {printable(str(answer['message']))}", err=True)

    return run_session(words, terminal.directory, announce, checkpoints=not no_checkpoints)
