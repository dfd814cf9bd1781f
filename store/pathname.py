"""Paths as names: the directories above one. A path is relative to its project, without a slash at either end."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def parent_of(path: bytes) -> bytes:
    """Return the directory above a path; empty for the project itself."""
    return path.rpartition(b"/")[0]


def list_above(path: bytes) -> Iterator[bytes]:
    """Yield every directory above a path, the nearest first, the project itself excepted."""
    while above := parent_of(path):
        yield above
        path = above


@lru_cache(maxsize=16)
def lead_to(directories: frozenset[bytes]) -> frozenset[bytes]:
    """Return some directories, and every one above them but the project itself."""
    found: set[bytes] = set()
    for directory in directories:
        above = directory
        while above and above not in found:
            found.add(above)
            above = parent_of(above)
    return frozenset(found)
