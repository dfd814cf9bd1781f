"""The door to inotify: the system calls and the layout of their records, nothing else.

What is watched, and what an event means, is the business of `watcher.observer`. Importing this module works on
every system; `is_available` says whether the calls do.

Source: inotify(7), inotify_add_watch(2), <sys/inotify.h>.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
import sys
from typing import NamedTuple

if sys.platform != "win32":
    import fcntl
    import termios

MODIFY = 0x0000_0002
ATTRIB = 0x0000_0004
CLOSE_WRITE = 0x0000_0008
MOVED_FROM = 0x0000_0040
MOVED_TO = 0x0000_0080
CREATE = 0x0000_0100
DELETE = 0x0000_0200
DELETE_SELF = 0x0000_0400
MOVE_SELF = 0x0000_0800
UNMOUNT = 0x0000_2000
Q_OVERFLOW = 0x0000_4000
IGNORED = 0x0000_8000
ONLYDIR = 0x0100_0000
DONT_FOLLOW = 0x0200_0000
EXCL_UNLINK = 0x0400_0000
ISDIR = 0x4000_0000

_RECORD = struct.Struct("iIII")


class Event(NamedTuple):
    """One record of the queue."""

    wd: int
    """The watch it belongs to; -1 for an overflow."""
    mask: int
    cookie: int
    """Joins the two halves of a rename; 0 otherwise."""
    name: bytes
    """The entry inside the watched directory; empty when the directory itself is meant."""


@functools.cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.inotify_init1.argtypes = [ctypes.c_int]
    libc.inotify_add_watch.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32]
    libc.inotify_rm_watch.argtypes = [ctypes.c_int, ctypes.c_int]
    return libc


def _checked(result: int, path: bytes | None = None) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path)
    return result


def is_available() -> bool:
    """Say whether this system has inotify."""
    return sys.platform == "linux" and hasattr(ctypes.CDLL(None), "inotify_init1")


def open_queue() -> int:
    """Open an event queue and return its descriptor, which is non-blocking and not inherited.

    Raises:
        OSError: EMFILE when the user's instances or the process's descriptors are used up.
    """
    return _checked(_libc().inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))


def add_watch(fd: int, path: bytes, mask: int) -> int:
    """Watch a path, or replace the mask of the watch its inode already has, and return the watch number.

    Raises:
        OSError: ENOSPC when the user's watches are used up, EACCES, ENOENT, ENOTDIR and the other path errors.
    """
    return _checked(_libc().inotify_add_watch(fd, path, mask), path)


def remove_watch(fd: int, wd: int) -> None:
    """Remove a watch; the kernel queues an IGNORED record for it.

    Raises:
        OSError: EINVAL when the watch is already gone.
    """
    _checked(_libc().inotify_rm_watch(fd, wd))


def read_events(fd: int, limit_bytes: int) -> tuple[list[Event], int]:
    """Take records off the queue.

    Args:
        fd: The queue.
        limit_bytes: The most that is read; at least 272, one record with the longest name.

    Returns:
        The records in order, and the number of bytes they took. Both are empty when the queue is.
    """
    try:
        data = os.read(fd, limit_bytes)
    except BlockingIOError:
        return [], 0
    events = []
    offset = 0
    while offset < len(data):
        wd, mask, cookie, length = _RECORD.unpack_from(data, offset)
        offset += _RECORD.size
        events.append(Event(wd, mask, cookie, data[offset : offset + length].rstrip(b"\0")))
        offset += length
    return events, len(data)


def queued_bytes(fd: int) -> int:
    """Return how many bytes of records wait in the queue."""
    answer = fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0")
    return int.from_bytes(answer, sys.byteorder)
