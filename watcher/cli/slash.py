"""`slash`: a line from a chat, with the same grammar and the same texts as the command line."""

from __future__ import annotations

import click

from watcher.cli.rollback import carry_out
from watcher.cli.terminal import Terminal
from watcher.rollback import parse_chat


@click.command("slash")
@click.argument("line")
@click.pass_obj
def command(terminal: Terminal, line: str) -> int:
    """Do what a chat line asks for: "/rollback …" or "/diff session".

    Nothing is asked back: who writes `--all` means it.
    """
    return carry_out(terminal, parse_chat(line), yes=True)
