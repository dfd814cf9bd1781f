"""Do a rollback: refuse, plan, record the way back, write, remove, verify, report.

Owns the order of the steps. What happens to which path belongs to `store.plan`; the system calls to `store.apply`.
Until the safety checkpoint is in the store, nothing in the project changes.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from config.errors import CheckpointError
from store.apply import ProjectFiles
from store.capture import LeftOut, Limits, Reason, capture_path
from store.checkpoint import Label, take_checkpoint
from store.errors import NestedRepositoriesError, SafetyCheckpointError, SelectionError, StoreError
from store.history import list_history, trim_history
from store.ledger import (
    NOTHING,
    Author,
    Written,
    fingerprint_content,
    fingerprint_entry,
    fingerprint_file,
    judge,
    load_ledger,
    save_ledger,
)
from store.plan import LeftInPlace, Mode, Plan, Standing, plan_rollback
from store.scope_then import ScopeThen
from store.tree import compare, find_gitlinks, look_up, splice

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from store.baseline import Baseline
    from store.ledger import Ledger
    from store.objects import Commit, ObjectStore, Oid
    from store.project_store import ProjectStore

_NO_LIMITS = Limits(max_file_bytes=None)
"""What a rollback overwrites is recorded whatever its size."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Say what is put back, and how far the rollback goes."""

    mode: Mode
    """`DEFAULT`, `ALL` or `SELECTED`."""
    paths: tuple[bytes, ...] = ()
    """With `SELECTED`: files and directories relative to the project."""
    dry_run: bool = False
    """Only plan."""


@dataclass(frozen=True, slots=True)
class Rollback:
    """Say what a rollback did, or would do."""

    checkpoint: Commit
    """What was restored."""
    mode: Mode
    """How far it went; `EVERYTHING_RECORDED` when nothing was known of who wrote what."""
    restored: tuple[bytes, ...] = ()
    """Files put back, verified."""
    removed: tuple[bytes, ...] = ()
    """Files removed, verified."""
    kept: tuple[bytes, ...] = ()
    """The user's edits that stayed."""
    left: tuple[LeftInPlace, ...] = ()
    """What should have changed and stayed as it was."""
    oversize: tuple[bytes, ...] = ()
    """Files too large for checkpoints that stayed as they are."""
    failed: tuple[LeftInPlace, ...] = ()
    """What could not be changed; empty after a full success."""
    safety: Commit | None = None
    """The state before, or nothing when no file had to change."""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class _Step:
    """Hold what one path needs to be carried out."""

    standing: Standing
    status: os.stat_result | None
    """What stood there when it was recorded."""


@dataclass(slots=True)
class _Results:
    restored: list[bytes] = field(default_factory=list)
    removed: list[bytes] = field(default_factory=list)
    failed: list[LeftInPlace] = field(default_factory=list)


def roll_back(
    store: ProjectStore,
    baseline: Baseline,
    checkpoint: Commit,
    selection: Selection,
    *,
    label: Label,
    keep_count: int,
) -> Rollback:
    """Put back what a checkpoint holds. The caller holds the lock.

    Args:
        store: The project's part of the store.
        baseline: The state of its files now.
        checkpoint: One of its checkpoints.
        selection: What is put back.
        label: How the safety checkpoint is recorded.
        keep_count: How many checkpoints the history keeps.

    Raises:
        NestedRepositoriesError: It would touch nested repositories; nothing was changed.
        SelectionError: A selected path is in no checkpoint; nothing was changed.
        CorruptFileError: The ledger can't be understood; nothing was changed.
        SafetyCheckpointError: The way back could not be recorded; nothing was changed.
    """
    _refuse_nested(store.objects, checkpoint, selection)
    ledger = load_ledger(store.layout, store.project)
    mode = selection.mode
    if mode is Mode.DEFAULT and not ledger:
        mode = Mode.EVERYTHING_RECORDED
    standings = _find_standings(store, baseline, checkpoint, selection, ledger)
    plan = plan_rollback(standings, mode, _find_uncaptured(store, baseline, standings))
    if mode is Mode.SELECTED and plan.left:
        first = plan.left[0]
        raise SelectionError(f"{os.fsdecode(first.path)} can't be restored: {first.reason}.")
    report = Rollback(
        checkpoint,
        mode,
        kept=tuple(plan.kept),
        left=tuple(plan.left),
        oversize=_find_oversize(baseline, plan),
        dry_run=selection.dry_run,
    )
    if selection.dry_run:
        return replace(report, restored=tuple(plan.write), removed=tuple(plan.remove))
    if plan.is_empty:
        return report
    steps = {path: _prepare(store, standing) for path, standing in {**plan.write, **plan.remove}.items()}
    safety = _record_way_back(store, baseline, plan, label, keep_count)
    results = _carry_out(store, checkpoint, plan, steps)
    _note_in_ledger(store, ledger, plan, results, label)
    trim_history(store.layout, list_history(store), keep_count)
    return replace(
        report,
        restored=tuple(results.restored),
        removed=tuple(results.removed),
        failed=tuple(results.failed),
        safety=safety,
    )


def _refuse_nested(objects: ObjectStore, checkpoint: Commit, selection: Selection) -> None:
    """Refuse what would touch a nested repository, by the paths that the checkpoint recorded."""
    recorded = checkpoint.note.get("nested")
    if isinstance(recorded, list):
        nested = sorted(os.fsencode(path) for path in recorded if isinstance(path, str))
    else:
        nested = find_gitlinks(objects, checkpoint.tree)
    if selection.mode is Mode.SELECTED:
        nested = [path for path in nested if any(_overlap(path, chosen) for chosen in selection.paths)]
    if nested:
        raise NestedRepositoriesError([os.fsdecode(path) for path in nested])


def _overlap(path: bytes, other: bytes) -> bool:
    """Tell whether one path is the other, or lies below it."""
    return path == other or path.startswith(other + b"/") or other.startswith(path + b"/") or not other


def _is_selected(path: bytes, selection: Selection) -> bool:
    return selection.mode is not Mode.SELECTED or any(
        path == chosen or path.startswith(chosen + b"/") or not chosen for chosen in selection.paths
    )


def _find_standings(
    store: ProjectStore,
    baseline: Baseline,
    checkpoint: Commit,
    selection: Selection,
    ledger: Ledger,
) -> list[Standing]:
    """Return every selected path at which the project differs from the checkpoint."""
    _check_selected(store, baseline, checkpoint, selection)
    objects, root = store.objects, store.project.root
    files, then = ProjectFiles(root), ScopeThen(objects, checkpoint, baseline.patterns)
    standings = []
    for difference in compare(objects, checkpoint.tree, baseline.tree):
        path, current, is_captured, obstacle = difference.path, difference.new, True, ""
        if not _is_selected(path, selection):
            continue
        if current is None and files.status(path) is not None:
            found = capture_path(objects, root, path, _NO_LIMITS)
            if isinstance(found, LeftOut):
                obstacle = f"what is there can't be recorded ({found.reason})"
            elif found is not None:
                current, is_captured = found, False
        if difference.old is None and path in baseline.older_than_pins:
            obstacle = "it was there, ignored and not captured, when the checkpoint was taken"
        elif difference.old is None and path not in baseline.made_by_tools:
            obstacle = obstacle or then.explain(path)
        if current == difference.old and not obstacle:
            continue
        written = ledger.get(path)
        author = judge(written, fingerprint_entry(objects, current)) if written else Author.UNKNOWN
        standings.append(Standing(path, difference.old, current, author, is_captured, obstacle))
    return standings


def _check_selected(store: ProjectStore, baseline: Baseline, checkpoint: Commit, selection: Selection) -> None:
    """Refuse a selected path that neither the checkpoint nor the captured project knows."""
    for path in selection.paths:
        if look_up(store.objects, checkpoint.tree, path) or look_up(store.objects, baseline.tree, path):
            continue
        shown = os.fsdecode(path)
        if ProjectFiles(store.project.root).status(path) is not None:
            reason = baseline.left_out.get(path, "ignored")
            raise SelectionError(f"{shown} can't be restored: it is in no checkpoint ({reason}).")
        raise SelectionError(f"Restore selection matched no files in checkpoint: {shown}")


def _find_uncaptured(store: ProjectStore, baseline: Baseline, standings: Sequence[Standing]) -> frozenset[bytes]:
    """Return the directories that stand where a file has to go and hold something that no checkpoint holds."""
    files, obstructed = ProjectFiles(store.project.root), set()
    for standing in standings:
        status = files.status(standing.path) if standing.target is not None else None
        if status is None or not stat.S_ISDIR(status.st_mode):
            continue
        inside = files.list_below(standing.path)
        if any(look_up(store.objects, baseline.tree, path) is None for path in inside):
            obstructed.add(standing.path)
    return frozenset(obstructed)


def _find_oversize(baseline: Baseline, plan: Plan) -> tuple[bytes, ...]:
    """Return the files that are too large to be captured and stay as they are."""
    large = (path for path, reason in baseline.left_out.items() if reason is Reason.LARGE)
    return tuple(sorted(path for path in large if path not in plan.write))


def _prepare(store: ProjectStore, standing: Standing) -> _Step:
    """Make sure that what stands at a path is what the safety checkpoint is going to hold.

    Raises:
        StoreError: It changed while the rollback was planned.
    """
    status = ProjectFiles(store.project.root).status(standing.path)
    now = capture_path(store.objects, store.project.root, standing.path, _NO_LIMITS) if status is not None else None
    if now != standing.current:
        raise StoreError(
            f"{os.fsdecode(standing.path)} changed while the rollback was planned; nothing was changed.",
            hint="Run the command again.",
        )
    if standing.current is not None:
        store.objects.read_blob(standing.current.oid)  # what can't be read back is no way back
    return _Step(standing, status)


def _record_way_back(store: ProjectStore, baseline: Baseline, plan: Plan, label: Label, keep_count: int) -> Commit:
    """Take the safety checkpoint, which also holds what is overwritten though it is not captured otherwise."""
    extra = {
        path: standing.current
        for path, standing in {**plan.write, **plan.remove}.items()
        if not standing.is_captured and standing.current is not None
    }
    try:
        whole = replace(baseline, tree=splice(store.objects, baseline.tree, extra))
        return take_checkpoint(store, whole, label, keep_count=keep_count + 1, even_if_unchanged=True).checkpoint
    except (CheckpointError, OSError) as error:
        raise SafetyCheckpointError(
            f"The state before the rollback could not be recorded ({error}); nothing was changed."
        ) from error


def _carry_out(store: ProjectStore, checkpoint: Commit, plan: Plan, steps: dict[bytes, _Step]) -> _Results:
    """Change the files: what stands in the way, then what is put back, then what is removed."""
    files = ProjectFiles(store.project.root)
    results = _Results()
    for path in _in_the_way(plan):
        _remove(files, path, steps[path], results)
    _remove_left_directories(store.objects, files, checkpoint.tree, results.removed)
    for path in plan.write:
        _write(store, files, steps[path], results)
    for path in plan.remove:
        if path not in results.removed and not any(path == failed.path for failed in results.failed):
            _remove(files, path, steps[path], results)
    _remove_left_directories(store.objects, files, checkpoint.tree, results.removed)
    return results


def _in_the_way(plan: Plan) -> list[bytes]:
    """Return what is removed where a file or directory of the checkpoint has to go."""
    above_written = {above for path in plan.write for above in _above(path)}
    return [path for path in plan.remove if path in above_written or any(above in plan.write for above in _above(path))]


def _above(path: bytes) -> Iterable[bytes]:
    while b"/" in path:
        path = path.rpartition(b"/")[0]
        yield path


def _write(store: ProjectStore, files: ProjectFiles, step: _Step, results: _Results) -> None:
    path, target = step.standing.path, step.standing.target
    if target is None or not _is_still(files, path, step, results):
        return
    try:
        content = store.objects.read_blob(target.oid)
        if step.status is not None and stat.S_ISDIR(step.status.st_mode):
            files.remove_empty_tree(path)
        files.write(path, content, target.mode, replace=step.status is not None)
    except (OSError, CheckpointError) as error:
        results.failed.append(LeftInPlace(path, _explain(error)))
        return
    there = fingerprint_file(os.path.join(store.project.root, path))
    if there == fingerprint_content(content, target.mode):
        results.restored.append(path)
    else:
        results.failed.append(LeftInPlace(path, "it is not what was written"))


def _remove(files: ProjectFiles, path: bytes, step: _Step, results: _Results) -> None:
    if not _is_still(files, path, step, results):
        return
    try:
        files.remove(path)
    except OSError as error:
        results.failed.append(LeftInPlace(path, _explain(error)))
        return
    results.removed.append(path)


def _is_still(files: ProjectFiles, path: bytes, step: _Step, results: _Results) -> bool:
    """Tell whether a path still holds what the safety checkpoint recorded; otherwise it is left in place."""
    now, then = files.status(path), step.status
    if now is None or stat.S_ISDIR(now.st_mode):
        return True
    if then is not None and (now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns) == (
        then.st_ino,
        then.st_size,
        then.st_mtime_ns,
        then.st_ctime_ns,
    ):
        return True
    results.failed.append(LeftInPlace(path, "it changed meanwhile"))
    return False


def _remove_left_directories(objects: ObjectStore, files: ProjectFiles, target: Oid, removed: Iterable[bytes]) -> None:
    """Remove the directories that removed files left empty and that the checkpoint does not have."""
    for directory in sorted({above for path in removed for above in _above(path)}, key=len, reverse=True):
        standing = look_up(objects, target, directory)
        if standing is None or not standing.is_tree:
            files.remove_directory(directory)


def _note_in_ledger(store: ProjectStore, ledger: Ledger, plan: Plan, results: _Results, label: Label) -> None:
    """Record what the rollback wrote as written by us, so that it can be taken back."""
    for path in results.restored:
        ledger[path] = Written(fingerprint_entry(store.objects, plan.write[path].target), label.now, tool="rollback")
    for path in results.removed:
        ledger[path] = Written(NOTHING, label.now, tool="rollback")
    save_ledger(store.layout, store.project, ledger)


def _explain(error: OSError | CheckpointError) -> str:
    """Return why something failed, in a few words."""
    if isinstance(error, CheckpointError):
        return error.message
    return error.strerror or str(error)
