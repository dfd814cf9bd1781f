"""`serve`: the service in the foreground."""

from __future__ import annotations

import os
import sys

import click

from watcher.cli.terminal import Terminal


@click.command("serve")
@click.pass_obj
def command(terminal: Terminal) -> None:
    """Run the service until Ctrl-C."""
    from watcher.service import Service, describe_ready  # noqa: PLC0415 - watchdog and APScheduler are slow to import

    program = os.path.abspath(sys.argv[0])
    service = Service(terminal.paths)
    service.run(on_ready=lambda watched: click.echo(describe_ready(program, watched)))
