"""`prune`: the full sweep, now."""

from __future__ import annotations

import click

from watcher.cli.confirm import DECLINED, is_confirmed
from watcher.cli.status import format_size
from watcher.cli.terminal import PARTLY_DONE, Terminal
from watcher.rollback import printable


@click.command("prune")
@click.option(
    "--retention-days", type=click.FloatRange(min=0), metavar="N", help="Untouched for longer goes; 0: never."
)
@click.option("--max-size-mb", type=click.IntRange(min=0), metavar="N", help="The store's size cap; 0: none.")
@click.option("--keep-orphans", is_flag=True, help="Keep projects whose directory was deleted.")
@click.option("--dry-run", is_flag=True, help="Only show what would go.")
@click.option("-f", "--force", is_flag=True, help="Don't ask before orphans are deleted.")
@click.pass_obj
def command(
    terminal: Terminal,
    *,
    retention_days: float | None,
    max_size_mb: int | None,
    keep_orphans: bool,
    dry_run: bool,
    force: bool,
) -> int:
    """Delete what is old, free the space, and bring the store under its size cap."""
    limits = {"retention_days": retention_days, "max_size_mb": max_size_mb}
    orphans = [] if keep_orphans else list_orphans(terminal.ask("prune", **limits, dry_run=True))
    if orphans and not force and not dry_run:
        shown = render_orphans(orphans)
        if not is_confirmed(terminal, shown, "Delete these orphan projects?"):
            return DECLINED
    confirmed = [orphan["hash"] for orphan in orphans]
    if not terminal.as_json and not dry_run:
        click.echo("Pruning checkpoint store…")
    pruned = terminal.ask_long("prune", **limits, orphans=confirmed, dry_run=dry_run)
    terminal.show(pruned, lambda: render_pruned(pruned))
    return PARTLY_DONE if pruned["errors"] and not dry_run else 0


def list_orphans(preview: dict[str, object]) -> list[dict[str, object]]:
    """Return the orphans in the answer to a dry run."""
    orphans = preview["orphans"]
    assert isinstance(orphans, list)  # noqa: S101 - our own JSON
    return orphans


def render_orphans(orphans: list[dict[str, object]]) -> str:
    """Return what is shown before orphans are deleted."""
    what = "orphan checkpoint project(s) whose workdir is not currently reachable"
    lines = [f"This will permanently delete {len(orphans)} {what}:"]
    lines += [f"  {printable(str(each['workdir']))}  ({each['commits']} commit(s))" for each in orphans]
    lines += [
        "A directory that was moved, or that lies on a volume that is not mounted now, may look the same.",
        "Their checkpoints can't be brought back. To keep them, answer no, or run with --keep-orphans.",
        "Nothing else that becomes an orphan meanwhile is deleted.",
    ]
    return "\n".join(lines)


def render_pruned(pruned: dict[str, object]) -> str:
    """Return what a sweep did, for people."""
    lines = ["Nothing was changed. It would be:"] if pruned["dry_run"] else []
    lines += [
        f"Scanned:             {pruned['scanned']}",
        f"Deleted orphan:      {pruned['deleted_orphan']}",
        f"Deleted stale:       {pruned['deleted_stale']}",
        f"Dropped checkpoints: {pruned['dropped_checkpoints']}",
        f"Errors:              {pruned['errors']}",
        f"Bytes reclaimed:     {format_size(pruned['bytes_freed'])}",
    ]
    kept, problems = pruned["kept"], pruned["problems"]
    assert isinstance(kept, list)  # noqa: S101 - our own JSON
    assert isinstance(problems, list)  # noqa: S101 - our own JSON
    lines += [
        f"  kept: {printable(str(each['workdir'] or each['hash']))} ({each['state']}: {each['reason']})"
        for each in kept
        if each["state"] != "live"
    ]
    return "\n".join([*lines, *(f"⚠️ {printable(str(problem))}" for problem in problems)])
