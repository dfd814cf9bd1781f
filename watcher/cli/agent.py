"""`agent`: put our hooks into an agent's settings, and take them out."""

from __future__ import annotations

import difflib
import os

import click

from watcher.cli.terminal import Terminal
from watcher.installation import (
    AGENTS,
    Change,
    apply,
    find_agent,
    find_file,
    is_hooked,
    is_present,
    plan_install,
    plan_uninstall,
)

_project = click.option("--project", "in_project", is_flag=True, help="In this project's settings, not in the user's.")
_dry_run = click.option("--dry-run", is_flag=True, help="Only show what would change.")


@click.group("agent")
def command() -> None:
    """Hook agents, so that they announce what their tools do."""


@command.command("list")
@click.pass_obj
def list_agents(terminal: Terminal) -> None:
    """Show the agents that can be hooked, and which of them are."""
    rows = []
    for name, agent in AGENTS.items():
        files = [find_file(agent, None), find_file(agent, terminal.directory)]
        hooked = [path for path in dict.fromkeys(files) if is_hooked(path)]
        rows.append({"agent": name, "title": agent.title, "present": is_present(agent), "hooked": hooked})
    terminal.show({"agents": rows}, lambda: "\n".join(_render(row) for row in rows))


def _render(row: dict[str, object]) -> str:
    hooked = row["hooked"]
    assert isinstance(hooked, list)  # noqa: S101 - made above
    state = f"hooked in {', '.join(hooked)}" if hooked else "not hooked" if row["present"] else "not found here"
    return f"  {row['agent']!s:<12}  {state}"


@command.command("install")
@click.argument("name")
@_project
@_dry_run
@click.pass_obj
def install(terminal: Terminal, name: str, *, in_project: bool, dry_run: bool) -> None:
    """Put our hooks into an agent's settings; what else is in there stays."""
    agent = find_agent(name)
    path = find_file(agent, terminal.directory if in_project else None)
    change = plan_install(agent, path, terminal.paths)
    if not dry_run and not change.is_empty:
        apply(change, keeps_copy=True)
    text = f"{agent.title} is hooked in {path}."
    if change.is_empty:
        text = f"{agent.title} was hooked already in {path}."
    _show(terminal, change, "\n".join(filter(None, [text, agent.next_step])), dry_run=dry_run)


@command.command("uninstall")
@click.argument("name")
@_project
@_dry_run
@click.pass_obj
def uninstall(terminal: Terminal, name: str, *, in_project: bool, dry_run: bool) -> None:
    """Take our hooks out of an agent's settings."""
    agent = find_agent(name)
    path = find_file(agent, terminal.directory if in_project else None)
    change = plan_uninstall(agent, path, terminal.paths)
    if not dry_run and not change.is_empty:
        apply(change, keeps_copy=False)
    text = f"{agent.title} was not hooked in {path}." if change.is_empty else f"{agent.title} is no longer hooked."
    _show(terminal, change, text, dry_run=dry_run)


def _show(terminal: Terminal, change: Change, text: str, *, dry_run: bool) -> None:
    lines = difflib.unified_diff(
        (change.before or "").splitlines(keepends=True),
        (change.after or "").splitlines(keepends=True),
        change.path if change.before is not None else os.devnull,
        change.path if change.after is not None else os.devnull,
    )
    diff = "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
    answer = {"file": change.path, "changed": not change.is_empty, "dry_run": dry_run, "diff": diff}
    terminal.show(answer, lambda: (diff.rstrip("\n") or "Nothing would change.") if dry_run else text)
