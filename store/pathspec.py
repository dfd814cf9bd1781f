"""Selections in git's pathspec language, resolved by git itself to exact paths.

Owns the scratch index that git matches against: what a checkpoint holds and what the project holds now. A name that
exists is that name, whatever it looks like; only what is none is a pattern.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from store.entries import EMPTY_TREE
from store.errors import GitFailedError, SelectionError
from store.git import WorkTree, run_git
from store.index import StatCache, entries_of, save_index
from store.state import state_of
from store.tree import flatten

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from store.baseline import Baseline
    from store.objects import Commit
    from store.project_store import ProjectStore
    from store.standings import Selection
    from store.state import State


def resolve_selection(store: ProjectStore, baseline: Baseline, checkpoint: Commit, selection: Selection) -> Selection:
    """Return a selection of exact paths.

    Args:
        store: The project's part of the store.
        baseline: The state of its files now.
        checkpoint: What is to be put back.
        selection: May hold patterns.

    Raises:
        SelectionError: The patterns match nothing, or are none.
    """
    if not selection.patterns:
        return selection
    states = (state_of(checkpoint), baseline.state)
    names = [each for each in selection.patterns if any(state.find(store.objects, each) for state in states)]
    paths, patterns = [*selection.paths, *names], [each for each in selection.patterns if each not in names]
    if patterns:
        paths = _match(store, states, [*patterns, *map(_as_literal, paths)])
    if not paths:
        shown = ", ".join(os.fsdecode(pattern) for pattern in patterns)
        raise SelectionError(f"Restore selection matched no files in checkpoint: {shown}")
    return replace(selection, paths=tuple(paths), patterns=())


def _as_literal(path: bytes) -> bytes:
    return b":(literal)" + path if path else b":(top)"


def _match(store: ProjectStore, states: Iterable[State], pathspecs: Sequence[bytes]) -> list[bytes]:
    """Return every path of some states that git's pathspecs match, nested repositories included."""
    entries = {path: entry for state in states for path, entry in flatten(store.objects, state.tree).items()}
    scratch = f"{store.layout.index_file(store.project.hash)}.{secrets.token_hex(8)}"
    save_index(scratch, StatCache(EMPTY_TREE, entries_of(entries)))
    try:
        listed = run_git(
            store.layout.store,
            [b"ls-files", b"-z", b"--cached", b"--", *pathspecs],
            work_tree=WorkTree(store.project.root, scratch),
            are_pathspecs_literal=False,
        )
    except GitFailedError as error:
        raise SelectionError(f"The selection is none: {error.message}") from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(scratch)
    return sorted(set(listed.split(b"\0")) - {b""})
