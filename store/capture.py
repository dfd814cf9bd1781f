"""What is captured and why not: reading one file exactly, and walking directories for what counts.

Owns the reading of files, links and nested repositories, and every reason for leaving something out. Which names are
ignored belongs to `store.ignore`.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TYPE_CHECKING

from store.entries import MODE_GITLINK, MODE_LINK, Entry, Node
from store.errors import DeadlinePassedError, StoreError
from store.files import open_unfollowed
from store.index import is_racy, mode_of
from store.nested import is_part_of_repository, read_nested_head

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from store.ignore import IgnoreRules
    from store.objects import ObjectStore
    from store.patterns import Patterns


class Reason(StrEnum):
    """Say why something in a project is not captured."""

    LARGE = "too-large"
    UNREADABLE = "unreadable"
    SPECIAL = "special-file"
    RESTLESS = "changing-while-read"
    NESTED = "nested-repository"
    MOUNT = "other-file-system"
    SECRET = "secret"  # noqa: S105 - the word, not one


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Say that one path is not captured, and why."""

    path: bytes
    reason: Reason


def _tell_nobody(done_count: int, total_count: int) -> None:
    """Take note of nothing."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Say how much is captured."""

    max_file_bytes: int | None = 10 * 1024 * 1024
    """A larger file is left out; nothing for no limit."""
    max_files: int = 50_000
    """A look that meets more files is given up; a project with more captured files is not snapshotted."""
    capture_nested: bool = False
    """Capture the files of nested repositories instead of recording a reference."""
    deadline: float = float("inf")
    """When the work is given up, on the monotonic clock."""
    on_progress: Callable[[int, int], None] = field(default=_tell_nobody, compare=False)
    """Called now and then, while many files are read, with how many of how many are."""

    def check_deadline(self) -> None:
        """Give up when the time is over.

        Raises:
            DeadlinePassedError: It is.
        """
        if time.monotonic() > self.deadline:
            raise DeadlinePassedError("The time allowed for this checkpoint is over.")


_SECRET_NAMES = (
    ".env",
    ".env.*",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "id_rsa*",
    "id_ed25519*",
    ".netrc",
    ".npmrc",
    ".pypirc",
)
"""Ignored files of these names stay out even when a tool names them."""
_READ_TRIES = 3
_WRITTEN_AT_ONCE_BYTES = 1 << 16
"""Up to so much, a write is seen whole or not at all."""
_HALF_WRITTEN_S = 0.05
"""File times advance in steps of at most 10 ms, and who is in the middle of a write may wait a few turns for a core."""


def is_secret(path: bytes) -> bool:
    """Tell whether a file's name is one that commonly holds secrets."""
    name = os.fsdecode(path.rsplit(b"/", 1)[-1])
    return any(fnmatchcase(name, pattern) for pattern in _SECRET_NAMES)


def capture_path(objects: ObjectStore, root: bytes, path: bytes, limits: Limits) -> Node | LeftOut | None:
    """Store the content of one file or link, exactly as it is on disk.

    The caller makes sure that the directories above are directories and not links.

    Returns:
        What stands there; or why it is left out; or nothing, when there is no such file (a directory included).
    """
    found = read_path(root, path, limits)
    if found is None or isinstance(found, LeftOut):
        return found
    mode, bits, content = found
    return Node(Entry(mode, objects.write_blob(content)), bits)


Read = tuple[bytes, int | None, bytes]
"""git's mode, the permission bits, and the content."""


def read_path(root: bytes, path: bytes, limits: Limits, *, is_regular: bool = False) -> Read | LeftOut | None:
    """Return what one file or link is; where `capture_path` stores nothing, what it returns.

    Args:
        root: The workdir.
        path: Which file.
        limits: How much is captured.
        is_regular: The walk has just seen an ordinary file there.
    """
    full = os.path.join(root, path)
    try:
        found = _read_file(full, limits) if is_regular else _read_path(full, limits)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return LeftOut(path, Reason.UNREADABLE)
    return LeftOut(path, found) if isinstance(found, Reason) else found


def _read_path(full: bytes, limits: Limits) -> Read | Reason | None:
    """Return what a file or link is, or why it is not read; nothing for a directory.

    Only the project is touched here, so that an error of the store is never taken for one of the project.
    """
    status = os.lstat(full)
    if stat.S_ISDIR(status.st_mode):
        return None
    if stat.S_ISLNK(status.st_mode):
        return MODE_LINK, None, os.readlink(full)
    return _refuse(status, limits) or _read_file(full, limits)


def _refuse(status: os.stat_result, limits: Limits) -> Reason | None:
    """Return why something is not read at all."""
    if not stat.S_ISREG(status.st_mode):
        return Reason.SPECIAL
    if limits.max_file_bytes is not None and status.st_size > limits.max_file_bytes:
        return Reason.LARGE
    return None


def _read_file(full: bytes, limits: Limits) -> Read | Reason:
    """Read a file until it holds still."""
    for _ in range(_READ_TRIES):
        started_ns = time.time_ns()
        descriptor = open_unfollowed(full)
        try:
            before = os.fstat(descriptor)
            mode, reason = mode_of(before), _refuse(before, limits)
            if mode is None or reason is not None:
                return reason or Reason.SPECIAL
            content = _read_whole(descriptor, before.st_size)
            if is_racy(before, started_ns) and not _is_read_again(descriptor, content):
                continue
            after = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        if len(content) == after.st_size and _same(before, after):
            return mode, stat.S_IMODE(before.st_mode), content
    return Reason.RESTLESS


def _is_read_again(descriptor: int, content: bytes) -> bool:
    """Tell whether a file that changed just now still reads the same; its times are too coarse to tell.

    A large one may stand half written for a while, so it is given the time after which its times do tell.
    """
    if len(content) > _WRITTEN_AT_ONCE_BYTES:
        time.sleep(_HALF_WRITTEN_S)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return _read_whole(descriptor, len(content)) == content


def _read_whole(descriptor: int, size_bytes: int) -> bytes:
    """Read as much as a file had, and a byte more if it grew; one call for most files.

    A file that grows further is caught by the look at its size afterwards.
    """
    content = os.read(descriptor, size_bytes + 1)
    while 0 < len(content) < size_bytes:
        more = os.read(descriptor, size_bytes + 1 - len(content))
        if not more:
            break
        content += more
    return content


def _same(before: os.stat_result, after: os.stat_result) -> bool:
    return (before.st_size, before.st_mtime_ns, before.st_ctime_ns, before.st_mode) == (
        after.st_size,
        after.st_mtime_ns,
        after.st_ctime_ns,
        after.st_mode,
    )


@dataclass(frozen=True, slots=True)
class Scope:
    """Say what counts in one project at one moment."""

    root: bytes
    """The workdir."""
    patterns: Patterns
    """Where it is said which names are ignored."""
    rules: IgnoreRules
    """The same, compiled."""
    limits: Limits
    """How much is captured."""
    pinned: Mapping[bytes, bool] = field(default_factory=lambda: MappingProxyType({}))
    """Paths that a tool named: captured even if ignored, unless they look secret; each with whether it existed."""

    def digest(self) -> str:
        """Return hex digits that change when something else counts, the project's own `.gitignore` files apart."""
        terms = f"{self.patterns.digest()} {self.limits.max_file_bytes} {self.limits.capture_nested}"
        return hashlib.sha256(terms.encode()).hexdigest()

    def is_captured(self, path: bytes) -> bool:
        """Tell whether a file counts, its size and kind apart."""
        return not self.rules.is_ignored(path, is_dir=False) or self.is_pinned(path)

    def list_withheld(self) -> dict[bytes, Reason]:
        """Return the ignored files that a tool named and that stay out, since they look secret."""
        return {
            path: Reason.SECRET
            for path in self.pinned
            if is_secret(path)
            and self.rules.is_ignored(path, is_dir=False)
            and os.path.lexists(os.path.join(self.root, path))
        }

    def list_older_than_pins(self) -> frozenset[bytes]:
        """Return the ignored paths that stood there, in no checkpoint, before a tool named them."""
        return frozenset(path for path, existed in self.pinned.items() if existed and self.is_pinned(path))

    def list_made_by_tools(self) -> frozenset[bytes]:
        """Return the ignored paths at which there was nothing before a tool named them."""
        return frozenset(path for path, existed in self.pinned.items() if not existed)

    def is_pinned(self, path: bytes) -> bool:
        """Tell whether a tool named a path, so that it is captured though ignored; not over a link, nor in `.git`."""
        if path not in self.pinned or is_secret(path) or is_part_of_repository(path):
            return False
        above = os.path.dirname(os.path.join(self.root, path))
        return os.path.realpath(above) == above


@dataclass(slots=True)
class Walk:
    """Walk directories of a project and yield each file that counts.

    What is left out on the way, and the nested repositories met, are collected.
    """

    scope: Scope
    left_out: dict[bytes, Reason] = field(default_factory=dict)
    """What was met and not captured, ignored files excepted."""
    nested: dict[bytes, Entry] = field(default_factory=dict)
    """The nested repositories met, as a tree records them."""
    modes: dict[bytes, int] = field(default_factory=dict)
    """The mode of each directory walked, as `lstat` gives it."""
    empty: set[bytes] = field(default_factory=set)
    """The directories walked in which nothing counts."""

    def files(self, directory: bytes = b"") -> Iterator[tuple[bytes, os.stat_result]]:
        """Yield the path and stat data of every file and link below a directory that is itself not ignored.

        Raises:
            StoreError: The project itself can't be read; that never means that it is empty.
            DeadlinePassedError: The walk took too long.
        """
        device = find_device(self.scope.root)
        pending = [directory]
        while pending:
            self.scope.limits.check_deadline()
            current = pending.pop()
            prefix = current + b"/" if current else b""
            entries = self._list(current)
            if current and self._is_reference(current, entries, device):
                continue
            rules = self.scope.rules.enter(current)
            is_empty = bool(current) and current not in self.left_out
            for entry in entries:
                is_directory = entry.is_dir(follow_symlinks=False)
                if rules.ignores(entry.name, is_directory):
                    continue
                is_empty = False
                if is_directory:
                    pending.append(prefix + entry.name)
                    continue
                try:
                    yield prefix + entry.name, entry.stat(follow_symlinks=False)
                except OSError:
                    continue
            if is_empty:
                self.empty.add(current)

    def is_empty(self, directory: bytes) -> bool:
        """Tell whether nothing counts in a directory that is itself not ignored."""
        entries, rules = self._list(directory), self.scope.rules.enter(directory)
        return directory not in self.left_out and all(
            rules.ignores(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries
        )

    def _list(self, directory: bytes) -> list[os.DirEntry[bytes]]:
        """Return what a directory holds; one that is gone or can't be read holds nothing, unless it is the project."""
        try:
            with os.scandir(os.path.join(self.scope.root, directory)) as found:
                return list(found)
        except (FileNotFoundError, NotADirectoryError) as error:
            if not directory:
                raise _unreadable(self.scope.root, error) from error
        except OSError as error:
            if not directory:
                raise _unreadable(self.scope.root, error) from error
            self.left_out[directory] = Reason.UNREADABLE
        return []

    def _is_reference(self, directory: bytes, entries: list[os.DirEntry[bytes]], device: int) -> bool:
        """Tell whether a directory is recorded or named instead of being walked."""
        full = os.path.join(self.scope.root, directory)
        try:
            status = os.lstat(full)
        except OSError:
            return True
        if status.st_dev != device:
            self.left_out[directory] = Reason.MOUNT
            return True
        self.modes[directory] = status.st_mode
        if self.scope.limits.capture_nested or not any(entry.name == b".git" for entry in entries):
            return False
        head = read_nested_head(full)
        if head is None:
            return False
        del self.modes[directory]
        self.nested[directory] = Entry(MODE_GITLINK, head)
        self.left_out[directory] = Reason.NESTED
        return True


def list_directory(path: bytes) -> list[os.DirEntry[bytes]]:
    """Return what a directory holds; one that can't be read holds nothing that could be told."""
    try:
        with os.scandir(path) as found:
            return list(found)
    except OSError:
        return []


def find_device(root: bytes) -> int:
    """Return the number of the file system that a project is on.

    Raises:
        StoreError: The project can't be read.
    """
    return look_at_root(root).st_dev


def look_at_root(root: bytes) -> os.stat_result:
    """Return the stat data of a project's own directory.

    Raises:
        StoreError: The project can't be read.
    """
    try:
        return os.lstat(root)
    except OSError as error:
        raise _unreadable(root, error) from error


def _unreadable(root: bytes, error: OSError) -> StoreError:
    return StoreError(f"{os.fsdecode(root)} can't be read: {error.strerror}.")
