"""The command line's root: global options, and errors to exit codes.

Owns what all commands share. Each command is a file of its own beside this one.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import TYPE_CHECKING

import click

from config.errors import CheckpointError, UsageError
from watcher.cli.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Sequence


_INTERRUPTED = 130


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--home", metavar="DIR", help="Where everything is kept; else HERMES_HOME, else ~/.hermes.")
@click.option("--profile", metavar="NAME", help="A named profile of that home.")
@click.option("-C", "directory", metavar="DIR", default=".", help="Act as if started in DIR.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--no-service", is_flag=True, help="Do the work in this process, even when the service runs.")
@click.option("-v", "--verbose", is_flag=True, help="Say more about what happens, on standard error.")
@click.version_option(package_name="hermes-checkpoints", prog_name="hermes-checkpoints")
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
    as_json, words = _take_json_option(arguments)
    try:
        code = root.main(words, prog_name="hermes-checkpoints", standalone_mode=False)
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


def _take_json_option(arguments: Sequence[str]) -> tuple[bool, list[str]]:
    """Return whether JSON is asked for, wherever that is said, and the arguments with the option in front."""
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    words = [word for word in arguments[:end] if word != "--json"]
    as_json = len(words) < end
    return as_json, [*(["--json"] if as_json else []), *words, *arguments[end:]]


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
    from watcher.cli import (  # noqa: PLC0415 - they import this module
        agent,
        clear,
        completion,
        diff,
        doctor,
        hook,
        ping,
        prune,
        rollback,
        run,
        serve,
        service,
        slash,
        status,
        take,
        watch,
    )

    for module in (
        agent, clear, completion, diff, doctor, hook, ping, prune, rollback, run, serve, service, slash, status, take,
        watch,
    ):  # fmt: skip
        root.add_command(module.command)
    root.add_command(clear.legacy_command)
    root.add_command(status.command, "list")
