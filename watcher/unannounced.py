"""Paths whose changes nobody announces: in folders that are not watched, and files that have more than one name.

Owns the look at their stat data. A write through one name of a file has an event at that name alone, be the other one
inside the project or outside.

Source: inotify(7), "Limitations and caveats": events are those of the watched directory's own entries.
"""

from __future__ import annotations

import os
import stat
import time
from collections import Counter
from typing import TYPE_CHECKING

from store.index import is_racy
from store.tree import flatten

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from store.baseline import Baseline
    from store.objects import ObjectStore


class Unannounced:
    """Remember what paths of one project looked like, and tell which ones may have changed."""

    def __init__(self, root: bytes) -> None:
        self._root = root
        self._seen: dict[bytes, tuple[int, ...] | None] = {}

    def find_changed(self, paths: Iterable[bytes]) -> frozenset[bytes]:
        """Return the paths that may have changed since they were last asked for; one asked for anew may have.

        What changed so lately that its times could stay the same is asked for anew the next time.
        """
        changed, seen = set(), {}
        for path in paths:
            looked_ns = time.time_ns()
            status = _look_at(os.path.join(self._root, path))
            signature = _sign(status)
            if self._seen.get(path, ()) != signature:
                changed.add(path)
            if status is None or not is_racy(status, looked_ns):
                seen[path] = signature
        self._seen = seen
        return frozenset(changed)

    def forget(self) -> None:
        """Take every path for changed the next time."""
        self._seen = {}


def find_other_names(objects: ObjectStore, root: bytes, baseline: Baseline, names: Iterable[bytes]) -> frozenset[bytes]:
    """Return the names of some files that are not known to be theirs yet.

    Everything is looked at only when a file has more names than are known.

    Args:
        objects: The store.
        root: The workdir.
        baseline: What counts, and which of it is known to have more than one name.
        names: One or more names of each file.
    """
    known = Counter(status.st_ino for path in baseline.linked if (status := _look_at(os.path.join(root, path))))
    looked_at = [status for path in names if (status := _look_at(os.path.join(root, path)))]
    wanted = {status.st_ino for status in looked_at if known[status.st_ino] < status.st_nlink}
    if not wanted:
        return frozenset()
    everything = _look_at_all(objects, root, baseline)
    return frozenset(path for path, status in everything if status.st_ino in wanted) - baseline.linked


def _look_at_all(objects: ObjectStore, root: bytes, baseline: Baseline) -> Iterator[tuple[bytes, os.stat_result]]:
    """Yield the stat data of every file that is captured or named as left out."""
    for path in {**flatten(objects, baseline.tree), **baseline.left_out}:
        status = _look_at(os.path.join(root, path))
        if status is not None and stat.S_ISREG(status.st_mode):
            yield path, status


def _sign(status: os.stat_result | None) -> tuple[int, ...] | None:
    return None if status is None else (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _look_at(path: bytes) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None
