"""Histories: list a project's checkpoints, find one, trim what is too old.

Owns the linear history behind a tip and the `shallow` file that cuts it. Trimming rewrites no commit: an id lives as
long as its checkpoint. Source: gitformat-shallow, git's Documentation/technical/shallow.txt.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from heapq import merge
from typing import TYPE_CHECKING

from store.entries import Oid
from store.errors import CheckpointNotFoundError, ObjectMissingError, SelectionError
from store.files import read_file, write_atomically
from store.layout import tip_ref, watch_ref

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from store.layout import Layout
    from store.objects import Commit, ObjectStore
    from store.project_store import ProjectStore

_HEX = re.compile(r"[0-9a-fA-F]{4,40}")
_NUMBER = re.compile(r"[0-9]{1,9}")


def read_shallow(layout: Layout) -> frozenset[Oid]:
    """Return the commits at which histories end, though they have parents."""
    raw = read_file(layout.shallow_file) or b""
    return frozenset(Oid(bytes.fromhex(line.decode())) for line in raw.split() if len(line) == 40)


def list_checkpoints(store: ProjectStore) -> list[Commit]:
    """Return a project's checkpoints of both histories, newest first."""
    histories = list_history(store), list_history(store, unhooked=True)
    return list(merge(*histories, key=lambda commit: commit.seconds, reverse=True))


def list_history(store: ProjectStore, *, unhooked: bool = False) -> list[Commit]:
    """Return the checkpoints of one history, newest first.

    A history that can't be read further, since an object is missing, ends there.

    Args:
        store: The project's part of the store.
        unhooked: The history of the states before changes that nobody announced.
    """
    project = store.project.hash
    ref = watch_ref(project) if unhooked else tip_ref(project)
    return follow_history(store.objects, ref, read_shallow(store.layout))


def follow_history(objects: ObjectStore, ref: str, cut: Collection[Oid]) -> list[Commit]:
    """Return the commits below a ref, newest first, down to where histories are cut or can't be read further."""
    tip = objects.read_ref(ref)
    commits: list[Commit] = []
    while tip is not None:
        try:
            commit = objects.read_commit(tip)
        except ObjectMissingError:
            break
        commits.append(commit)
        tip = None if tip in cut else commit.parent
    return commits


def resolve_checkpoint(commits: Sequence[Commit], given: str) -> Commit:
    """Return the checkpoint that a number in the list or an id names.

    Args:
        commits: The project's checkpoints, newest first; a checkpoint of another project is not among them.
        given: `1` is the newest. An id may be shortened to 4 digits, if that is unique. A number that fits the list
            is a number.

    Raises:
        SelectionError: It is neither a number nor an id.
        CheckpointNotFoundError: There is no such checkpoint.
    """
    if _NUMBER.fullmatch(given) and 1 <= int(given) <= len(commits):
        return commits[int(given) - 1]
    if not _HEX.fullmatch(given):
        if _NUMBER.fullmatch(given):
            raise CheckpointNotFoundError(_invalid_number(commits))
        shown = "empty" if not given else repr(given if len(given) <= 40 else given[:40] + "…")
        raise SelectionError(
            f"Invalid checkpoint ({shown}): expected a number of the list or an id of 4 to 40 hex digits.",
            hint="Run: hermes-checkpoints rollback",
        )
    matches = [commit for commit in commits if commit.oid.hex().startswith(given.lower())]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise SelectionError(f"Checkpoint id '{given}' is ambiguous: {len(matches)} checkpoints begin with it.")
    if _NUMBER.fullmatch(given):
        raise CheckpointNotFoundError(_invalid_number(commits))
    raise CheckpointNotFoundError(
        f"Checkpoint '{given}' not found for this project.",
        hint="It may have been trimmed; run: hermes-checkpoints rollback",
    )


def _invalid_number(commits: Sequence[Commit]) -> str:
    return f"Invalid checkpoint number. Use 1-{len(commits)}." if commits else "No checkpoints exist for this project."


def trim_history(layout: Layout, commits: Sequence[Commit], keep_count: int) -> list[Commit]:
    """Shorten a history to its newest checkpoints, by cutting it off below the oldest one kept.

    The caller holds the lock. The cut is one small file, replaced whole: after a crash the history is either the
    long one or the short one.

    Returns:
        The checkpoints that are gone now, newest first; their space is freed by the next gc.
    """
    kept, dropped = commits[:keep_count], commits[keep_count:]
    if not kept or not dropped:
        return []
    forget_commit_graph(layout)
    cut = (read_shallow(layout) - {commit.oid for commit in dropped}) | {kept[-1].oid}
    write_shallow(layout, cut)
    return list(dropped)


def write_shallow(layout: Layout, cut: Iterable[Oid]) -> None:
    """Replace the commits at which histories end. The caller holds the lock."""
    write_atomically(layout.shallow_file, b"".join(sorted(oid.hex().encode() + b"\n" for oid in cut)), flush=False)


def forget_commit_graph(layout: Layout) -> None:
    """Remove what git cached of uncut histories: it would contradict the cut."""
    graph, chain = layout.commit_graphs
    with contextlib.suppress(FileNotFoundError):
        os.unlink(graph)
    shutil.rmtree(chain, ignore_errors=True)
