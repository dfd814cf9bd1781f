"""Put files into a project and take them out, without ever following a link out of it.

Owns the system calls of a rollback: parents are opened one by one without following links, content is written aside
and renamed. Which files, and in which order, belongs to `store.restore`.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

from store.entries import MODE_EXECUTABLE, MODE_LINK

if TYPE_CHECKING:
    from collections.abc import Iterator

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ANY_EXECUTE = 0o111
ASIDE = b".hermes-restore-"
"""What the names of files written aside begin with."""


class ProjectFiles:
    """Change the files of one project.

    Args:
        root: The workdir.
        token: What the names of files written aside end in; a new one if not given.
    """

    def __init__(self, root: bytes, token: str = "") -> None:
        self._root = root
        self._aside = ASIDE + (token or secrets.token_hex(8)).encode()
        self._last: tuple[bytes, int] | None = None
        """The directory opened last, by its path, and its descriptor."""

    def status(self, path: bytes) -> os.stat_result | None:
        """Return the stat data of what stands at a path; nothing when it is gone or a link leads there."""
        try:
            with self._parent(path) as (parent, name):
                return os.lstat(name, dir_fd=parent)
        except OSError:
            return None

    def write_aside(
        self, path: bytes, content: bytes, mode: bytes, bits: int | None = None, *, number: int = 0
    ) -> None:
        """Write a file or a link beside the path that it is for; directories above it are made.

        Args:
            path: Where it is to go.
            content: The bytes of a file, or the target of a link.
            mode: git's mode.
            bits: The permission bits of a file. Without them a file that is there keeps its own, the executable ones
                excepted, and a new one gets those of the user's umask.
            number: Tells it from others written aside in the same directory.

        Raises:
            OSError: It can't be written there, or a link or a file stands where a directory has to be.
        """
        with self._parent(path, create=True) as (parent, name):
            aside = self._name_aside(number)
            try:
                if mode == MODE_LINK:
                    os.symlink(content, aside, dir_fd=parent)
                else:
                    _write_aside(parent, aside, content, _permissions(parent, name, mode) if bits is None else bits)
            except BaseException:
                _drop(parent, aside)
                raise

    def put_in_place(self, path: bytes, *, number: int = 0, replace: bool = True) -> None:
        """Give what was written aside its name, whole or not at all.

        Args:
            path: Where it goes.
            number: Which one.
            replace: Whether what stands there is replaced; otherwise it is an error that anything does.

        Raises:
            OSError: It can't go there; it is removed.
        """
        with self._parent(path) as (parent, name):
            aside = self._name_aside(number)
            try:
                if replace:
                    os.rename(aside, name, src_dir_fd=parent, dst_dir_fd=parent)
                else:
                    os.link(aside, name, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=False)
                    os.unlink(aside, dir_fd=parent)
            except BaseException:
                _drop(parent, aside)
                raise

    def drop_aside(self, path: bytes, number: int = 0) -> None:
        """Remove what was written aside for a path."""
        with contextlib.suppress(OSError), self._parent(path) as (parent, _):
            _drop(parent, self._name_aside(number))

    def remove_all_aside(self, directory: bytes) -> None:
        """Remove what a killed process wrote aside in a directory under the same token."""
        with contextlib.suppress(OSError):
            for name in self.list_names(directory):
                if name.startswith(self._aside):
                    self.remove(os.path.join(directory, name))

    def _name_aside(self, number: int) -> bytes:
        return b"%s-%d" % (self._aside, number)

    def make_directory(self, path: bytes) -> None:
        """Make a directory, and those above it; one that is there is left as it is.

        Raises:
            OSError: It can't be made, or a link or a file stands there.
        """
        with self._parent(path + b"/", create=True):
            pass

    def set_bits(self, path: bytes, bits: int) -> None:
        """Give a file or a directory its permission bits.

        Raises:
            OSError: It can't be done, or a link stands there.
        """
        with self._parent(path) as (parent, name):
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
            try:
                os.fchmod(descriptor, bits)
            finally:
                os.close(descriptor)

    def remove(self, path: bytes) -> None:
        """Remove a file or a link.

        Raises:
            OSError: It can't be removed.
        """
        with self._parent(path) as (parent, name):
            os.unlink(name, dir_fd=parent)

    def remove_directory(self, path: bytes) -> bool:
        """Remove a directory if it is empty, and tell whether it was."""
        try:
            with self._parent(path) as (parent, name):
                os.rmdir(name, dir_fd=parent)
        except OSError:
            return False
        self.close()
        return True

    def remove_empty_tree(self, path: bytes) -> bool:
        """Remove a directory that holds nothing but directories, and tell whether it was one."""
        try:
            with self._parent(path) as (parent, name):
                for _, folders, _, folder in os.fwalk(name, topdown=False, follow_symlinks=False, dir_fd=parent):
                    for below in folders:
                        os.rmdir(below, dir_fd=folder)
                os.rmdir(name, dir_fd=parent)
        except OSError:
            return False
        finally:
            self.close()
        return True

    def list_below(self, path: bytes) -> Iterator[bytes]:
        """Yield everything below a directory that is not a directory itself, relative to the project."""
        with self._parent(path) as (parent, name):
            for folder, folders, names, descriptor in os.fwalk(name, follow_symlinks=False, dir_fd=parent):
                above = path + folder[len(name) :] + b"/"
                yield from (above + each for each in names)
                for below in folders:
                    if stat.S_ISLNK(os.lstat(below, dir_fd=descriptor).st_mode):
                        yield above + below

    def list_names(self, path: bytes) -> list[bytes]:
        """Return the names in a directory.

        Raises:
            OSError: It can't be read, or is none.
        """
        with self._parent(path + b"/") as (directory, _):
            return [os.fsencode(name) for name in os.listdir(directory)]

    @contextmanager
    def _parent(self, path: bytes, *, create: bool = False) -> Iterator[tuple[int, bytes]]:
        """Open the directory that holds a path, step by step, and give it with the path's last name.

        The last one opened stays open, since the next path mostly is in the same.
        """
        above, _, name = path.rpartition(b"/")
        if self._last is None or self._last[0] != above or not os.fstat(self._last[1]).st_nlink:
            descriptor = self._open_directory(above, create=create)
            self.close()
            self._last = (above, descriptor)
        yield self._last[1], name

    def close(self) -> None:
        """Close the directory that was opened last."""
        if self._last is not None:
            os.close(self._last[1])
            self._last = None

    def _open_directory(self, path: bytes, *, create: bool) -> int:
        current = os.open(self._root, _DIRECTORY)
        try:
            for directory in path.split(b"/") if path else ():
                if create:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(directory, dir_fd=current)
                below = os.open(directory, _DIRECTORY, dir_fd=current)
                os.close(current)
                current = below
        except BaseException:
            os.close(current)
            raise
        return current

    def __del__(self) -> None:
        """Close what is open."""
        self.close()


def _drop(parent: int, name: bytes) -> None:
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=parent)


def _write_aside(parent: int, name: bytes, content: bytes, permissions: int) -> None:
    descriptor = os.open(
        name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=parent
    )
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fchmod(descriptor, permissions)


def _permissions(parent: int, name: bytes, mode: bytes) -> int:
    """Return the permission bits for a file: those it has, or those the user's umask gives a new one."""
    try:
        standing = os.lstat(name, dir_fd=parent)
        bits = stat.S_IMODE(standing.st_mode) & 0o777 if stat.S_ISREG(standing.st_mode) else None
    except FileNotFoundError:
        bits = None
    if bits is None:
        bits = 0o666 & ~_umask()
    if mode == MODE_EXECUTABLE:
        return bits | (bits & 0o444) >> 2
    return bits & ~_ANY_EXECUTE


def _umask() -> int:
    """Return the process's umask. Source: proc_pid_status(5); elsewhere it can only be read by setting it."""
    try:
        with open("/proc/self/status", "rb") as status:
            return next(int(line.split()[1], 8) for line in status if line.startswith(b"Umask:"))
    except (OSError, StopIteration):
        umask = os.umask(0o077)
        os.umask(umask)
        return umask
