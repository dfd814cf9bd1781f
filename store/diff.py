"""What lies between two states: a patch that `git apply` takes, and what a patch has no place for.

Owns the two texts a user sees, the summary and the patch, and the list of permission bits and empty directories.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from store.git import run_git
from store.state import compare_states

if TYPE_CHECKING:
    from store.entries import Node
    from store.layout import Layout
    from store.objects import ObjectStore
    from store.state import Change, State

_OPTIONS = ("-r", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--full-index")


@dataclass(frozen=True, slots=True)
class Diff:
    """Hold a comparison of two states."""

    stat: bytes
    """One line for each file, and a summary line."""
    patch: bytes
    """For `git apply`: any bytes, any names."""
    beside: tuple[Change, ...] = ()
    """Other permission bits, and directories that came or went by themselves."""


def diff_states(layout: Layout, objects: ObjectStore, old: State, new: State) -> Diff:
    """Return what changed from one state to another; both are in the store.

    Raises:
        GitFailedError: git can't be started or failed.
    """
    beside = tuple(change for change in compare_states(objects, old, new) if _is_beside(change.old, change.new))
    if old.tree == new.tree:
        return Diff(b"", b"", beside)
    pair = (old.tree.hex(), new.tree.hex())
    return Diff(
        stat=run_git(layout.store, ["diff-tree", *_OPTIONS, "--stat=100", *pair]),
        patch=run_git(layout.store, ["diff-tree", *_OPTIONS, "--patch", "--binary", *pair]),
        beside=beside,
    )


def _is_beside(old: Node | None, new: Node | None) -> bool:
    """Tell whether a change is one that a patch does not show, or not in full."""
    if old is not None and new is not None and old.bits is not None and new.bits is not None:
        return old.bits != new.bits
    return any(node is not None and node.is_directory for node in (old, new))
