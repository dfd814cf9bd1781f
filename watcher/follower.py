"""Follow one project's file events: bring its dirty set up to date from an inotify queue of its own.

An event means "look there again"; nothing but a directory listing is done here. Which watch number is which directory
is kept by `watcher.watchtree`; the thread that this runs on belongs to `watcher.observer`.

Four rules make the dirty set complete:

- A directory is watched first and listed afterwards, so that an entry is either listed or announced.
- A tree is noted after it is watched, so that whoever takes the note and looks sees all that was not announced.
- What is excluded below a directory, and whether it is a nested repository, is asked after it is watched, and again
  when it came anew, when a `.gitignore` changed, and after lost events; of a repository before each barrier, since what
  makes it one may lie where nobody watches.
- What can't be watched is never passed over: the watch says "scan" and why, and no barrier holds until it is healed.

Not seen at all: writes through a memory mapping or through another name of the file (`watcher.engine` looks at files
with several names by itself), and what is below excluded directories, nested repositories and other mounted volumes.

Source: inotify(7), "Limitations and caveats".
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import stat
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from store.nested import is_nested_repository
from watcher import inotify
from watcher.filesystems import announces_changes, find_type
from watcher.watchtree import Directory, WatchTree

if TYPE_CHECKING:
    from collections.abc import Callable

    from watcher.dirty import DirtySet

log = logging.getLogger(__name__)

_FLAGS = inotify.ONLYDIR | inotify.DONT_FOLLOW | inotify.EXCL_UNLINK
_APPEARED = inotify.CREATE | inotify.MOVED_TO
_DISAPPEARED = inotify.DELETE | inotify.MOVED_FROM
_SELF = inotify.DELETE_SELF | inotify.MOVE_SELF
# No OPEN, CLOSE_NOWRITE or ACCESS: a scan of our own would fill the queue.
_DIRECTORY_MASK = _FLAGS | _APPEARED | _DISAPPEARED | inotify.MODIFY | inotify.CLOSE_WRITE | inotify.ATTRIB | _SELF
_NESTED_MASK = _FLAGS | _APPEARED | _DISAPPEARED
_ANCESTOR_MASK = inotify.ONLYDIR | inotify.DONT_FOLLOW | _SELF

_READ_BYTES = 256 * 1024
_SETTLE_MS = 20
"""Waited after the first event, unless a barrier asks: reading in batches takes a fifth of the CPU time."""
_REMOVALS_PER_READ = 1_000
"""Each removal queues a record; the queue is emptied in between so that clearing up can't overflow it."""
_RETRY_S = 1.0
_RETRY_LIMIT_S = 60.0
_GIT = b".git"
_GITIGNORE = b".gitignore"
_VANISHED = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}


@dataclass(frozen=True, slots=True)
class WatchState:
    """How far the dirty set of a project can be trusted right now."""

    mode: Literal["events", "scan"]
    """"events": every change is announced. "scan": look at the disk, and don't rest on the set."""
    why: str
    """Why it is "scan", as a sentence without its full stop; empty for "events"."""
    since: float
    """When this mode and reason began, in seconds since the epoch."""
    watch_count: int
    """Watches of the kernel in use."""
    overflow_count: int
    """How often events were lost since `start`."""


@dataclass(frozen=True, slots=True)
class FollowedProject:
    """What an emitter needs to know of its project."""

    workdir: bytes
    is_excluded: Callable[[bytes], bool]
    forget: Callable[[bytes], None]
    """What was said of the directories below one may be outdated; for the workdir, all of it."""
    dirty: DirtySet
    watch_nested: bool
    announce: bool


class _WatchLostError(Exception):
    """The watch can't go on; the message says why."""


class Follower:
    """Bring a project's dirty set up to date from an inotify queue of its own. All of it runs on one thread."""

    def __init__(self, project: FollowedProject) -> None:
        self._project = project
        self._fd = -1
        self._root = b""
        self._identity = (0, 0)
        self._ancestors: set[int] = set()
        self._tree = WatchTree()
        self._unwatched: dict[bytes, str] = {}
        self._with_git: set[int] = set()
        """Watch numbers of the directories below the root that hold a `.git`; some may be outdated."""
        self._backlog: deque[inotify.Event] = deque()
        self._is_walk_due = False
        self._walk_not_before = 0.0
        self._up_since = 0.0
        self._tried_at = 0.0
        self._retry_at = 0.0
        self._retry_delay_s = _RETRY_S
        self._overflow_count = 0
        self._mode: tuple[Literal["events", "scan"], str, float] = ("scan", "the watch is being set up", time.time())
        self._has_news = False

    @property
    def state(self) -> WatchState:
        """The state as of the last events read. May be read from any thread."""
        mode, why, since = self._mode
        return WatchState(mode, why, since, len(self._tree) + len(self._ancestors), self._overflow_count)

    @property
    def fd(self) -> int:
        """The queue to wait for; -1 when there is none."""
        return self._fd

    @property
    def wake_at(self) -> float | None:
        """When there is something to do even without events, by the monotonic clock; None for never."""
        if self._fd < 0:
            return self._retry_at
        return self._walk_not_before if self._is_walk_due else None

    def follow(self, *, is_asked: bool, is_forced: bool, refresh_reason: str | None) -> bool:
        """Handle what is queued now, and heal what can be healed.

        Args:
            is_asked: Somebody waits for the answer.
            is_forced: Try to heal now, whenever it was tried last.
            refresh_reason: Why the project is to be walked again; None when it is not.

        Returns:
            Whether every change before this call is covered by the dirty set.
        """
        try:
            if refresh_reason is not None:
                self._note_scan(refresh_reason)
                self._is_walk_due = True
            self._heal(is_asked=is_asked, is_forced=is_forced)
            if self._fd < 0:
                return False
            self._read_queue()
            self._walk_again_if_due(is_asked=is_asked or refresh_reason is not None)
            if is_asked:
                self._check_root()
                self._check_repositories()
            self._judge()
        except _WatchLostError as lost:
            self._fall_back(str(lost))
            return False
        except Exception as error:  # the engine loop of the watch: a fault here must not pass for "nothing changed"
            log.exception("Watching %r failed.", self._project.workdir)
            self._fall_back(f"the watch failed: {error!r}")
            return False
        return not self._unwatched

    def take_news(self) -> bool:
        """Say whether anything was noted since the last call."""
        has_news, self._has_news = self._has_news, False
        return has_news

    def close(self) -> None:
        """Close the queue, and with it all watches."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
        self._tree = WatchTree()
        self._ancestors = set()
        self._unwatched = {}
        self._with_git = set()
        self._backlog.clear()
        self._up_since = 0.0

    def _note(self, path: bytes) -> None:
        self._has_news = True
        self._project.dirty.add_path(path)

    def _note_tree(self, path: bytes) -> None:
        self._has_news = True
        self._project.dirty.add_tree(path)

    def _note_scan(self, reason: str) -> None:
        self._has_news = True
        self._project.dirty.need_scan(reason)

    # Setting up, falling back, healing.

    def _heal(self, *, is_asked: bool, is_forced: bool) -> None:
        """Set the watch up if it is down, and fill its holes: when due, or when asked and not within a second."""
        now = time.monotonic()
        is_due = is_forced or (is_asked and now >= self._tried_at + _RETRY_S)
        if self._fd < 0:
            if is_due or now >= self._retry_at:
                self._tried_at = now
                self._set_up()
        elif self._unwatched and is_due:
            self._tried_at = now
            for path in list(self._unwatched):
                if self._unwatched.pop(path, None) is None:
                    continue
                self._watch_below(path)
                if path in self._unwatched:
                    break  # it went to the end of the line; another is tried first the next time
                self._note_tree(path)

    def _set_up(self) -> None:
        try:
            self._root = os.path.realpath(self._project.workdir, strict=True)
            found = os.stat(self._root)
            if not stat.S_ISDIR(found.st_mode):
                raise _WatchLostError("it is not a directory")
            kind = find_type(self._root)
            if not announces_changes(kind):
                raise _WatchLostError(f"its file system ({os.fsdecode(kind)}) does not announce changes")
            self._identity = found.st_dev, found.st_ino
            self._fd = inotify.open_queue()
            self._watch_ancestors()
        except LookupError:
            raise _WatchLostError("the type of its file system can't be told") from None
        except OSError as error:
            raise _WatchLostError(f"the directory can't be watched: {error.strerror}") from None
        self._tree.begin_round()
        self._watch_below(b"")
        if b"" in self._unwatched:
            raise _WatchLostError(f"the directory can't be watched: {self._unwatched[b'']}")
        self._check_root()
        self._is_walk_due = False
        self._up_since = time.monotonic()

    def _watch_ancestors(self) -> None:
        above = self._root
        while above != b"/":
            above = os.path.dirname(above)
            if above != b"/":
                # One that can't be read is left to the look at the root in each barrier.
                with contextlib.suppress(PermissionError):
                    self._ancestors.add(inotify.add_watch(self._fd, above, _ANCESTOR_MASK))

    def _check_root(self) -> None:
        """Refuse to go on when the project's path no longer leads to the directory that is watched.

        The watch pins the inode, so its number can't have been given to another directory meanwhile.
        """
        try:
            found = os.stat(self._project.workdir)
        except OSError as error:
            raise _WatchLostError(f"the directory is gone: {error.strerror}") from None
        if (found.st_dev, found.st_ino) != self._identity:
            raise _WatchLostError("another directory is in its place")

    def _check_repositories(self) -> None:
        """Find the directories that became nested repositories or ceased to be, whatever their `.git` made it so."""
        for wd in list(self._with_git):
            directory = self._tree.at(wd)
            if directory is None:
                self._with_git.discard(wd)
            elif is_nested_repository(self._absolute(directory.path)) != directory.is_nested:
                self._enter(directory.path)

    def _fall_back(self, why: str) -> None:
        was_up_s = time.monotonic() - self._up_since if self._up_since else 0.0
        self.close()
        self._set_mode("scan", why)
        self._project.dirty.need_scan(why)
        if was_up_s > _RETRY_LIMIT_S:
            self._retry_delay_s = _RETRY_S
        self._retry_at = time.monotonic() + self._retry_delay_s
        self._retry_delay_s = min(2 * self._retry_delay_s, _RETRY_LIMIT_S)

    def _judge(self) -> None:
        """Say "events" if every directory is watched and "scan" if not."""
        if self._unwatched:
            why = f"{len(self._unwatched)} directories can't be watched: {next(iter(self._unwatched.values()))}"
            self._set_mode("scan", why)
        else:
            self._set_mode("events", "")

    def _set_mode(self, mode: Literal["events", "scan"], why: str) -> None:
        """Keep the mode and its reason; a new one calls for a scan."""
        if self._mode[:2] != (mode, why):
            self._mode = (mode, why, time.time())
            self._note_scan(why or "the watch began")

    # Events.

    def _read_queue(self) -> None:
        """Handle at least as many bytes as are queued now.

        A file operation queues its event before its system call returns, so this covers all that was done before.
        """
        left = inotify.queued_bytes(self._fd)
        self._handle_backlog()
        while left > 0:
            events, size = inotify.read_events(self._fd, _READ_BYTES)
            if not size:
                break
            left -= size
            self._backlog.extend(events)
            self._handle_backlog()

    def _handle_backlog(self) -> None:
        while self._backlog:
            self._handle(self._backlog.popleft())

    def _handle(self, event: inotify.Event) -> None:
        wd, mask, _, name = event
        if mask & inotify.Q_OVERFLOW:
            self._overflow_count += 1
            self._is_walk_due = True
            self._note_scan("events were lost")
            return
        directory = self._tree.at(wd)
        if directory is None:
            # A number that was given back just now, or an ancestor.
            if wd in self._ancestors and mask & (_SELF | inotify.UNMOUNT | inotify.IGNORED):
                raise _WatchLostError("a directory above it was moved or deleted")
        elif not name:
            self._handle_self(directory, mask)
        elif name == _GIT:
            if directory.path and mask & (_APPEARED | _DISAPPEARED) and not self._project.watch_nested:
                self._enter(directory.path)
        elif directory.is_nested:
            pass
        else:
            if name == _GITIGNORE:
                self._is_walk_due = True  # other directories may be excluded now
            if mask & inotify.ISDIR:
                self._handle_directory(directory.prefix + name, mask)
            else:
                self._note(directory.prefix + name)

    def _handle_self(self, directory: Directory, mask: int) -> None:
        if not directory.path:
            if mask & inotify.UNMOUNT:
                raise _WatchLostError("its volume was unmounted")
            if mask & (_SELF | inotify.IGNORED):
                raise _WatchLostError("the directory was moved or deleted")
        elif mask & inotify.IGNORED:
            self._note_tree(directory.path)
            self._leave(directory.path)

    def _handle_directory(self, path: bytes, mask: int) -> None:
        is_excluded = self._project.is_excluded(path)
        if mask & _DISAPPEARED:
            if self._leave(path) or not is_excluded:
                self._note_tree(path)
        elif not is_excluded:
            if mask & _APPEARED or self._tree.find(path) is None:
                self._enter(path)
            else:
                self._note_tree(path)

    def _enter(self, path: bytes) -> None:
        self._unwatched.pop(path, None)
        self._watch_below(path)
        self._note_tree(path)

    def _leave(self, path: bytes) -> bool:
        """Give back the watches at and below a path; say whether there were any."""
        gone = self._tree.drop(path)
        self._give_back(gone)
        self._project.forget(path)
        self._unwatched.pop(path, None)
        self._forget_holes(path + b"/")
        return bool(gone)

    def _forget_holes(self, prefix: bytes) -> None:
        for path in [path for path in self._unwatched if path.startswith(prefix)]:
            del self._unwatched[path]

    def _give_back(self, watches: list[int]) -> None:
        for count, wd in enumerate(watches, 1):
            with contextlib.suppress(OSError):  # EINVAL: the directory was deleted, and its watch with it
                inotify.remove_watch(self._fd, wd)
            if count % _REMOVALS_PER_READ == 0:
                self._backlog.extend(inotify.read_events(self._fd, _READ_BYTES)[0])

    # Walks.

    def _walk_again_if_due(self, *, is_asked: bool) -> None:
        """Find the directories whose events were lost, and forget those that are gone.

        Left until somebody asks or the last walk is long enough ago: during a long burst it would be in vain, and
        must not take more than a fifth of the time.
        """
        began = time.monotonic()
        if not self._is_walk_due or not (is_asked or began >= self._walk_not_before):
            return
        self._is_walk_due = False
        self._tree.begin_round()
        self._unwatched.clear()
        self._watch_below(b"")
        if self._tree.find(b"") is None:
            raise _WatchLostError("the directory is gone")
        self._give_back(self._tree.drop_unseen())
        self._note_scan("the project was walked again")
        ended = time.monotonic()
        self._walk_not_before = ended + 4 * (ended - began)
        self._handle_backlog()

    def _watch_below(self, top: bytes) -> None:
        """Watch a directory and all below it that is to be watched; what can't be is kept in `_unwatched`."""
        self._project.forget(top)
        pending = [top]
        while pending:
            path = pending.pop()
            try:
                directory = self._watch_one(path)
                if directory is not None:
                    pending.extend(self._list_below(directory))
            except OSError as error:
                if error.errno not in _VANISHED:  # a name that vanished has its event in the queue
                    self._unwatched[path] = error.strerror or str(error)

    def _watch_one(self, path: bytes) -> Directory | None:
        """Watch one directory; None for one of another volume, or that is not to be watched under this name."""
        if not self._tree.has_parent(path):
            return None  # the parent was replaced under the walk, which queued an event that leads here again
        absolute = self._absolute(path)
        if os.lstat(absolute).st_dev != self._identity[0]:
            return None
        wd = inotify.add_watch(self._fd, absolute, _DIRECTORY_MASK)
        holder = self._tree.at(wd)
        is_held = holder is not None and holder.path != path and self._leads_to(holder.path, wd)
        if is_held or wd in self._ancestors:
            if self._leads_to(path, wd):
                # A bind mount: events would come under one of the names only.
                self._unwatched[path] = "it is the same directory under two names"
            return None  # or the name led there over a link, put in a parent's place under the walk: as above
        self._give_back(self._tree.place(wd, path))
        return self._tree.at(wd)

    def _list_below(self, directory: Directory) -> list[bytes]:
        names = []
        has_git = False
        with os.scandir(self._absolute(directory.path)) as entries:
            for entry in entries:
                if entry.name == _GIT:
                    has_git = True
                elif entry.is_dir(follow_symlinks=False):
                    names.append(entry.name)
        directory.is_nested = False
        if has_git and directory.path and not self._project.watch_nested:
            self._with_git.add(directory.wd)
            directory.is_nested = is_nested_repository(self._absolute(directory.path))
        if directory.is_nested:
            # Only its ".git" matters from here on: when that goes, this is an ordinary directory again.
            inotify.add_watch(self._fd, self._absolute(directory.path), _NESTED_MASK)
            self._give_back(self._tree.drop_below(directory))
            self._forget_holes(directory.prefix)
            return []
        paths = [directory.prefix + name for name in names]
        return [path for path in paths if not self._project.is_excluded(path)]

    def _absolute(self, path: bytes) -> bytes:
        return os.path.join(self._root, path) if path else self._root

    def _leads_to(self, path: bytes, wd: int) -> bool:
        """Say whether a path leads to the directory of a watch number, and not over a link."""
        absolute = self._absolute(path)
        try:
            is_straight = os.path.realpath(absolute, strict=True) == absolute
            return is_straight and inotify.add_watch(self._fd, absolute, _DIRECTORY_MASK) == wd
        except OSError:
            return False
