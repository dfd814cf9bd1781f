"""Do a rollback: refuse, plan, record the way back, write, remove, verify, report.

Owns the order of the steps, and what becomes of a rollback that was cut off. How things stand belongs to
`store.standings`, what happens to which path to `store.plan`, the changing to `store.carry_out`. Until the safety
checkpoint and the journal are in the store, nothing in the project changes.
"""

from __future__ import annotations

import os
import secrets
import stat
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from config.errors import CheckpointError
from store import journal
from store.apply import ProjectFiles
from store.capture import LeftOut
from store.carry_out import Results, Step, carry_out, look
from store.checkpoint import Label, take_checkpoint
from store.entries import MODE_LINK
from store.errors import (
    ChangedMeanwhileError,
    NothingCutOffError,
    RollbackCutOffError,
    SafetyCheckpointError,
    SelectionError,
)
from store.history import list_history, trim_history
from store.journal import Journal, find_journal
from store.ledger import NOTHING, Author, Written, fingerprint_node, load_ledger, save_ledger
from store.pathname import parent_of
from store.pathspec import resolve_selection
from store.plan import LeftInPlace, Mode, Plan, Standing, plan_rollback
from store.standings import Selection, find_directories, find_oversize, find_standings, find_uncaptured, refuse_nested
from store.state import compare_at, state_of
from store.tree import splice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from store.baseline import Baseline
    from store.entries import Node
    from store.ledger import Ledger
    from store.objects import Commit
    from store.project_store import ProjectStore
    from store.state import State


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
        RollbackCutOffError: An earlier rollback was cut off, and is to be finished or taken back first.
        NestedRepositoriesError: It would touch nested repositories; nothing was changed.
        SelectionError: A selected path is in no checkpoint; nothing was changed.
        CorruptFileError: The ledger can't be understood; nothing was changed.
        ChangedMeanwhileError: A file is not what the baseline says; nothing was changed.
        SafetyCheckpointError: The way back could not be recorded; nothing was changed.
    """
    if find_journal(store.layout, store.project) is not None:
        raise RollbackCutOffError
    selection = resolve_selection(store, baseline, checkpoint, selection)
    refuse_nested(store.objects, checkpoint, selection)
    ledger = load_ledger(store.layout, store.project)
    mode = selection.mode
    if mode is Mode.DEFAULT and not ledger and selection.session is None:
        mode = Mode.EVERYTHING_RECORDED
    standings = find_standings(store, baseline, checkpoint, selection, ledger)
    uncaptured = find_uncaptured(store, baseline, standings)
    files = ProjectFiles(store.project.root, token := secrets.token_hex(8))
    plan = plan_rollback(standings, mode, uncaptured)
    steps, restless = ({}, set[bytes]()) if selection.dry_run else _prepare(store, files, plan)
    if restless:
        if not selection.leave_restless:
            raise _changed(min(restless))
        reason = "it is changing right now"
        standings = [replace(each, obstacle=reason) if each.path in restless else each for each in standings]
        plan = plan_rollback(standings, mode, uncaptured)
    if mode is Mode.SELECTED and plan.left:
        first = plan.left[0]
        raise SelectionError(f"{os.fsdecode(first.path)} can't be restored: {first.reason}.")
    report = Rollback(
        checkpoint,
        mode,
        kept=tuple(plan.kept),
        left=tuple(plan.left),
        oversize=find_oversize(baseline, plan),
        directories=find_directories(standings, plan),
        dry_run=selection.dry_run,
    )
    if selection.dry_run:
        return replace(report, restored=tuple(plan.write), removed=tuple(plan.remove))
    if plan.is_empty:
        return report
    safety = _record_way_back(store, baseline, plan, label, keep_count)
    paths = (*plan.write, *plan.remove)
    before = {path: ledger.get(path) for path in paths}
    journal.begin(store, Journal(checkpoint.oid, safety.oid, mode, paths, label.now, token, before))
    results, planned = Results(), {path: steps[path] for path in paths}
    carry_out(store, files, state_of(safety), state_of(checkpoint), planned, results)
    _note_in_ledger(store, files, ledger, plan.write, results, label)
    trim_history(store.layout, list_history(store), keep_count)
    journal.end(store)
    return _complete(report, results, safety)


def finish_rollback(store: ProjectStore, *, label: Label, keep_count: int) -> Rollback:
    """Finish a rollback that was cut off. The caller holds the lock.

    What was changed by others since it was cut off is left in place.

    Raises:
        StoreError: None was cut off, or what it was to put back is gone.
    """
    found = _find_journal(store)
    target, safety = store.objects.read_commit(found.target), store.objects.read_commit(found.safety)
    files = ProjectFiles(store.project.root, found.token)
    plan, results = _settle(store, files, found, origin=state_of(safety), goal=state_of(target))
    _note_in_ledger(store, files, load_ledger(store.layout, store.project), plan.write, results, label)
    trim_history(store.layout, list_history(store), keep_count)
    journal.end(store)
    report = Rollback(target, found.mode, directories=_list_directories(plan))
    return _complete(report, results, safety)


def take_back_rollback(store: ProjectStore, *, keep_count: int) -> Rollback:
    """Undo what a rollback did before it was cut off. The caller holds the lock.

    What was changed by others since it was cut off is left in place.

    Raises:
        StoreError: None was cut off, or the state before it is gone.
    """
    found = _find_journal(store)
    target, safety = store.objects.read_commit(found.target), store.objects.read_commit(found.safety)
    files = ProjectFiles(store.project.root, found.token)
    plan, results = _settle(store, files, found, origin=state_of(target), goal=state_of(safety))
    ledger = load_ledger(store.layout, store.project)
    for path, written in found.written.items():
        if written is None:
            ledger.pop(path, None)
        else:
            ledger[path] = written
    save_ledger(store.layout, store.project, ledger)
    trim_history(store.layout, list_history(store), keep_count)
    journal.end(store)
    return _complete(Rollback(safety, found.mode, directories=_list_directories(plan)), results, safety)


def _find_journal(store: ProjectStore) -> Journal:
    found = find_journal(store.layout, store.project)
    if found is None:
        raise NothingCutOffError
    return found


def _settle(
    store: ProjectStore, files: ProjectFiles, found: Journal, *, origin: State, goal: State
) -> tuple[Plan, Results]:
    """Bring every path of a journal to what one state has, from that or from the other."""
    for directory in {parent_of(path) for path in found.paths}:
        files.remove_all_aside(directory)
    whole, results, steps = Plan(), Results(), {}
    for path in sorted(found.paths):
        change = compare_at(store.objects, goal, origin, path)
        wanted, before = change.old, change.new
        with_directories = any(node is not None and node.is_directory for node in (wanted, before))
        now, status = look(store.project.root, files, path, with_directories=with_directories)
        if isinstance(now, LeftOut) or not any(_may_be(now, node) for node in (None, wanted, before)):
            results.failed.append(LeftInPlace(path, "it changed since the rollback was cut off"))
            continue
        if _is(now, wanted):
            (results.removed if wanted is None else results.restored).append(path)
        else:
            steps[path] = Step(Standing(path, wanted, now, Author.AGENT), status)
        (whole.remove if wanted is None else whole.write)[path] = Standing(path, wanted, before, Author.AGENT)
    carry_out(store, files, origin, goal, steps, results)
    return whole, results


def _is(now: Node | None, node: Node | None) -> bool:
    return node is None if now is None else now.is_as(node)


def _may_be(now: Node | None, node: Node | None) -> bool:
    """Tell whether a path holds what a rollback may have left there; a directory gets its bits after it is made."""
    are_directories = now is not None and node is not None and now.is_directory and node.is_directory
    return are_directories or _is(now, node)


def _list_directories(plan: Plan) -> frozenset[bytes]:
    """Return the paths of a plan at which a directory is put back or removed."""
    nodes = [(path, each.target) for path, each in plan.write.items()]
    nodes += [(path, each.current) for path, each in plan.remove.items()]
    return frozenset(path for path, node in nodes if node is not None and node.is_directory)


def _prepare(store: ProjectStore, files: ProjectFiles, plan: Plan) -> tuple[dict[bytes, Step], set[bytes]]:
    """Make sure that what stands at each path is what the safety checkpoint is going to hold.

    Returns:
        What each path needs, and the paths that hold something else than planned with.

    Raises:
        ObjectMissingError: What is there can't be read back from the store, so that there would be no way back.
    """
    steps, restless = {}, set()
    for path, standing in {**plan.write, **plan.remove}.items():
        is_directory = standing.current is not None and standing.current.is_directory
        now, status = look(store.project.root, files, path, with_directories=is_directory)
        if now != standing.current:
            restless.add(path)
        elif standing.current is not None and not is_directory:
            store.objects.read_blob(standing.current.entry.oid)
        steps[path] = Step(standing, status)
    return steps, restless


def _changed(path: bytes) -> ChangedMeanwhileError:
    return ChangedMeanwhileError(
        f"{os.fsdecode(path)} changed while the rollback was planned; nothing was changed.",
        hint="Run the command again.",
    )


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


def _note_in_ledger(
    store: ProjectStore,
    files: ProjectFiles,
    ledger: Ledger,
    written: Mapping[bytes, Standing],
    results: Results,
    label: Label,
) -> None:
    """Record what the rollback wrote as written by us, so that it can be taken back."""
    for path in results.restored:
        content = results.fingerprints.get(path)
        if content is None:
            content = fingerprint_node(store.objects, _as_it_is(files, path, written[path]))
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


def _complete(report: Rollback, results: Results, safety: Commit) -> Rollback:
    return replace(
        report,
        restored=tuple(sorted(results.restored)),
        removed=tuple(results.removed),
        failed=tuple(results.failed),
        safety=safety,
    )
