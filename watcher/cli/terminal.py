"""What every command works with: the global options, the user's terminal, and the way to the operations."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from config.paths import resolve_paths
from watcher.cli.progress import progress_bar
from watcher.client import Client
from watcher.errors import ServiceUnreachable

if TYPE_CHECKING:
    from collections.abc import Callable

    from config.paths import Paths
    from watcher.progress import Progress

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

    def ask_long(self, method: str, **arguments: object) -> dict[str, object]:
        """Have an operation done that may read many files, and show on a terminal how far it is.

        Raises:
            CheckpointError: It could not be done.
        """
        with progress_bar(shown=not self.as_json and sys.stderr.isatty()) as on_progress:
            return self.ask(method, on_progress, **arguments)

    def ask(self, method: str, on_progress: Progress | None = None, /, **arguments: object) -> dict[str, object]:
        """Have an operation done: by the service when it answers, else in this process.

        Raises:
            CheckpointError: It could not be done.
        """
        paths = self.paths
        if self.use_service:
            try:
                with Client(paths.socket, timeout_s=_ASK_TIMEOUT_S) as client:
                    answer = client.call(method, on_progress, **arguments)
            except ServiceUnreachable:
                pass
            else:
                return answer if isinstance(answer, dict) else {}
        from watcher.direct import open_directly  # noqa: PLC0415 - slow to import, not needed with the service

        with open_directly(paths) as operations:
            return operations.dispatch(method, arguments, on_progress)

    def show(self, answer: dict[str, object], render: Callable[[], str]) -> None:
        """Print an answer, as JSON or as text, to the byte: click would take escape sequences out of a patch."""
        click.echo(json.dumps(answer) if self.as_json else render(), color=True)
