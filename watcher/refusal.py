"""A project that holds too many files: why it is refused again without being walked again.

Pure but for a look at files that are said to have changed. Owns how long a refusal holds; that one is due belongs to
the engine.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from watcher.dirty import Dirty


class Refusal:
    """Remember files that were seen, more of them than are allowed: while so many stand, the project is too large."""

    def __init__(self, root: bytes, seen: Iterable[bytes], *, max_files: int) -> None:
        self._root = root
        self._seen = set(seen)
        self._max_files = max_files

    def still_holds(self, dirty: Dirty, *, max_files: int) -> bool:
        """Tell whether the project is still too large for sure, after some paths and directories changed.

        Files in a directory that changed as a whole are not counted any more: they may be gone, or ignored.

        Args:
            dirty: All that changed since this was last asked.
            max_files: How many files are allowed now.
        """
        if dirty.scan_reason is not None or max_files != self._max_files:
            return False
        self._seen -= {path for path in dirty.paths if path in self._seen and not self._is_file(path)}
        if dirty.trees:
            self._seen -= {path for path in self._seen if _is_in(path, dirty.trees)}
        return len(self._seen) > self._max_files

    def _is_file(self, path: bytes) -> bool:
        try:
            mode = os.lstat(os.path.join(self._root, path)).st_mode
        except OSError:
            return False
        return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


def _is_in(path: bytes, trees: frozenset[bytes]) -> bool:
    """Tell whether a path is one of some directories, or below one."""
    while path:
        if path in trees:
            return True
        path = path.rpartition(b"/")[0]
    return False
