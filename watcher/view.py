"""Checkpoints, rollbacks and projects as JSON: the fields that users and agents get.

Owns the names of the fields. The text for people is made from the same JSON, by `watcher.rollback` and the commands.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

from store.errors import CorruptFileError
from store.journal import find_journal
from store.mounts import WorkdirState
from store.retention import Verdict
from store.statistics import Statistics

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from store.baseline import Baseline
    from store.diff import Diff
    from store.entries import Node
    from store.layout import Layout
    from store.objects import Commit
    from store.project import Project, ProjectRecord
    from store.prune import Pruned
    from store.restore import Rollback
    from store.retention import Decision

SHORT_DIGITS = 7


def describe_checkpoint(
    commit: Commit, *, number: int | None = None, statistics: Statistics | None = None
) -> dict[str, object]:
    """Return a checkpoint as JSON.

    Args:
        commit: It.
        number: Its place in the list; nothing outside a list.
        statistics: What it changed; nothing where that is not known.
    """
    note, counts = commit.note, statistics or Statistics()
    skipped, nested = note.get("skipped"), note.get("nested")
    return {
        "number": number,
        "hash": commit.oid.hex(),
        "short_hash": commit.oid.hex()[:SHORT_DIGITS],
        "timestamp": format_time(commit.seconds, commit.offset_min),
        "message": commit.subject,
        "kind": note.get("kind") or _guess_kind(commit.subject),
        "session": note.get("session"),
        "turn": note.get("turn"),
        "files_changed": counts.files_changed,
        "insertions": counts.insertions,
        "deletions": counts.deletions,
        "skipped": skipped if isinstance(skipped, list) else [],
        "nested_repositories": nested if isinstance(nested, list) else [],
    }


def describe_rollback(done: Rollback, *, undo_turns: int) -> dict[str, object]:
    """Return what a rollback did as JSON; `success` is true only when all of it was done and verified."""
    restored, removed = _decode(done.restored, done.directories), _decode(done.removed, done.directories)
    raw: dict[str, object] = {
        "success": not done.failed,
        "restored_to": done.checkpoint.oid.hex()[:8],
        "hash": done.checkpoint.oid.hex(),
        "message": done.checkpoint.subject,
        "mode": done.mode.value,
        "restored_files": restored,
        "deleted_files": removed,
        "skipped_user_edits": _decode(done.kept, done.directories),
        "skipped_oversize": _decode(done.oversize),
        "left_in_place": [{"path": os.fsdecode(left.path), "reason": left.reason} for left in done.left],
        "pre_rollback": done.safety.oid.hex() if done.safety is not None else None,
        "undo_turns": undo_turns,
        "dry_run": done.dry_run,
    }
    if done.failed:
        raw["failed"] = [{"path": os.fsdecode(left.path), "reason": left.reason} for left in done.failed]
        raw["kind"] = "partial"
        raw["error"] = _describe_failure(done)
    return raw


def describe_cut_off(layout: Layout, project: Project) -> dict[str, object] | None:
    """Return what is known of a rollback that was cut off, as JSON; nothing when none was."""
    try:
        found = find_journal(layout, project)
    except CorruptFileError as error:
        return {"error": error.message}
    if found is None:
        return None
    return {"restoring_to": found.target.hex()[:8], "pre_rollback": found.safety.hex(), "at": found.began_at}


def describe_diff(diff: Diff, *, baseline: Commit | None) -> dict[str, object]:
    """Return a comparison as JSON; bytes that are not UTF-8 are surrogate escapes."""
    return {
        "success": True,
        "stat": os.fsdecode(diff.stat),
        "diff": os.fsdecode(diff.patch),
        "beside": [
            {"path": os.fsdecode(each.path), "old": _describe_bits(each.old), "new": _describe_bits(each.new)}
            for each in diff.beside
        ],
        "empty": not diff.patch and not diff.beside,
        "baseline": baseline.oid.hex() if baseline is not None else None,
    }


def _describe_bits(node: Node | None) -> str | None:
    """Return the kind and the permission bits of what stands at a path; nothing when nothing does."""
    if node is None:
        return None
    kind = "directory" if node.is_directory else "file"
    return kind if node.bits is None else f"{kind} {node.bits:04o}"


def describe_left_out(baseline: Baseline) -> list[dict[str, str]]:
    """Return what is not captured now, and why."""
    return [{"path": os.fsdecode(path), "reason": reason.value} for path, reason in sorted(baseline.left_out.items())]


def describe_health(record: ProjectRecord | None, *, protected: bool) -> dict[str, object]:
    """Return how well a project is protected."""
    failure = record.last_failure if record is not None else None
    succeeded = record.last_success if record is not None else None
    is_failing = failure is not None and (succeeded is None or failure.at >= succeeded)
    if not protected:
        why: str | None = "not opted in"
    else:
        why = failure.why if is_failing and failure is not None else None
    return {
        "protected": protected and not is_failing,
        "why": why,
        "last_success": succeeded,
        "last_failure": {"at": failure.at, "why": failure.why} if failure is not None else None,
    }


def format_time(seconds: float, offset_min: int) -> str:
    """Return a moment in ISO 8601 with its offset."""
    zone = timezone(timedelta(minutes=offset_min))
    return datetime.fromtimestamp(seconds, UTC).astimezone(zone).isoformat()


def _describe_failure(done: Rollback) -> str:
    first = done.failed[0]
    more = f" (+{len(done.failed) - 1})" if len(done.failed) > 1 else ""
    way_back = f" The state before is checkpoint {done.safety.oid.hex()[:8]}." if done.safety is not None else ""
    return f"Rolled back in part: {os.fsdecode(first.path)} stayed as it was, {first.reason}{more}.{way_back}"


def _decode(paths: Iterable[bytes], directories: Collection[bytes] = ()) -> list[str]:
    """Return paths as text; a directory's ends in a slash."""
    return [os.fsdecode(path) + ("/" if path in directories else "") for path in paths]


def _guess_kind(subject: str) -> str:
    """Return the kind of a checkpoint that another program took."""
    if subject.startswith("pre-rollback snapshot"):
        return "pre-rollback"
    return "tool" if subject.startswith("before ") else "manual"


def describe_pruned(pruned: Pruned) -> dict[str, object]:
    """Return the JSON of a sweep. What went is counted, what stayed is named with its reason."""
    stale, orphans = pruned.list_decided(Verdict.STALE), pruned.list_decided(Verdict.ORPHAN)
    kept = pruned.list_decided(Verdict.KEEP)
    return {
        "scanned": len(pruned.decisions),
        "deleted_orphan": len(orphans),
        "deleted_stale": len(stale) + len(pruned.archives),
        "dropped_checkpoints": pruned.dropped,
        "kept": [
            {
                "hash": each.candidate.hash,
                "workdir": each.candidate.workdir,
                "state": each.candidate.state.value,
                "reason": each.reason,
            }
            for each in kept
        ],
        "errors": len(pruned.problems),
        "bytes_freed": pruned.freed_bytes,
        "over_cap": pruned.is_over_cap,
        "dry_run": pruned.dry_run,
        "orphans": [
            _name_project(pruned, each) for each in (*orphans, *kept) if each.candidate.state is WorkdirState.ORPHAN
        ],
        "stale": [_name_project(pruned, each) for each in stale],
        "legacy": [archive.name for archive in pruned.archives],
        "problems": pruned.problems,
    }


def _name_project(pruned: Pruned, decision: Decision) -> dict[str, object]:
    project = decision.candidate.hash
    return {"hash": project, "workdir": decision.candidate.workdir, "commits": pruned.commit_counts.get(project, 0)}
