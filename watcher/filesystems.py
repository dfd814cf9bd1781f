"""Which file systems tell of their changes.

Source: inotify(7), "Limitations and caveats"; the mount table, proc_pid_mountinfo(5).
"""

from __future__ import annotations

import os

_EVENTLESS_TYPES = frozenset(
    b"9p afs autofs beegfs ceph cgroup cgroup2 cifs coda debugfs devpts lustre ncpfs nfs nfs4 ocfs2 orangefs prl_fs "
    b"proc securityfs smb2 smb3 smbfs sysfs tracefs vboxsf virtiofs vmhgfs".split()
)
"""File systems whose changes come from elsewhere, or that don't announce them. FUSE is known by its prefix."""


def announces_changes(kind: bytes) -> bool:
    """Tell whether every change on a type of file system is announced on this machine."""
    return kind not in _EVENTLESS_TYPES and not kind.startswith(b"fuse")


def find_type(path: bytes) -> bytes:
    """Return the type of the file system a directory is on, by the mount table of the process.

    Raises:
        OSError: The directory can't be opened, or there is no mount table.
        LookupError: The table doesn't list the mount.
    """
    fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with open(f"/proc/self/fdinfo/{fd}", "rb") as lines:
            mount_id = next((line.split()[1] for line in lines if line.startswith(b"mnt_id:")), b"")
    finally:
        os.close(fd)
    with open("/proc/self/mountinfo", "rb") as lines:
        for line in lines:
            fields = line.split()
            if fields[0] == mount_id:
                return fields[fields.index(b"-") + 1]
    raise LookupError(mount_id)
