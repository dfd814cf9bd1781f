"""Where a project is when its directory is not: deleted, or on a volume that is not mounted.

Owns the evidence that is recorded while a project is live, and the one decision that everybody asks for. Pure: looking
at the disk belongs to `store.volumes`. Only an orphan may ever be cleaned up, so that state needs proof: the project's
own volume is there, and the project is not on it.
Source: proc_pid_mountinfo(5); statvfs(3), `f_fsid`.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NO_ANSWER = frozenset({errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ELOOP})
_WITHOUT_LASTING_ID = frozenset({"overlay", "tmpfs", "ramfs", "xfs", "vfat", "exfat", "nfs", "nfs4", "cifs", "9p"})
"""File systems whose id is another one after they are mounted again, or none at all."""
_AUTOMOUNT = "autofs"


class WorkdirState(StrEnum):
    """Say where a project's directory is."""

    LIVE = "live"
    """It is there."""
    ORPHAN = "orphan"
    """It was deleted, or something else is in its place: its volume is there and it is not."""
    DETACHED = "detached"
    """Its volume is not mounted, or something is mounted over it."""
    UNKNOWN = "unknown"
    """Nobody can tell."""


@dataclass(frozen=True, slots=True)
class Mount:
    """Hold one line of the mount table."""

    point: str
    """Where it is."""
    subtree: str
    """Which directory of the file system is shown there."""
    kind: str
    """The file system's type."""
    source: str
    """Its device, or what stands for one."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Hold what tells a project's volume and directory from others, as seen while it was live."""

    mount: Mount
    fsid: int
    """The file system's id at the mount point; 0 where it has none."""
    own_fsid: int
    """The same at the directory itself: a subvolume of btrfs has its own."""
    device: int
    """The directory's `st_dev`."""
    inode: int
    """The directory's `st_ino`."""
    parents: tuple[int, ...] = ()
    """The inode of each directory between the mount point and the project, the outermost first."""


@dataclass(frozen=True, slots=True)
class Look:
    """Hold what was found at one path, without following a link in its last name."""

    error: int | None = None
    """The `errno`, if it could not be looked at."""
    is_directory: bool = False
    device: int = 0
    inode: int = 0


@dataclass(frozen=True, slots=True)
class Facts:
    """Hold what was found when a project was looked for."""

    workdir: Look
    mounts: Sequence[Mount] = ()
    """The mount table, in the order of mounting."""
    fsid: int | None = None
    """The id of the file system at the recorded mount point now; nothing when it could not be read."""
    siblings: Mapping[int, str] | None = None
    """By inode: what is in the directory above the first one that is missing; nothing when it could not be read."""
    missing: int | None = None
    """The inode that the first missing directory had; nothing when none is missing."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Say where a project's directory is, and why."""

    state: WorkdirState
    reason: str


def classify(workdir: str, evidence: Evidence | None, facts: Facts) -> Verdict:
    """Decide where a project's directory is.

    Args:
        workdir: Where it was, absolute.
        evidence: What was recorded while it was live; nothing if that was never done.
        facts: What is there now.
    """
    look = facts.workdir
    if look.error in _NO_ANSWER:
        return Verdict(WorkdirState.UNKNOWN, "it can't be looked at")
    if look.error == errno.ENOTCONN:
        return Verdict(WorkdirState.DETACHED, "its file system does not answer any more")
    if evidence is None:
        if look.is_directory:
            return Verdict(WorkdirState.LIVE, "it is there")
        return Verdict(WorkdirState.UNKNOWN, "nothing is known of the volume that it was on")
    return _judge_volume(workdir, evidence, facts) or _judge_directory(evidence, facts)


def _judge_volume(workdir: str, evidence: Evidence, facts: Facts) -> Verdict | None:
    """Say why a project is not to be judged by what is at its path; nothing when its own volume is there."""
    then, now = evidence.mount, find_mount(evidence.mount.point, facts.mounts)
    over = find_mount(workdir, facts.mounts)
    if now is not None and now.kind == _AUTOMOUNT:
        return Verdict(WorkdirState.UNKNOWN, "its volume is mounted when somebody looks")
    if now is None or now.point != then.point:
        detached = f"nothing is mounted at {then.point}"
    elif (now.kind, now.subtree) != (then.kind, then.subtree):
        detached = f"something else is mounted at {then.point}"
    elif facts.fsid is None:
        return Verdict(WorkdirState.UNKNOWN, "its volume can't be looked at")
    elif not _is_same_volume(evidence, facts):
        detached = f"another volume is mounted at {then.point}"
    elif over is not None and over.point != then.point:
        detached = f"{over.point} is mounted over it"
    else:
        return None
    return Verdict(WorkdirState.DETACHED, detached)


def _is_same_volume(evidence: Evidence, facts: Facts) -> bool:
    """Tell whether a volume is the one of the evidence; where its id does not last, by the directory that is on it."""
    if facts.fsid == evidence.fsid:
        return True
    has_lasting_id = evidence.mount.kind not in _WITHOUT_LASTING_ID and evidence.fsid
    return not has_lasting_id and facts.workdir.is_directory and facts.workdir.inode == evidence.inode


def _judge_directory(evidence: Evidence, facts: Facts) -> Verdict:
    """Judge by what is at the path; the volume is the project's own."""
    look = facts.workdir
    if look.error is None:
        if not look.is_directory:
            return Verdict(WorkdirState.ORPHAN, "something else is in its place")
        if look.inode != evidence.inode:
            return Verdict(WorkdirState.ORPHAN, "another directory is in its place")
        return Verdict(WorkdirState.LIVE, "it is there")
    if facts.siblings is None or facts.missing is None:
        return Verdict(WorkdirState.UNKNOWN, "the directory above it can't be read")
    if facts.missing in facts.siblings:
        return Verdict(WorkdirState.UNKNOWN, f"it seems to be {facts.siblings[facts.missing]} now")
    return Verdict(WorkdirState.ORPHAN, "it was deleted")


def find_mount(path: str, mounts: Sequence[Mount]) -> Mount | None:
    """Return what a path is on: the deepest mount point at or above it, and of several there the last one mounted."""
    found: Mount | None = None
    for mount in mounts:
        is_above = path == mount.point or path.startswith(mount.point.rstrip("/") + "/")
        if is_above and (found is None or len(mount.point) >= len(found.point)):
            found = mount
    return found


def format_evidence(evidence: Evidence) -> dict[str, object]:
    """Return evidence as JSON."""
    mount = evidence.mount
    return {
        "mount": [mount.point, mount.subtree, mount.kind, mount.source],
        "fsid": evidence.fsid,
        "own_fsid": evidence.own_fsid,
        "device": evidence.device,
        "inode": evidence.inode,
        "parents": list(evidence.parents),
    }


def parse_evidence(raw: object) -> Evidence | None:
    """Return the evidence in JSON; what can't be understood is none."""
    if not isinstance(raw, dict):
        return None
    mount, parents = raw.get("mount"), raw.get("parents")
    if not isinstance(mount, list) or len(mount) != 4 or not all(isinstance(each, str) for each in mount):
        return None
    numbers = [raw.get(name) for name in ("fsid", "own_fsid", "device", "inode")]
    if not isinstance(parents, list):
        return None
    known = [each for each in (*numbers, *parents) if isinstance(each, int) and not isinstance(each, bool)]
    if len(known) != len(numbers) + len(parents):
        return None
    fsid, own_fsid, device, inode, *inodes = known
    return Evidence(Mount(*mount), fsid, own_fsid, device, inode, tuple(inodes))
