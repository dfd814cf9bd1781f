"""Debris: what killed processes left in the store, and nobody will ever finish.

Owns what counts as debris. It is listed without the lock, which takes a while; it is removed under the lock, and only
if it is still the file that was looked at.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from store.stale import is_git_at_work

if TYPE_CHECKING:
    from collections.abc import Iterable

_TEMPORARY = re.compile(r"tmp_(pack|idx|rev|obj|bitmap|mtimes|midx|graph)_.*|\.tmp-.*|tmp-.*")
_ASIDE = re.compile(r"\..+\.[a-z0-9_]{8}")
"""A file that was being written aside, by `store.files`."""
_PACK = re.compile(r"(pack-[0-9a-f]{40})\.(\w+)")
_OURS = ("gc.lock",)
_OLD_S = 3600.0


@dataclass(frozen=True, slots=True)
class Debris:
    """Name one file that a killed process left."""

    path: str
    inode: int
    size_bytes: int


def find_debris(store: str, *, now: float) -> list[Debris]:
    """Return what killed processes left, apart from what a living process has open.

    Args:
        store: The bare repository.
        now: Seconds since the epoch.
    """
    found: dict[str, os.stat_result] = {}
    for folder, _, names in os.walk(store):
        for name in _list_suspect(names):
            path = os.path.join(folder, name)
            with contextlib.suppress(FileNotFoundError):
                found[path] = os.lstat(path)
    if not found:
        return []
    held = _list_open(found)
    is_busy = is_git_at_work(store)
    return [
        Debris(path, status.st_ino, status.st_size)
        for path, status in found.items()
        if path not in held and not (_may_be_in_use(path, is_busy=is_busy) and abs(now - status.st_mtime) < _OLD_S)
    ]


def remove_debris(debris: Iterable[Debris]) -> int:
    """Remove what was found, if it is still the same, and return how many bytes that freed.

    The caller holds the lock.
    """
    freed = 0
    for each in debris:
        with contextlib.suppress(FileNotFoundError):
            if os.lstat(each.path).st_ino == each.inode and not _is_whole_pack(each.path):
                os.unlink(each.path)
                freed += each.size_bytes
    return freed


def _list_suspect(names: list[str]) -> list[str]:
    """Return the names in one directory that only a process at work has a use for."""
    stems: dict[str, set[str]] = {}
    for name in names:
        if found := _PACK.fullmatch(name):
            stems.setdefault(found[1], set()).add(found[2])
    torn = {
        f"{stem}.{ending}" for stem, endings in stems.items() if not endings >= {"pack", "idx"} for ending in endings
    }
    return [
        name
        for name in names
        if name in torn
        or _TEMPORARY.fullmatch(name)
        or _ASIDE.fullmatch(name)
        or (name.endswith(".lock") and name not in _OURS)
    ]


def _is_whole_pack(path: str) -> bool:
    """Tell whether a file belongs to a pack that was completed meanwhile."""
    stem, ending = os.path.splitext(path)
    return ending in (".pack", ".idx", ".rev") and all(os.path.exists(stem + part) for part in (".pack", ".idx"))


def _may_be_in_use(path: str, *, is_busy: bool) -> bool:
    """Tell whether a fresh file may belong to a process that has it closed at the moment.

    What is written under the lock has no owner any more once the lock is held; git, and the files that are written
    without the lock, are told by their age.
    """
    return is_busy or bool(_ASIDE.fullmatch(os.path.basename(path)))


def _list_open(paths: Iterable[str]) -> set[str]:
    """Return which of some files a process has open; of processes that can't be looked into nothing is known."""
    wanted = {os.path.realpath(path): path for path in paths}
    held: set[str] = set()
    for process in psutil.process_iter():
        try:
            held |= {wanted[opened.path] for opened in process.open_files() if opened.path in wanted}
        except (psutil.Error, OSError):
            continue
    return held
