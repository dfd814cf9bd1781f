"""Lock files of git that nobody holds any more.

Owns the question whether a lock file is the debris of a killed process. It is asked under the store's own lock, so
only a git process that outlived its parent can hold one; such a process is looked for, and never disturbed.
"""

from __future__ import annotations

import logging
import os

import psutil

_log = logging.getLogger(__name__)


def remove_stale_lock(store: str, path: str) -> bool:
    """Remove a lock file if no living git process works on the store, and tell whether it was removed.

    Args:
        store: The bare repository.
        path: The lock file. The caller holds the store's own lock.
    """
    if not os.path.exists(path) or is_git_at_work(store):
        return False
    os.unlink(path)
    _log.warning("removed %s, which a process that was killed had left", path)
    return True


def is_git_at_work(store: str) -> bool:
    """Tell whether a git process has anything to do with a store; one that can't be looked into may have."""
    for process in psutil.process_iter():
        try:
            if process.name() not in ("git", "git.exe") and not process.name().startswith("git-"):
                continue
            words = [*process.cmdline(), *process.environ().values(), process.cwd()]
        except psutil.NoSuchProcess:
            continue
        except psutil.AccessDenied:
            return True
        if any(store in word for word in words):
            return True
    return False
