"""`service`: keep the service running, at every login."""

from __future__ import annotations

import os
from collections import deque

import click

from store.errors import StoreError
from watcher.cli.terminal import Terminal

_SHOWN_LINES = 50


@click.group("service")
def command() -> None:
    """Start and stop the service, and have it start at every login."""


@command.command("install")
@click.pass_obj
def install(terminal: Terminal) -> None:
    """Have the service run now and at every login: a systemd user unit, or a launchd agent."""
    from watcher.supervisor import find_supervisor  # noqa: PLC0415 - the other commands need none of it

    supervisor = find_supervisor(terminal.paths)
    supervisor.install()
    unit, answer = (
        supervisor.unit_file,
        {"installed": supervisor.is_installed, "kind": supervisor.kind, "running": True},
    )
    if unit is None:
        text = "The service runs. No systemd or launchd is here, so it has to be started again after a reboot."
    else:
        text = f"The service runs, now and at every login ({unit})."
    terminal.show(answer | {"unit": unit}, lambda: text)


@command.command("uninstall")
@click.pass_obj
def uninstall(terminal: Terminal) -> None:
    """Stop the service, and have it not start again. The store stays."""
    from watcher.supervisor import find_supervisor  # noqa: PLC0415 - as above

    find_supervisor(terminal.paths).uninstall()
    terminal.show({"installed": False, "running": False}, lambda: "The service is stopped and no longer installed.")


@command.command("start")
@click.pass_obj
def start(terminal: Terminal) -> None:
    """Start the service, if it does not run."""
    from watcher.supervisor import find_supervisor, is_answering  # noqa: PLC0415 - as above

    if not is_answering(terminal.paths):
        find_supervisor(terminal.paths).start()
    terminal.show({"running": True}, lambda: "The service runs.")


@command.command("stop")
@click.pass_obj
def stop(terminal: Terminal) -> None:
    """Stop the service; hooks do its work themselves meanwhile."""
    from watcher.supervisor import find_supervisor  # noqa: PLC0415 - as above

    find_supervisor(terminal.paths).stop()
    terminal.show({"running": False}, lambda: "The service is stopped.")


@command.command("restart")
@click.pass_obj
def restart(terminal: Terminal) -> None:
    """Stop the service and start it again."""
    from watcher.supervisor import find_supervisor  # noqa: PLC0415 - as above

    supervisor = find_supervisor(terminal.paths)
    supervisor.stop()
    supervisor.start()
    terminal.show({"running": True}, lambda: "The service runs.")


@command.command("status")
@click.pass_obj
def status(terminal: Terminal) -> int:
    """Tell whether the service runs, and whether it starts at login; exit code 0 when it runs."""
    from watcher.supervisor import find_supervisor, is_answering  # noqa: PLC0415 - as above

    supervisor, is_running = find_supervisor(terminal.paths), is_answering(terminal.paths)
    answer = {
        "running": is_running,
        "installed": supervisor.is_installed,
        "kind": supervisor.kind,
        "unit": supervisor.unit_file,
    }
    runs = "runs" if is_running else "does not run"
    starts = "starts at every login" if supervisor.is_installed else "is not started at login"
    terminal.show(answer, lambda: f"The service {runs}, and {starts}.")
    return 0 if is_running else 1


@command.command("logs")
@click.option("-n", "--lines", type=click.IntRange(min=1), default=_SHOWN_LINES, show_default=True, help="How many.")
@click.pass_obj
def logs(terminal: Terminal, lines: int) -> None:
    """Show the last lines of the service's log."""
    path = terminal.paths.log_file
    if not os.path.exists(path):
        raise StoreError(f"There is no log yet: {path}")
    with open(path, encoding="utf-8", errors="replace") as file:
        shown = [line.rstrip("\n") for line in deque(file, maxlen=lines)]
    terminal.show({"file": path, "lines": shown}, lambda: "\n".join(shown))
