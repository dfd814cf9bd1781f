"""`status`: the store at a glance."""

from __future__ import annotations

import time

import click

from watcher.cli.terminal import Terminal
from watcher.rollback import name_left_out, printable

_WORKDIR_COLUMNS = 60


@click.command("status")
@click.option("--limit", type=click.IntRange(min=1), default=20, metavar="N", help="Show at most N projects.")
@click.pass_obj
def command(terminal: Terminal, limit: int = 20) -> None:
    """Show the store, its projects, and whether the service runs."""
    status = terminal.ask("status")
    terminal.show(status, lambda: render_status(status, limit, now=time.time()))


def render_status(status: dict[str, object], limit: int, *, now: float) -> str:
    """Return the store at a glance, for people."""
    projects, archives = status["projects"], status["legacy_archives"]
    assert isinstance(projects, list)  # noqa: S101 - our own JSON
    assert isinstance(archives, list)  # noqa: S101 - our own JSON
    lines = [
        f"Checkpoint base: {printable(str(status['base']))}",
        f"Total size:      {format_size(status['total_size_bytes'])}",
        f"  store/         {format_size(status['store_size_bytes'])}",
        f"  legacy-*       {format_size(status['legacy_size_bytes'])}",
        f"Projects:        {status['project_count']}",
        *_render_service(status),
    ]
    if projects:
        lines += ["", f"  {'WORKDIR':<{_WORKDIR_COLUMNS}}  {'COMMITS':>7}  {'LAST TOUCH':>12}  STATE"]
        lines += [_render_project(project, now) for project in projects[:limit]]
        if len(projects) > limit:
            lines.append(f"  … {len(projects) - limit} more, see --limit")
    if archives:
        lines += ["", f"Legacy archives ({len(archives)}):"]
        lines += [f"  {archive['name']:<40}{format_size(archive['size_bytes']):>18}" for archive in archives[:limit]]
        if len(archives) > limit:
            lines.append(f"  … {len(archives) - limit} more, see --limit")
        lines += ["", "Clear with: hermes-checkpoints clear-legacy"]
    return "\n".join(lines)


def _render_service(status: dict[str, object]) -> list[str]:
    service = status["service"]
    assert isinstance(service, dict)  # noqa: S101 - our own JSON
    lines = [f"Service:         {'running, process ' + str(service['pid']) if service['running'] else 'not running'}"]
    if not status["git"]:
        lines.append("⚠️ git was not found on PATH: no checkpoints are taken")
    if status["problem"]:
        lines.append(f"⚠️ {printable(str(status['problem']))}")
    damaged = status.get("damaged")
    if isinstance(damaged, list):
        lines += [f"⚠️ {printable(str(path))} could not be understood; it was set aside" for path in damaged]
    return lines


def _render_project(project: dict[str, object], now: float) -> str:
    workdir = printable(str(project["workdir"] or "(unknown)"))
    if len(workdir) > _WORKDIR_COLUMNS:
        workdir = "…" + workdir[-(_WORKDIR_COLUMNS - 1) :]
    touched = project.get("last_touch")
    age = format_age(now - touched) if isinstance(touched, (int, float)) else "—"
    row = f"  {workdir:<{_WORKDIR_COLUMNS}}  {project.get('commits', 0):>7}  {age:>12}  {project['state']}"
    failure = project.get("last_failure")
    if isinstance(failure, dict) and project.get("failing"):
        row += f"\n    last failure, {format_age(now - float(failure['at']))}: {printable(str(failure['why']))}"
    if left_out := name_left_out(project.get("skipped")):
        row += f"\n    not in the newest checkpoint: {left_out}"
    if project.get("cut_off"):
        row += "\n    ⚠️ a rollback was cut off: finish it with rollback --resume, or take it back with rollback --abort"
    if project.get("error"):
        row += f"\n    ⚠️ {printable(str(project['error']))}"
    return row


def format_size(size_bytes: object) -> str:
    """Return a size with a unit, 1024 bytes to the kilobyte."""
    size = float(str(size_bytes))
    if size < 1024:
        return f"{size:.0f} B"
    for unit in ("KB", "MB", "GB"):
        size /= 1024
        if size < 1024:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} TB"


def format_age(age_s: float) -> str:
    """Return how long ago something was."""
    if age_s < 1:
        return "now"
    for limit_s, unit_s, unit in ((60, 1, "s"), (3600, 60, "m"), (86400, 3600, "h")):
        if age_s < limit_s:
            return f"{int(age_s // unit_s)}{unit} ago"
    return f"{int(age_s // 86400)}d ago"
