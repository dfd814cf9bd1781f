"""The baseline: the tree that a project's files make up now, brought up to date at the cost of what changed.

Owns the fast road, which looks only at paths known to be dirty. Where those can't be known, `store.scan` walks.
"""

from __future__ import annotations

import contextlib
import os
import stat
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from types import MappingProxyType
from typing import TYPE_CHECKING

from store.capture import LeftOut, Reason, Walk, capture_path, find_device
from store.entries import MODE_EXECUTABLE, MODE_FILE
from store.errors import TooManyFilesError
from store.nested import is_nested_repository
from store.pack import PACKED_FILES
from store.pathname import list_above, parent_of
from store.permissions import Permissions
from store.state import State
from store.tree import Changes, compare, flatten, look_up, splice

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from store.capture import Scope
    from store.entries import Oid
    from store.objects import ObjectStore
    from store.patterns import Patterns


@dataclass(frozen=True, slots=True)
class Baseline:
    """Hold the state of a project's files as a tree of the store."""

    tree: Oid
    file_count: int
    """How many files and links are captured."""
    left_out: Mapping[bytes, Reason] = field(default_factory=lambda: MappingProxyType({}))
    """What is not captured, and why; ignored files excepted."""
    permissions: Permissions = field(default_factory=Permissions)
    """The permission bits of what is captured."""
    empty_directories: frozenset[bytes] = frozenset()
    """Directories that are not ignored and in which nothing counts."""
    older_than_pins: frozenset[bytes] = frozenset()
    """Ignored files that are captured since a tool named them, and that existed before it did."""

    patterns: Patterns | None = None
    """What decided which files count, the project's own `.gitignore` files apart."""
    made_by_tools: frozenset[bytes] = frozenset()
    """Ignored files that are captured since a tool named them, and that it made."""
    linked: frozenset[bytes] = frozenset()
    """Files with more than one name: a write may come by another one."""

    @property
    def state(self) -> State:
        """Return what a checkpoint of it holds."""
        return State(self.tree, self.permissions, self.empty_directories)

    @property
    def nested(self) -> list[bytes]:
        """Return the nested repositories that are recorded and not captured, in order."""
        return sorted(path for path, reason in self.left_out.items() if reason is Reason.NESTED)


class _Place(Enum):
    """Say what a directory is to the paths below it."""

    OPEN = auto()
    GONE = auto()
    IGNORED = auto()
    NESTED = auto()
    MOUNT = auto()


def refresh(
    objects: ObjectStore, scope: Scope, baseline: Baseline, paths: Iterable[bytes], trees: Iterable[bytes]
) -> Baseline:
    """Return the baseline after some paths and directories changed, whatever they are now.

    Args:
        objects: The store.
        scope: What counts.
        baseline: The state before.
        paths: Everything of which something may have changed.
        trees: Directories in which anything may have changed.

    Raises:
        ObjectMissingError: A tree of the baseline is no longer in the store.
        TooManyFilesError: More files are dirty than the whole project may have.
        DeadlinePassedError: The time is over.
    """
    dirty, work = sorted(paths), _Refresh(objects, scope, baseline)
    with objects.in_one_pack() if len(dirty) >= PACKED_FILES else nullcontext():
        for directory in _outermost(trees):
            work.look_at_directory(directory)
        for path in dirty:
            work.look_at_path(path)
        work.left_out.update(scope.list_withheld())
        tree = splice(objects, baseline.tree, work.changes)
    count = baseline.file_count
    for difference in compare(objects, baseline.tree, tree):
        count += _is_file(difference.new) - _is_file(difference.old)
    return with_scope(work.finish(tree, count), scope)


def with_scope(baseline: Baseline, scope: Scope) -> Baseline:
    """Return a baseline that tells by what rules it was made."""
    return replace(
        baseline,
        older_than_pins=scope.list_older_than_pins(),
        patterns=scope.patterns,
        made_by_tools=scope.list_made_by_tools(),
    )


def too_many_files(root: bytes, max_files: int, seen: Collection[bytes] = ()) -> TooManyFilesError:
    """Return the error for a project that holds more files than the settings allow.

    Args:
        root: The workdir.
        max_files: How many are allowed.
        seen: Those that were met when the look was given up.
    """
    error = TooManyFilesError(
        f"{os.fsdecode(root)} has more than {max_files} files to capture.",
        hint="Exclude folders with `exclude`, or raise `max_files`.",
    )
    error.seen = seen
    return error


class _Refresh:
    """Collect what became of dirty paths."""

    def __init__(self, objects: ObjectStore, scope: Scope, baseline: Baseline) -> None:
        self.changes: Changes = {}
        self.left_out = dict(baseline.left_out)
        self.linked = set(baseline.linked)
        self._objects = objects
        self._scope = scope
        self._baseline = baseline
        self._places: dict[bytes, _Place] = {b"": _Place.OPEN}
        self._modes: dict[bytes, int] = {}
        """The mode of each captured file and each directory looked at, as `lstat` gives it."""
        self._empty: set[bytes] = set()
        self._walked: set[bytes] = set()
        self._looked_at: set[bytes] = set()
        self._stored: set[bytes] = set()
        self._device = find_device(scope.root)

    def look_at_path(self, path: bytes) -> None:
        """Find out what one path holds now."""
        self._looked_at.add(path)
        if self._is_walked(path):
            if not self._scope.is_pinned(path):
                return
        else:
            self.left_out.pop(path, None)
            self.linked.discard(path)
        match self._place_of(parent_of(path)):
            case _Place.NESTED:
                self.look_at_directory(
                    next(above for above in (path, *list_above(path)) if self._place_of(above) is _Place.NESTED)
                )
            case _Place.GONE:
                self.changes[path] = None
            case _Place.IGNORED | _Place.MOUNT if not self._scope.is_pinned(path):
                self.changes[path] = None
            case _:
                self._look_at_file(path)

    def look_at_directory(self, directory: bytes) -> None:
        """Find out what everything below one path holds now."""
        self._walked.add(directory)
        inside = directory + b"/"
        for path in [path for path in self.left_out if path == directory or path.startswith(inside)]:
            del self.left_out[path]
        self.linked -= {path for path in self.linked if path == directory or path.startswith(inside)}
        before = look_up(self._objects, self._baseline.tree, directory)
        if before is not None and before.is_tree:
            self.changes.update(dict.fromkeys(flatten(self._objects, before.oid, directory + b"/")))
        elif before is not None:
            self.changes[directory] = None
        match self._place_of(directory):
            case _Place.GONE:
                if self._place_of(parent_of(directory)) is _Place.OPEN:
                    self._look_at_file(directory)
            case _Place.OPEN | _Place.NESTED:
                self._walk(directory)
        for path in self._scope.pinned:
            if path.startswith(directory + b"/"):
                self._look_at_file(path)

    def _walk(self, directory: bytes) -> None:
        walk = Walk(self._scope)
        for path, _ in walk.files(directory):
            self._store(path)
        self.changes.update(walk.nested)
        self.left_out.update(walk.left_out)
        self._modes |= walk.modes
        self._empty |= walk.empty

    def _look_at_file(self, path: bytes) -> None:
        self._looked_at.add(path)
        full = os.path.join(self._scope.root, path)
        if os.path.isdir(full) and not os.path.islink(full):
            if path not in self._walked:
                self.look_at_directory(path)
        elif self._scope.is_captured(path):
            self._store(path)
        else:
            self.changes[path] = None

    def _store(self, path: bytes) -> None:
        found = capture_path(self._objects, self._scope.root, path, self._scope.limits)
        if found is not None and _has_other_names(os.path.join(self._scope.root, path)):
            self.linked.add(path)
        if found is None or isinstance(found, LeftOut):
            if found is not None:
                self.left_out[path] = found.reason
            self.changes[path] = None
            return
        self.changes[path] = found.entry
        self._stored.add(path)
        if len(self._stored) > self._scope.limits.max_files:
            raise too_many_files(self._scope.root, self._scope.limits.max_files, self._stored)
        if found.bits is not None:
            self._modes[path] = stat.S_IFREG | found.bits

    def finish(self, tree: Oid, file_count: int) -> Baseline:
        """Return the baseline of a tree, with what git can't hold."""
        before = self._baseline
        empty = self._empty | {path for path in before.empty_directories if not self._is_walked(path)}
        doubtful = self._list_doubtful()
        for directory in doubtful:
            if not self._has_directory(tree, directory) and self._is_empty_now(directory):
                empty.add(directory)
            else:
                empty.discard(directory)
        after = State(tree, None, frozenset(empty))
        for directory in doubtful:
            is_known = not self._is_walked(directory) and before.state.has_directory(self._objects, directory)
            if not is_known and directory not in self._modes and after.has_directory(self._objects, directory):
                self._note_mode(directory)  # one that is known would have been walked, had its bits changed
        found = {
            path: mode
            for path, mode in self._modes.items()
            if (after.has_directory(self._objects, path) if stat.S_ISDIR(mode) else self._is_kept(path))
        }
        gone = {*self.changes, *(path for path in doubtful if not after.has_directory(self._objects, path))}
        return replace(
            before,
            tree=tree,
            file_count=file_count,
            left_out=MappingProxyType(self.left_out),
            linked=frozenset(self.linked),
            permissions=before.permissions.forget_below(self._walked).update(found, gone),
            empty_directories=frozenset(empty),
        )

    def _list_doubtful(self) -> list[bytes]:
        """Return the directories that may have come, gone, been filled or emptied: those above what was looked at."""
        above = {each for path in self._looked_at | self._walked for each in (path, *list_above(path))}
        return sorted(path for path in above if self.changes.get(path) is None)

    def _is_walked(self, path: bytes) -> bool:
        return bool(self._walked) and any(above in self._walked for above in (b"", path, *list_above(path)))

    def _has_directory(self, tree: Oid, path: bytes) -> bool:
        entry = look_up(self._objects, tree, path)
        return entry is not None and entry.is_tree

    def _is_kept(self, path: bytes) -> bool:
        """Tell whether a path is a file of the new tree that has bits."""
        entry = self.changes.get(path)
        return entry is not None and entry.mode in (MODE_FILE, MODE_EXECUTABLE)

    def _is_empty_now(self, directory: bytes) -> bool:
        """Tell whether a path is a directory that counts and in which nothing does."""
        return self._place_of(directory) is _Place.OPEN and Walk(self._scope).is_empty(directory)

    def _note_mode(self, directory: bytes) -> None:
        with contextlib.suppress(OSError):
            self._modes[directory] = os.lstat(os.path.join(self._scope.root, directory)).st_mode

    def _place_of(self, directory: bytes) -> _Place:
        """Return what a directory is to the paths below it; each one is looked at once."""
        known = self._places.get(directory)
        if known is None:
            above = self._place_of(parent_of(directory))
            known = self._look_at_place(directory) if above is _Place.OPEN else above
            self._places[directory] = known
        return known

    def _look_at_place(self, directory: bytes) -> _Place:
        full = os.path.join(self._scope.root, directory)
        try:
            status = os.lstat(full)
        except OSError:
            return _Place.GONE
        if not stat.S_ISDIR(status.st_mode):
            return _Place.GONE
        if status.st_dev != self._device:
            self.left_out[directory] = Reason.MOUNT
            return _Place.MOUNT
        if self._scope.rules.is_ignored(directory, is_dir=True):
            return _Place.IGNORED
        if not self._scope.limits.capture_nested and is_nested_repository(full):
            return _Place.NESTED
        return _Place.OPEN


def _has_other_names(full: bytes) -> bool:
    try:
        status = os.lstat(full)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_nlink > 1


def _is_file(entry: object) -> int:
    return 0 if entry is None else 1


def _outermost(trees: Iterable[bytes]) -> list[bytes]:
    """Return the directories that lie in no other one of the set, in order."""
    given = frozenset(trees)
    return [tree for tree in sorted(given) if not any(above in given for above in list_above(tree))]
