"""What lies between two trees, as a patch that `git apply` takes.

Owns the two texts a user sees: the summary and the patch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from store.git import run_git

if TYPE_CHECKING:
    from store.entries import Oid
    from store.layout import Layout

_OPTIONS = ("-r", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--full-index")


@dataclass(frozen=True, slots=True)
class Diff:
    """Hold a comparison of two trees."""

    stat: bytes
    """One line for each file, and a summary line."""
    patch: bytes
    """For `git apply`: any bytes, any names."""


def diff_trees(layout: Layout, old: Oid, new: Oid) -> Diff:
    """Return what changed from one tree to another; both are in the store.

    Raises:
        GitFailedError: git can't be started or failed.
    """
    if old == new:
        return Diff(b"", b"")
    pair = (old.hex(), new.hex())
    return Diff(
        stat=run_git(layout.store, ["diff-tree", *_OPTIONS, "--stat=100", *pair]),
        patch=run_git(layout.store, ["diff-tree", *_OPTIONS, "--patch", "--binary", *pair]),
    )
