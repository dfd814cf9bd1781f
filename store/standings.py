"""How a project stands to a checkpoint: what differs, who left it, and what can't be touched.

Owns the selection of paths, and the look at the disk where the states alone don't tell. What becomes of each path is
decided by `store.plan`.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from store.apply import ProjectFiles
from store.capture import LeftOut, Limits, Reason, capture_path
from store.errors import NestedRepositoriesError, SelectionError
from store.ledger import Author, fingerprint_node, judge
from store.nested import is_part_of_repository
from store.pathname import list_above
from store.plan import Mode, Plan, Standing
from store.scope_then import ScopeThen
from store.state import compare_states, state_of
from store.tree import find_gitlinks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from store.baseline import Baseline
    from store.entries import Node
    from store.ledger import Ledger, Written
    from store.objects import Commit, ObjectStore
    from store.project_store import ProjectStore

NO_LIMITS = Limits(max_file_bytes=None)
"""What a rollback overwrites is recorded whatever its size."""


@dataclass(frozen=True)
class Selection:
    """Say what is put back, and how far the rollback goes."""

    mode: Mode
    """`DEFAULT`, `ALL` or `SELECTED`."""
    paths: tuple[bytes, ...] = ()
    """With `SELECTED`: files and directories relative to the project."""
    patterns: tuple[bytes, ...] = ()
    """With `SELECTED`: pathspecs of git's that are not resolved to paths yet."""
    dry_run: bool = False
    """Only plan."""
    leave_restless: bool = False
    """Leave in place what is not as the baseline says, instead of giving up."""
    session: str | None = None
    """With `DEFAULT`: take back what this session wrote, and nothing else."""

    @cached_property
    def chosen(self) -> frozenset[bytes]:
        """Return the paths, to be looked up."""
        return frozenset(self.paths)


def refuse_nested(objects: ObjectStore, checkpoint: Commit, selection: Selection) -> None:
    """Refuse what would touch a nested repository, by the paths that the checkpoint recorded.

    Raises:
        NestedRepositoriesError: It would.
    """
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
    if selection.mode is not Mode.SELECTED:
        return True
    chosen = selection.chosen
    return b"" in chosen or path in chosen or any(above in chosen for above in list_above(path))


def find_standings(
    store: ProjectStore,
    baseline: Baseline,
    checkpoint: Commit,
    selection: Selection,
    ledger: Ledger,
) -> list[Standing]:
    """Return every selected path at which the project differs from the checkpoint.

    Args:
        store: The project's part of the store.
        baseline: The state of its files now.
        checkpoint: What is to be put back.
        selection: Which paths are meant.
        ledger: Who wrote what.

    Raises:
        SelectionError: A selected path is in no checkpoint.
    """
    _check_selected(store, baseline, checkpoint, selection)
    objects, root = store.objects, store.project.root
    files, then = ProjectFiles(root), ScopeThen(objects, checkpoint, baseline.patterns)
    standings = []
    for change in compare_states(objects, state_of(checkpoint), baseline.state):
        path, target, current, is_captured, obstacle = change.path, change.old, change.new, True, ""
        if not _is_selected(path, selection) or is_part_of_repository(path):
            continue
        if current is None and (status := files.status(path)) is not None:
            found = capture_path(objects, root, path, NO_LIMITS)
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
        author = _find_author(store, ledger.get(path), target, current, selection)
        standings.append(Standing(path, target, current, author, is_captured, obstacle))
    return standings


def _find_author(
    store: ProjectStore, written: Written | None, target: Node | None, current: Node | None, selection: Selection
) -> Author:
    """Return whose the present state of a path is, as far as a rollback may take it back."""
    if written is None:
        return Author.UNKNOWN
    is_anothers = selection.session not in (None, written.session)  # as little to be touched as the user's
    was_made_since_by_others = written.existed and target is None
    if is_anothers or was_made_since_by_others:
        return Author.USER
    return judge(written, fingerprint_node(store.objects, current))


def find_directories(standings: Iterable[Standing], plan: Plan) -> frozenset[bytes]:
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


def find_uncaptured(store: ProjectStore, baseline: Baseline, standings: Sequence[Standing]) -> frozenset[bytes]:
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


def find_oversize(baseline: Baseline, plan: Plan) -> tuple[bytes, ...]:
    """Return the files that are too large to be captured and stay as they are."""
    large = (path for path, reason in baseline.left_out.items() if reason is Reason.LARGE)
    return tuple(sorted(path for path in large if path not in plan.write))
