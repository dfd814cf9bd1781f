"""Look at volumes and at projects on them, without ever waiting long: a network file system may not answer at all.

Owns the system calls behind `store.mounts`. Each look is done by a thread that is left behind when it hangs; a path
whose last look still hangs is not looked at again until that one ends.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
from typing import TYPE_CHECKING

import psutil

from store.mounts import Evidence, Facts, Look, Mount, Verdict, classify, find_mount

if TYPE_CHECKING:
    from collections.abc import Callable

_DEADLINE_S = 2.0
_MOUNT_TABLE = "/proc/self/mountinfo"
_ESCAPED = re.compile(r"\\([0-7]{3})")
_hanging: set[str] = set()
"""Paths that a thread still looks at, though nobody waits for it any more."""
_guard = threading.Lock()


def judge(workdir: str, evidence: Evidence | None, *, deadline_s: float = _DEADLINE_S) -> Verdict:
    """Say where a project's directory is.

    Args:
        workdir: Where it was, absolute.
        evidence: What was recorded while it was live.
        deadline_s: How long is waited for an answer; without one, nobody can tell.
    """
    return classify(workdir, evidence, _within(workdir, lambda: _gather(workdir, evidence), deadline_s))


def is_as_recorded(workdir: str, evidence: Evidence) -> bool:
    """Tell whether the very directory of the evidence is at its path: two system calls, mostly all that is needed."""
    try:
        status, fsid = os.lstat(workdir), os.statvfs(workdir).f_fsid
    except OSError:
        return False
    return (status.st_ino, status.st_dev, fsid) == (evidence.inode, evidence.device, evidence.own_fsid)


def record_evidence(workdir: str) -> Evidence | None:
    """Return what tells a live project's volume and directory from others; nothing when that can't be seen."""
    try:
        status = os.lstat(workdir)
        mount = find_mount(workdir, list_mounts())
        if mount is None or not stat.S_ISDIR(status.st_mode):
            return None
        return Evidence(
            mount,
            os.statvfs(mount.point).f_fsid,
            os.statvfs(workdir).f_fsid,
            status.st_dev,
            status.st_ino,
            tuple(os.lstat(each).st_ino for each in _list_between(mount.point, workdir)),
        )
    except OSError:
        return None


def list_mounts() -> list[Mount]:
    """Return the mount table, in the order of mounting; where the system's own has no subtrees, as psutil has it."""
    try:
        with open(_MOUNT_TABLE, encoding="utf-8", errors="surrogateescape") as file:
            return [_parse_mount(line) for line in file]
    except OSError:
        partitions = psutil.disk_partitions(all=True)
        return [Mount(each.mountpoint, "/", each.fstype, each.device) for each in partitions]


def _parse_mount(line: str) -> Mount:
    """Return a line of the table. Source: proc_pid_mountinfo(5); the type and the source stand behind a lone dash."""
    front, _, back = line.rstrip("\n").partition(" - ")
    fields, rest = front.split(" "), back.split(" ")
    return Mount(_unescape(fields[4]), _unescape(fields[3]), rest[0], _unescape(rest[1]))


def _unescape(field: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), field)


def _list_between(above: str, below: str) -> list[str]:
    """Return the directories between two, the outermost first; neither is among them."""
    names = below[len(above.rstrip("/")) + 1 :].split("/")[:-1]
    return [os.path.join(above, *names[: count + 1]) for count in range(len(names))]


def _gather(workdir: str, evidence: Evidence | None) -> Facts:
    """Look at everything that the decision may need."""
    look = _look(workdir)
    if evidence is None:
        return Facts(look)
    mounts, fsid = list_mounts(), None
    try:
        fsid = os.statvfs(evidence.mount.point).f_fsid
    except OSError as error:
        if error.errno in (errno.ENOTCONN, errno.ESTALE, errno.EIO):
            look = Look(error=error.errno)
    if look.error is None:
        return Facts(look, mounts, fsid)
    siblings, missing = _look_around(workdir, evidence)
    return Facts(look, mounts, fsid, siblings, missing)


def _look_around(workdir: str, evidence: Evidence) -> tuple[dict[int, str] | None, int | None]:
    """Return what is in the nearest directory that is left, and the inode that the next one had."""
    between = _list_between(evidence.mount.point, workdir)
    inodes = dict(zip([*between, workdir], [*evidence.parents, evidence.inode], strict=False))
    missing = next((each for each in inodes if _look(each).error == errno.ENOENT), workdir)
    above = os.path.dirname(missing)
    try:
        with os.scandir(above) as found:
            return {each.inode(): each.path for each in found}, inodes.get(missing)
    except OSError:
        return None, None


def _look(path: str) -> Look:
    try:
        status = os.lstat(path)
        if stat.S_ISDIR(status.st_mode):
            os.scandir(path).close()  # a directory that can't be read tells nothing of what is in it
    except OSError as error:
        return Look(error=error.errno or errno.EIO)
    return Look(None, stat.S_ISDIR(status.st_mode), status.st_dev, status.st_ino)


def _within(path: str, gather: Callable[[], Facts], deadline_s: float) -> Facts:
    """Return what was found in time."""
    with _guard:
        if path in _hanging:
            return Facts(Look(error=errno.ETIMEDOUT))
        _hanging.add(path)
    found: list[Facts] = []

    def look() -> None:
        try:
            found.append(gather())
        finally:
            with _guard:
                _hanging.discard(path)

    thread = threading.Thread(target=look, name="look-at-volume", daemon=True)
    thread.start()
    thread.join(deadline_s)
    return found[0] if found else Facts(Look(error=errno.ETIMEDOUT))
