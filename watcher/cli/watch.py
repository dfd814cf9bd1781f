"""`watch`: opt projects in and out."""

from __future__ import annotations

import click

from watcher.cli.take import render_taken
from watcher.cli.terminal import Terminal
from watcher.rollback import printable


@click.group("watch")
def command() -> None:
    """Choose which projects are protected."""


@command.command("add")
@click.argument("path", default=".")
@click.pass_obj
def add(terminal: Terminal, path: str) -> None:
    """Protect a project from now on, and take its first checkpoint."""
    added = terminal.ask_long("watch", action="add", path=path, cwd=terminal.directory)
    word = "Protected from now on" if added["added"] else "Protected already"
    terminal.show(added, lambda: f"✅ {word}: {printable(str(added['workdir']))}\n{render_taken(added)}")


@command.command("remove")
@click.argument("path", default=".")
@click.pass_obj
def remove(terminal: Terminal, path: str) -> None:
    """Stop protecting a project; its checkpoints stay until they are pruned."""
    removed = terminal.ask("watch", action="remove", path=path, cwd=terminal.directory)
    terminal.show(removed, lambda: f"No longer protected: {printable(str(removed['workdir']))}")


@command.command("list")
@click.pass_obj
def list_(terminal: Terminal) -> None:
    """List the protected projects."""
    listed = terminal.ask("watch", action="list")
    projects = listed["projects"]
    assert isinstance(projects, list)  # noqa: S101 - our own JSON
    terminal.show(listed, lambda: "\n".join(printable(each) for each in projects) or "No project is opted in.")
