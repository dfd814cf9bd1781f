"""Questions before something is lost: no answer, end of input and Ctrl-C mean no."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from watcher.cli.terminal import Terminal

DECLINED = 1


def is_confirmed(terminal: Terminal, shown: str, question: str) -> bool:
    """Show what is at stake, ask, and tell whether the answer is yes.

    With JSON asked for, the question goes to standard error.
    """
    click.echo(shown, err=terminal.as_json)
    try:
        answer = click.confirm(question, default=False, err=terminal.as_json)
    except click.Abort:
        click.echo("", err=terminal.as_json)
        answer = False
    if not answer:
        declined = json.dumps({"success": False, "error": "Aborted.", "kind": "aborted"})
        click.echo(declined if terminal.as_json else "Aborted.")
    return answer
