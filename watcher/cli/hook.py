"""`hook`: one agent's hook payload on standard input, for use with global options."""

from __future__ import annotations

import click

from watcher.cli.terminal import Terminal
from watcher.hook import main


@click.command("hook")
@click.argument("agent")
@click.pass_obj
def command(terminal: Terminal, agent: str) -> int:
    """Handle one hook payload of AGENT: generic, or claude-code.

    The exit code is 0 whatever happens, unless `on_failure: block` refuses a tool that can't be protected.
    """
    return main(agent, terminal.paths, use_service=terminal.use_service)
