"""The stamp of removals, by which a process learns that another one removed objects it may have in mind.

Owns the file `.gc-stamp`. What a process has in mind, and no ref names, is its own business: in the same process it is
asked for, in another one it is forgotten and looked up anew.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from store.files import read_file, write_atomically

if TYPE_CHECKING:
    from store.layout import Layout


def note_removal(layout: Layout, remover: bytes) -> None:
    """Write the stamp, before objects are removed. The caller holds the lock."""
    write_atomically(layout.gc_stamp_file, remover, flush=False)


@dataclass(frozen=True, slots=True)
class StoreSign:
    """Tell a store from what it becomes when objects are removed, or all of it."""

    made: tuple[int, int] | None
    removed: tuple[int, int] | None


def sign_store(layout: Layout) -> StoreSign:
    """Return what changes when somebody removes objects that nothing names. The caller holds the lock."""
    return StoreSign(_sign(os.path.join(layout.store, "HEAD")), _sign(layout.gc_stamp_file))


def is_own_removal(layout: Layout, before: StoreSign, remover: bytes) -> bool:
    """Tell whether all that was removed since was removed by one that asks for what is needed before."""
    return before.made == sign_store(layout).made and read_file(layout.gc_stamp_file) == remover


def _sign(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns
