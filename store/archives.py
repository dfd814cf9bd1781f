"""What stands beside the store in its base: archives of older repositories, and removing all of it.

Owns `legacy-*` and how directories are removed that hold what can't be written.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from store.files import measure_bytes

if TYPE_CHECKING:
    from store.layout import Layout

_REMOVED = ".checkpoints-removed-"


@dataclass(frozen=True, slots=True)
class Archive:
    """Hold what is known of one archive of older repositories."""

    name: str
    path: str
    size_bytes: int
    mtime: float
    """Seconds since the epoch."""


def list_archives(base: str) -> list[Archive]:
    """Return the archives, by name."""
    try:
        names = sorted(name for name in os.listdir(base) if name.startswith("legacy-"))
    except FileNotFoundError:
        return []
    found: list[Archive] = []
    for name in names:
        path = os.path.join(base, name)
        with contextlib.suppress(FileNotFoundError):
            found.append(Archive(name, path, measure_bytes(path), os.lstat(path).st_mtime))
    return found


def remove_tree(path: str) -> None:
    """Remove a directory and all that is in it, also what its owner may not write; a link is removed by itself.

    Raises:
        OSError: Something can't be removed; the rest may be gone.
    """
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode):
        os.unlink(path)
        return
    _allow_writing(path)
    shutil.rmtree(path)


def _allow_writing(directory: str) -> None:
    """Let the owner list and change a directory and those below it; links are not followed."""
    os.chmod(directory, 0o700)
    with os.scandir(directory) as entries:
        below = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    for path in below:
        _allow_writing(path)


def put_base_aside(layout: Layout) -> str:
    """Rename the base, so that it is gone at once, and return its new name. The caller holds the lock.

    A base that is a link or a mount point can't be renamed; what is in it is.
    """
    home = os.path.dirname(layout.base)
    aside = os.path.join(home, f"{_REMOVED}{os.getpid()}")
    if not os.path.islink(layout.base):
        with contextlib.suppress(OSError):
            os.rename(layout.base, aside)
            return aside
    within = os.path.join(layout.base, os.path.basename(aside))
    os.mkdir(within, 0o700)
    for name in os.listdir(layout.base):
        if name != os.path.basename(within):
            os.rename(os.path.join(layout.base, name), os.path.join(within, name))
    return within


def list_put_aside(layout: Layout) -> list[str]:
    """Return what was put aside to be removed, and is still there since somebody was killed."""
    found: list[str] = []
    for directory in (os.path.dirname(layout.base), layout.base):
        with contextlib.suppress(FileNotFoundError):
            names = os.listdir(directory)
            found += [os.path.join(directory, name) for name in names if name.startswith(_REMOVED)]
    return found
