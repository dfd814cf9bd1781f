"""Processes of agents: which one a number means, and whether it still runs."""

from __future__ import annotations

import psutil

from watcher.turns import Owner

_SAME_START_S = 0.02
"""The kernel tells a start in ticks; the moment of boot, which they are added to, may be read a little differently."""


def find_owner(pid: int | None) -> Owner | None:
    """Return the process of a number as it is now; nothing when there is none."""
    if pid is None:
        return None
    try:
        return Owner(pid, psutil.Process(pid).create_time())
    except (psutil.Error, ValueError):
        return None


def is_running(owner: Owner) -> bool:
    """Tell whether a process still runs, and is not another one of its number."""
    now = find_owner(owner.pid)
    if now is None or abs(now.started_at - owner.started_at) > _SAME_START_S:
        return False
    try:
        return psutil.Process(owner.pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
