"""Small files that survive a crash: written aside, flushed, renamed.

Owns how our own files reach the disk and how JSON is read back. What the JSON means belongs to the callers.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import tempfile

from store.errors import CorruptFileError

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_LAST_SECOND = 1e12
"""A time after the year 33,000 is none."""


def make_private_directory(path: str) -> None:
    """Make a directory, and those above it, that only the user can enter (0700).

    Directories that exist are left as they are.
    """
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    if parent != path:
        make_private_directory(parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)


def write_atomically(path: str, content: bytes, *, flush: bool = True) -> None:
    """Replace a file whole: whoever reads it sees the old content or the new, after a crash too.

    The file is readable by the user alone (0600).

    Args:
        path: Where it goes; its directory is made if need be.
        content: All of it.
        flush: Wait for the disk, so that a power cut can't leave the new name without the new content. Without it
            the content is safe from a killed process only.
    """
    directory, name = os.path.split(path)
    descriptor, aside = _open_aside(directory, name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if flush:
                file.flush()
                os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(aside)
        raise
    if flush:
        flush_directory(directory)


def _open_aside(directory: str, name: str) -> tuple[int, str]:
    try:
        return tempfile.mkstemp(prefix=f".{name}.", dir=directory)
    except FileNotFoundError:
        make_private_directory(directory)
        return tempfile.mkstemp(prefix=f".{name}.", dir=directory)


def flush_file(path: str) -> None:
    """Wait until a file and its name are on disk.

    Raises:
        FileNotFoundError: There is no such file.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    flush_directory(os.path.dirname(path))


def flush_directory(path: str) -> None:
    """Wait until the names in a directory are on disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_file(path: str) -> bytes | None:
    """Return a file's content, or nothing when there is no such file."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def read_json_object(path: str) -> dict[str, object] | None:
    """Return the JSON object in a file, or nothing when there is no such file.

    Raises:
        CorruptFileError: It can't be read, or is not a JSON object; it is left alone.
    """
    try:
        content = read_file(path)
    except OSError as error:
        raise CorruptFileError(f"{path} can't be read: {error.strerror}.") from error
    if content is None:
        return None
    try:
        value = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"{path} can't be understood: {error}.") from error
    if not isinstance(value, dict):
        raise CorruptFileError(f"{path} can't be understood: it is not a JSON object.")
    return value


def to_seconds(value: object) -> float | None:
    """Return a time of a JSON file, or nothing for what is no time."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not abs(value) < _LAST_SECOND:
        return None
    return float(value)


def to_path(value: object) -> bytes | None:
    """Return a path of a JSON file, or nothing for what no file can be named."""
    if not isinstance(value, str) or not value or "\0" in value:
        return None
    try:
        return os.fsencode(value)
    except UnicodeEncodeError:
        return None


def to_paths(raw: object) -> frozenset[bytes] | None:
    """Return the paths that JSON lists; nothing if it lists anything else."""
    if not isinstance(raw, list):
        return None
    found = [path for name in raw if (path := to_path(name)) is not None]
    return frozenset(found) if len(found) == len(raw) else None


def write_json(path: str, value: object, *, flush: bool = False) -> None:
    """Replace a file by JSON in ASCII; names that are not UTF-8 are kept as surrogate escapes."""
    write_atomically(path, json.dumps(value, separators=(",", ":")).encode(), flush=flush)


def flush_file_system(path: str) -> None:
    """Wait until everything written so far to the file system of a path is on disk.

    One call for many objects costs less than one for each. Source: syncfs(2); elsewhere the whole system is flushed.
    """
    try:
        syncfs = ctypes.CDLL(None, use_errno=True).syncfs
    except (OSError, AttributeError):
        os.sync()
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        syncfs(descriptor)
    finally:
        os.close(descriptor)


def is_disk_full(error: BaseException) -> bool:
    """Tell whether an error, or one that led to it, says that no space is left. git and libgit2 say so in words."""
    chain: BaseException | None = error
    while chain is not None:
        if isinstance(chain, OSError) and chain.errno in _NO_SPACE:
            return True
        if any(os.strerror(code) in str(chain) for code in _NO_SPACE):
            return True
        chain = chain.__cause__ or chain.__context__
    return False


def find_free_bytes(path: str) -> int:
    """Return how many bytes the user can still write to the file system of a path."""
    free = os.statvfs(path)
    return free.f_bavail * free.f_frsize


def measure_bytes(directory: str) -> int:
    """Return how much disk the files below a directory take, in bytes."""
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                continue
    return total


def open_unfollowed(full: bytes) -> int:
    """Open a file for reading without following a link, waiting for a pipe's other end or moving its access time."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(full, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise FileNotFoundError(error.errno, "became a link") from error
        raise
