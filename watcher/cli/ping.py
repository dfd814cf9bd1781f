"""`ping`: does the service answer?"""

from __future__ import annotations

import time

import click

from watcher.cli.terminal import Terminal
from watcher.client import Client
from watcher.errors import ServiceUnreachable

_TRY_AGAIN_S = 0.05
_ANSWER_S = 5.0


@click.command("ping")
@click.option(
    "--wait", "wait_s", type=click.FloatRange(min=0), default=0, metavar="S", help="Wait up to S seconds for it."
)
@click.pass_obj
def command(terminal: Terminal, wait_s: float) -> None:
    """Tell whether the service of this home answers; exit code 0 when it does."""
    answer = _wait_for_answer(terminal, wait_s)
    terminal.show(answer, lambda: f"The service answers (process {answer['pid']}, home {answer['home']}).")


def _wait_for_answer(terminal: Terminal, wait_s: float) -> dict[str, object]:
    give_up_at = time.monotonic() + wait_s
    while True:
        try:
            with Client(terminal.paths.socket, timeout_s=_ANSWER_S) as client:
                answer = client.call("ping")
        except ServiceUnreachable:
            if time.monotonic() >= give_up_at:
                raise
            time.sleep(_TRY_AGAIN_S)
        else:
            return answer if isinstance(answer, dict) else {}
