"""The command line's root: global options, errors to exit codes, and how a command reaches the operations.

Owns what all commands share. Each command is a file of its own beside this one.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

import click

from config.errors import CheckpointError, UsageError
from config.paths import resolve_paths
from watcher.client import Client
from watcher.errors import ServiceUnreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from config.paths import Paths

_INTERRUPTED = 130
PARTLY_DONE = 3
_ASK_TIMEOUT_S = 700.0
"""The first checkpoint of a large project takes a while."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """Hold the global options, and talk to the user and to the service."""

    home: str | None
    profile: str | None
    directory: str
    """Where the command acts, absolute."""
    as_json: bool
    use_service: bool

    @property
    def paths(self) -> Paths:
        """Return where everything of the home is."""
        return resolve_paths(home=self.home, profile=self.profile, environ=os.environ)

    def ask(self, method: str, **arguments: object) -> dict[str, object]:
        """Have an operation done: by the service when it answers, else in this process.

        Raises:
            CheckpointError: It could not be done.
        """
        paths = self.paths
        if self.use_service:
            try:
                with Client(paths.socket, timeout_s=_ASK_TIMEOUT_S) as client:
                    answer = client.call(method, **arguments)
            except ServiceUnreachable:
                pass
            else:
                return answer if isinstance(answer, dict) else {}
        from watcher.direct import open_directly  # noqa: PLC0415 - slow to import, not needed with the service

        with open_directly(paths) as operations:
            return operations.dispatch(method, arguments)

    def show(self, answer: dict[str, object], render: Callable[[], str]) -> None:
        """Print an answer, as JSON or as text."""
        click.echo(json.dumps(answer) if self.as_json else render())


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--home", metavar="DIR", help="Where everything is kept; else HERMES_HOME, else ~/.hermes.")
@click.option("--profile", metavar="NAME", help="A named profile of that home.")
@click.option("-C", "directory", metavar="DIR", default=".", help="Act as if started in DIR.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--no-service", is_flag=True, help="Do the work in this process, even when the service runs.")
@click.option("-v", "--verbose", is_flag=True, help="Say more about what happens, on standard error.")
@click.version_option(version("hermes-checkpoints"), prog_name="hermes-checkpoints")
@click.pass_context
def root(  # noqa: PLR0913 - click passes each option by its name
    context: click.Context,
    *,
    home: str | None,
    profile: str | None,
    directory: str,
    as_json: bool,
    no_service: bool,
    verbose: bool,
) -> None:
    """A safety net beside coding agents: a checkpoint before every tool that changes files, and rollback."""
    logging.basicConfig(level=logging.DEBUG if verbose else logging.ERROR, format="%(levelname)s %(name)s: %(message)s")
    absolute = os.path.abspath(os.path.join(_current_directory(), directory))
    if not os.path.isdir(absolute):
        raise UsageError(f"{directory} is not a directory.")
    context.obj = Terminal(home, profile, absolute, as_json, use_service=not no_service)
    if context.invoked_subcommand is None:
        context.invoke(root.get_command(context, "status"))  # type: ignore[arg-type] # status is always registered


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code."""
    _register()
    as_json = "--json" in arguments
    try:
        code = root.main(list(arguments), prog_name="hermes-checkpoints", standalone_mode=False)
    except CheckpointError as error:
        return _report(error, as_json=as_json)
    except click.UsageError as error:
        return _report(UsageError(error.format_message(), hint="See: hermes-checkpoints --help"), as_json=as_json)
    except (click.Abort, KeyboardInterrupt):
        return _INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        logging.getLogger(__name__).debug("unexpected", exc_info=True)
        named = CheckpointError(
            f"hermes-checkpoints failed unexpectedly: {type(error).__name__}: {error}", hint="Say -v for more."
        )
        return _report(named, as_json=as_json)
    return code if isinstance(code, int) else 0


def _report(error: CheckpointError, *, as_json: bool) -> int:
    """Tell the user why it was refused or failed."""
    if as_json:
        raw: dict[str, object] = {"success": False, "error": error.message, "kind": error.kind}
        if error.hint:
            raw["hint"] = error.hint
        click.echo(json.dumps(raw | getattr(error, "fields", {})))
    else:
        click.echo(f"❌ {error.message}", err=True)
        if error.hint:
            click.echo(f"Hint: {error.hint}", err=True)
    return error.exit_code


def _current_directory() -> str:
    """Return where the command was started.

    Raises:
        UsageError: That directory is gone.
    """
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise UsageError("The current directory is gone.", hint="Say where with -C DIR.") from None


def _register() -> None:
    """Add every command to the root."""
    from watcher.cli import diff, hook, ping, rollback, serve, status, take, watch  # noqa: PLC0415 - they import this module

    for module in (diff, hook, ping, rollback, serve, status, take, watch):
        root.add_command(module.command)
    root.add_command(status.command, "list")
