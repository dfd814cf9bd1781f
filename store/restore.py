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
from store.errors import ChangedMeanwhileError, NestedRepositoriesError, SafetyCheckpointError, SelectionError
from store.history import list_history, trim_history
from store.index import mode_of
from store.ledger import (
    NOTHING,
    Author,
    Written,
    fingerprint_file,
    fingerprint_node,
    judge,
    load_ledger,
    save_ledger,
)
from store.nested import is_part_of_repository
from store.objects import MODE_LINK
from store.plan import LeftInPlace, Mode, Plan, Standing, plan_rollback
from store.scope_then import ScopeThen
from store.state import DIRECTORY, Node, compare_states, state_of
from store.tree import find_gitlinks, splice

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from store.baseline import Baseline
    from store.ledger import Ledger
    from store.objects import Commit, ObjectStore
    from store.project_store import ProjectStore
    from store.state import State

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
    directories: frozenset[bytes] = frozenset()
    """Those of the paths above that are directories."""
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
        ChangedMeanwhileError: A file is not what the baseline says; nothing was changed.
        SafetyCheckpointError: The way back could not be recorded; nothing was changed.
    """
    _refuse_nested(store.objects, checkpoint, selection)
    target = state_of(checkpoint)
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
        directories=_find_directories(standings, plan),
        dry_run=selection.dry_run,
    )
    if selection.dry_run:
        return replace(report, restored=tuple(plan.write), removed=tuple(plan.remove))
    if plan.is_empty:
        return report
    steps = {path: _prepare(store, standing) for path, standing in {**plan.write, **plan.remove}.items()}
    safety = _record_way_back(store, baseline, plan, label, keep_count)
    results = _carry_out(store, target, plan, steps)
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
    for change in compare_states(objects, state_of(checkpoint), baseline.state):
        path, target, current, is_captured, obstacle = change.path, change.old, change.new, True, ""
        if not _is_selected(path, selection) or is_part_of_repository(path):
            continue
        if current is None and (status := files.status(path)) is not None:
            found = capture_path(objects, root, path, _NO_LIMITS)
            if isinstance(found, LeftOut):
                obstacle = f"what is there can't be recorded ({found.reason})"
            elif found is not None:
                current, is_captured = found, False
            elif target is not None and target.is_directory and stat.S_ISDIR(status.st_mode):
                continue
        if current is not None and current.is_directory and target is None and files.list_names(path):
            obstacle = "it holds something that is in no checkpoint"
        elif target is None and path in baseline.older_than_pins:
            obstacle = "it was there, ignored and not captured, when the checkpoint was taken"
        elif target is None and path not in baseline.made_by_tools:
            obstacle = obstacle or then.explain(path, is_dir=current is not None and current.is_directory)
        if current is not None and current.is_as(target) and not obstacle:
            continue
        written = ledger.get(path)
        author = judge(written, fingerprint_node(objects, current)) if written else Author.UNKNOWN
        standings.append(Standing(path, target, current, author, is_captured, obstacle))
    return standings


def _find_directories(standings: Iterable[Standing], plan: Plan) -> frozenset[bytes]:
    """Return the paths at which a directory is put back, removed or kept."""
    concerned = (
        (each.path, each.target if each.path in plan.write else each.current or each.target) for each in standings
    )
    return frozenset(path for path, node in concerned if node is not None and node.is_directory)


def _check_selected(store: ProjectStore, baseline: Baseline, checkpoint: Commit, selection: Selection) -> None:
    """Refuse a selected path that neither the checkpoint nor the captured project knows."""
    for path in selection.paths:
        if any(state.find(store.objects, path) for state in (state_of(checkpoint), baseline.state)):
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
        is_leaf = standing.target is not None and not standing.target.is_directory
        status = files.status(standing.path) if is_leaf else None
        if status is None or not stat.S_ISDIR(status.st_mode):
            continue
        inside = files.list_below(standing.path)
        if any(baseline.state.find(store.objects, path) is None for path in inside):
            obstructed.add(standing.path)
    return frozenset(obstructed)


def _find_oversize(baseline: Baseline, plan: Plan) -> tuple[bytes, ...]:
    """Return the files that are too large to be captured and stay as they are."""
    large = (path for path, reason in baseline.left_out.items() if reason is Reason.LARGE)
    return tuple(sorted(path for path in large if path not in plan.write))


def _prepare(store: ProjectStore, standing: Standing) -> _Step:
    """Make sure that what stands at a path is what the safety checkpoint is going to hold.

    Raises:
        ChangedMeanwhileError: It changed while the rollback was planned.
    """
    status = ProjectFiles(store.project.root).status(standing.path)
    is_directory = standing.current is not None and standing.current.is_directory
    now = _look(store, standing.path, status, is_directory=is_directory) if status is not None else None
    if now != standing.current:
        raise ChangedMeanwhileError(
            f"{os.fsdecode(standing.path)} changed while the rollback was planned; nothing was changed.",
            hint="Run the command again.",
        )
    if standing.current is not None and not is_directory:
        store.objects.read_blob(standing.current.entry.oid)  # what can't be read back is no way back
    return _Step(standing, status)


def _look(store: ProjectStore, path: bytes, status: os.stat_result, *, is_directory: bool) -> Node | LeftOut | None:
    """Return what stands at a path; a directory counts only where one was planned with."""
    if stat.S_ISDIR(status.st_mode) and is_directory:
        return Node(DIRECTORY, stat.S_IMODE(status.st_mode))
    return capture_path(store.objects, store.project.root, path, _NO_LIMITS)


def _record_way_back(store: ProjectStore, baseline: Baseline, plan: Plan, label: Label, keep_count: int) -> Commit:
    """Take the safety checkpoint, which also holds what is overwritten though it is not captured otherwise."""
    extra = {
        path: standing.current
        for path, standing in {**plan.write, **plan.remove}.items()
        if not standing.is_captured and standing.current is not None
    }
    modes = {path: stat.S_IFREG | node.bits for path, node in extra.items() if node.bits is not None}
    try:
        whole = replace(
            baseline,
            tree=splice(store.objects, baseline.tree, {path: node.entry for path, node in extra.items()}),
            permissions=baseline.permissions.update(modes),
        )
        return take_checkpoint(store, whole, label, keep_count=keep_count + 1, even_if_unchanged=True).checkpoint
    except (CheckpointError, OSError) as error:
        raise SafetyCheckpointError(
            f"The state before the rollback could not be recorded ({error}); nothing was changed."
        ) from error


def _carry_out(store: ProjectStore, target: State, plan: Plan, steps: dict[bytes, _Step]) -> _Results:
    """Change the files: what stands in the way, then what is put back, then what is removed, then directories' bits."""
    files = ProjectFiles(store.project.root)
    results = _Results()
    for path in _in_the_way(plan):
        _remove(files, path, steps[path], results)
    _remove_left_directories(store.objects, files, target, results.removed)
    for path in plan.write:
        _write(store, files, steps[path], results)
    for path in plan.remove:
        if path not in results.removed and not any(path == failed.path for failed in results.failed):
            _remove(files, path, steps[path], results)
    _remove_left_directories(store.objects, files, target, results.removed)
    _set_directory_bits(files, target, plan, results)
    return results


def _set_directory_bits(files: ProjectFiles, target: State, plan: Plan, results: _Results) -> None:
    """Give directories the bits that the checkpoint has for them, the deepest first: those made, and those planned."""
    permissions = target.permissions
    if permissions is None:
        return
    planned = [path for path in results.restored if plan.write[path].makes_directory]
    for path in sorted({*files.made, *planned}, key=len, reverse=True):
        status, bits = files.status(path), permissions.of_directory(path)
        if status is None or stat.S_IMODE(status.st_mode) == bits:
            continue
        try:
            files.set_bits(path, bits)
        except OSError as error:
            results.failed.append(LeftInPlace(path, _explain(error)))
            if path in planned:
                results.restored.remove(path)


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
        if target.is_directory:
            _make_directory(files, path, step)
        elif target.bits is not None and step.standing.differs_in_bits_only:
            files.set_bits(path, target.bits)
        else:
            content = store.objects.read_blob(target.entry.oid)
            if step.status is not None and stat.S_ISDIR(step.status.st_mode):
                files.remove_empty_tree(path)
            files.write(path, content, target.entry.mode, target.bits, replace=step.status is not None)
    except (OSError, CheckpointError) as error:
        results.failed.append(LeftInPlace(path, _explain(error)))
        return
    if _is_there(store, files, path, target):
        results.restored.append(path)
    else:
        results.failed.append(LeftInPlace(path, "it is not what was written"))


def _make_directory(files: ProjectFiles, path: bytes, step: _Step) -> None:
    """Make a directory, in the place of a file if one is there. Its bits are set when everything in it is done."""
    if step.status is not None and not stat.S_ISDIR(step.status.st_mode):
        files.remove(path)
    files.make_directory(path)


def _is_there(store: ProjectStore, files: ProjectFiles, path: bytes, target: Node) -> bool:
    """Tell whether a path holds what was put there."""
    if target.is_directory:
        status = files.status(path)
        return status is not None and stat.S_ISDIR(status.st_mode)
    full = os.path.join(store.project.root, path)
    there, wanted = fingerprint_file(full), fingerprint_node(store.objects, target)
    if target.bits is not None or there is None:
        return there == wanted
    return there.sha256 == wanted.sha256 and mode_of(os.lstat(full)) == target.entry.mode


def _remove(files: ProjectFiles, path: bytes, step: _Step, results: _Results) -> None:
    if not _is_still(files, path, step, results):
        return
    try:
        if step.status is not None and stat.S_ISDIR(step.status.st_mode):
            if not files.remove_directory(path):
                results.failed.append(LeftInPlace(path, "it is not empty"))
                return
        else:
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


def _remove_left_directories(
    objects: ObjectStore, files: ProjectFiles, target: State, removed: Iterable[bytes]
) -> None:
    """Remove the directories that removed files left empty and that the checkpoint does not have."""
    for directory in sorted({above for path in removed for above in _above(path)}, key=len, reverse=True):
        if not target.has_directory(objects, directory):
            files.remove_directory(directory)


def _note_in_ledger(store: ProjectStore, ledger: Ledger, plan: Plan, results: _Results, label: Label) -> None:
    """Record what the rollback wrote as written by us, so that it can be taken back."""
    files = ProjectFiles(store.project.root)
    for path in results.restored:
        content = fingerprint_node(store.objects, _as_it_is(files, path, plan.write[path]))
        ledger[path] = Written(content, label.now, tool="rollback")
    for path in results.removed:
        ledger[path] = Written(NOTHING, label.now, tool="rollback")
    save_ledger(store.layout, store.project, ledger)


def _as_it_is(files: ProjectFiles, path: bytes, standing: Standing) -> Node | None:
    """Return what was put at a path, with the permission bits that it has: a checkpoint may have recorded none."""
    target, status = standing.target, files.status(path)
    if target is None or target.entry.mode == MODE_LINK or status is None:
        return target
    return replace(target, bits=stat.S_IMODE(status.st_mode))


def _explain(error: OSError | CheckpointError) -> str:
    """Return why something failed, in a few words."""
    if isinstance(error, CheckpointError):
        return error.message
    return error.strerror or str(error)
