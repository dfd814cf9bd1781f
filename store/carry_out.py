"""Carry out what was planned: change the files, verify each one, and give an exact account.

Owns the order of the changes: what stands in the way, then what is put back, then what is removed, then the bits of
directories. Many files are put back together. The system calls belong to `store.apply`. Nothing here decides what is to
be done.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from config.errors import CheckpointError
from store.capture import LeftOut, read_path
from store.entries import DIRECTORY, Entry, Node, Oid
from store.files import flush_file_system
from store.index import mode_of
from store.ledger import fingerprint_file, fingerprint_node
from store.pack import BLOB, hash_object
from store.pathname import list_above, parent_of
from store.plan import LeftInPlace, Standing
from store.standings import NO_LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from store.apply import ProjectFiles
    from store.ledger import Fingerprint
    from store.objects import ObjectStore
    from store.project_store import ProjectStore
    from store.state import State

_TOGETHER_FILES = 200
"""From so many files on, writing them together costs less than one by one."""
_ASIDE_FILES = 20_000
"""How many files are aside at once."""
_NOT_AS_WRITTEN = "it is not what was written"


@dataclass(frozen=True, slots=True)
class Step:
    """Hold what one path needs to be carried out."""

    standing: Standing
    status: os.stat_result | None
    """What stood there when it was recorded."""


@dataclass(slots=True)
class Results:
    """Say what was done and what was not, path by path."""

    restored: list[bytes] = field(default_factory=list)
    removed: list[bytes] = field(default_factory=list)
    failed: list[LeftInPlace] = field(default_factory=list)
    fingerprints: dict[bytes, Fingerprint] = field(default_factory=dict)
    """What was found when a file that was put back was verified."""


def look(
    root: bytes, files: ProjectFiles, path: bytes, *, with_directories: bool
) -> tuple[Node | LeftOut | None, os.stat_result | None]:
    """Return what stands at a path now, and its stat data; nothing is stored.

    Args:
        root: The project.
        files: The same.
        path: Relative to it.
        with_directories: Whether a directory counts as something.
    """
    status = files.status(path)
    if status is None:
        return None, None
    if stat.S_ISDIR(status.st_mode) and with_directories:
        return Node(DIRECTORY, stat.S_IMODE(status.st_mode)), status
    found = read_path(root, path, NO_LIMITS)
    if found is None or isinstance(found, LeftOut):
        return found, status
    mode, bits, content = found
    return Node(Entry(mode, Oid(hash_object(BLOB, content))), bits), status


def carry_out(
    store: ProjectStore,
    files: ProjectFiles,
    origin: State,
    target: State,
    steps: Mapping[bytes, Step],
    results: Results,
) -> None:
    """Change the files.

    Args:
        store: The project's part of the store.
        files: The project.
        origin: What its files were before, so that it is known which directories are new.
        target: What the checkpoint holds.
        steps: What every path needs that is put back or removed.
        results: The account, which is added to; what an earlier try did may stand in it.
    """
    objects = store.objects
    put_back = {path for path, step in steps.items() if step.standing.target is not None}
    removed = steps.keys() - put_back
    in_the_way = _find_in_the_way(put_back, removed)
    for path in sorted(in_the_way):
        _remove(files, path, steps[path], results)
    _remove_left_directories(objects, files, target, results.removed)
    made = sorted(path for path in put_back if steps[path].standing.makes_directory)
    for path in made:
        _write(store, files, steps[path], results)
    _write_all(store, files, [steps[path] for path in sorted(put_back.difference(made))], results)
    for path in sorted(removed - in_the_way):
        _remove(files, path, steps[path], results)
    _remove_left_directories(objects, files, target, results.removed)
    planned = set(made).intersection(results.restored)
    _set_directory_bits(files, target, planned | _list_new_directories(objects, origin, results.restored), results)


def _find_in_the_way(put_back: set[bytes], removed: Iterable[bytes]) -> set[bytes]:
    """Return what is removed where a file or directory of the checkpoint has to go."""
    above_written = {above for path in put_back for above in list_above(path)}
    return {path for path in removed if path in above_written or any(above in put_back for above in list_above(path))}


def _list_new_directories(objects: ObjectStore, origin: State, restored: Iterable[bytes]) -> set[bytes]:
    """Return the directories above what was put back that were not there before."""
    above = {each for path in restored for each in list_above(path)}
    return {path for path in above if not origin.has_directory(objects, path)}


def _set_directory_bits(files: ProjectFiles, target: State, directories: set[bytes], results: Results) -> None:
    """Give directories the bits that the checkpoint has for them, the deepest first."""
    if target.permissions is None:
        return
    for path in sorted(directories, key=len, reverse=True):
        status, bits = files.status(path), target.permissions.of_directory(path)
        if status is None or stat.S_IMODE(status.st_mode) == bits:
            continue
        try:
            files.set_bits(path, bits)
        except OSError as error:
            results.failed.append(LeftInPlace(path, _explain(error)))
            results.restored = [each for each in results.restored if each != path]


def _write_all(store: ProjectStore, files: ProjectFiles, steps: list[Step], results: Results) -> None:
    """Put files and links back, in whatever order; the directories that are put back are there."""
    if len(steps) < _TOGETHER_FILES:
        for step in steps:
            _write(store, files, step, results)
        return
    ordered = sorted(steps, key=_place)
    for start in range(0, len(ordered), _ASIDE_FILES):
        _write_together(store, files, ordered[start : start + _ASIDE_FILES], results)


def _place(step: Step) -> tuple[bytes, bytes]:
    return parent_of(step.standing.path), step.standing.path


def _write_together(store: ProjectStore, files: ProjectFiles, steps: list[Step], results: Results) -> None:
    """Put many files back: all are written aside and flushed before the first one gets its name.

    ext4 makes a file slowly where others were just removed, and flushes each file alone that replaces another, unless
    it was flushed before. What can't be written aside, on a disk that is nearly full, is tried once more at the end.
    """
    asides, again = list[_Aside](), list[Step]()
    for number, step in enumerate(steps):
        if _changes_bits_only(step):
            _write(store, files, step, results)
        elif _is_still(files, step, results):
            try:
                asides.append(_write_aside(store, files, step, number))
            except (OSError, CheckpointError):
                again.append(step)
    flush_file_system(os.fsdecode(store.project.root))
    for aside in asides:
        _put_in_place(store, files, aside, results)
    for step in again:
        _write(store, files, step, results)


@dataclass(frozen=True, slots=True)
class _Aside:
    """Hold what is known of a file written aside."""

    step: Step
    number: int
    wanted: Fingerprint


def _write(store: ProjectStore, files: ProjectFiles, step: Step, results: Results) -> None:
    """Put one path back."""
    path, target = step.standing.path, step.standing.target
    if target is None or not _is_still(files, step, results):
        return
    try:
        if target.is_directory:
            _make_directory(files, path, step)
        elif target.bits is not None and _changes_bits_only(step):
            files.set_bits(path, target.bits)
            _verify(store, step, fingerprint_node(store.objects, target), results)
            return
        else:
            _put_in_place(store, files, _write_aside(store, files, step, 0), results)
            return
    except (OSError, CheckpointError) as error:
        results.failed.append(LeftInPlace(path, _explain(error)))
        return
    status = files.status(path)
    if status is not None and stat.S_ISDIR(status.st_mode):
        results.restored.append(path)
    else:
        results.failed.append(LeftInPlace(path, _NOT_AS_WRITTEN))


def _changes_bits_only(step: Step) -> bool:
    target = step.standing.target
    return target is not None and target.bits is not None and step.standing.differs_in_bits_only


def _write_aside(store: ProjectStore, files: ProjectFiles, step: Step, number: int) -> _Aside:
    """Write aside what is put back.

    Raises:
        OSError: It can't be written.
        CheckpointError: It is not in the store.
    """
    target = step.standing.target
    assert target is not None  # noqa: S101 - only what is put back comes here
    content = store.objects.read_blob(target.entry.oid)
    files.write_aside(step.standing.path, content, target.entry.mode, target.bits, number=number)
    return _Aside(step, number, fingerprint_node(store.objects, target, content))


def _put_in_place(store: ProjectStore, files: ProjectFiles, aside: _Aside, results: Results) -> None:
    """Give what was written aside its name, and verify it."""
    step, path = aside.step, aside.step.standing.path
    if not _is_still(files, step, results):
        files.drop_aside(path, aside.number)
        return
    try:
        if step.status is not None and stat.S_ISDIR(step.status.st_mode):
            files.remove_empty_tree(path)
        files.put_in_place(path, number=aside.number, replace=step.status is not None)
    except OSError as error:
        results.failed.append(LeftInPlace(path, _explain(error)))
        return
    _verify(store, step, aside.wanted, results)


def _verify(store: ProjectStore, step: Step, wanted: Fingerprint, results: Results) -> None:
    """Take note whether a path holds what was put there, and of its fingerprint."""
    path, target = step.standing.path, step.standing.target
    full = os.path.join(store.project.root, path)
    there = fingerprint_file(full)
    if there is not None and target is not None and there.sha256 == wanted.sha256:
        is_mode_right = there.mode == wanted.mode if target.bits is not None else _mode_at(full) == target.entry.mode
        if is_mode_right:
            results.restored.append(path)
            results.fingerprints[path] = there
            return
    results.failed.append(LeftInPlace(path, _NOT_AS_WRITTEN))


def _mode_at(full: bytes) -> bytes | None:
    try:
        return mode_of(os.lstat(full))
    except OSError:
        return None


def _make_directory(files: ProjectFiles, path: bytes, step: Step) -> None:
    """Make a directory, in the place of a file if one is there. Its bits are set when everything in it is done."""
    if step.status is not None and not stat.S_ISDIR(step.status.st_mode):
        files.remove(path)
    files.make_directory(path)


def _remove(files: ProjectFiles, path: bytes, step: Step, results: Results) -> None:
    if not _is_still(files, step, results):
        return
    try:
        if step.status is not None and stat.S_ISDIR(step.status.st_mode):
            if not files.remove_directory(path):
                results.failed.append(LeftInPlace(path, "it is not empty"))
                return
        else:
            files.remove(path)
    except OSError as error:
        results.failed.append(LeftInPlace(path, _explain(error)))
        return
    results.removed.append(path)


def _is_still(files: ProjectFiles, step: Step, results: Results) -> bool:
    """Tell whether a path still holds what the safety checkpoint recorded; otherwise it is left in place."""
    path = step.standing.path
    now, then = files.status(path), step.status
    if now is None or stat.S_ISDIR(now.st_mode):
        return True
    if then is not None and (now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns) == (
        then.st_ino,
        then.st_size,
        then.st_mtime_ns,
        then.st_ctime_ns,
    ):
        return True
    results.failed.append(LeftInPlace(path, "it changed meanwhile"))
    return False


def _remove_left_directories(
    objects: ObjectStore, files: ProjectFiles, target: State, removed: Iterable[bytes]
) -> None:
    """Remove the directories that removed files left empty and that the checkpoint does not have."""
    for directory in sorted({above for path in removed for above in list_above(path)}, key=len, reverse=True):
        if not target.has_directory(objects, directory):
            files.remove_directory(directory)


def _explain(error: OSError | CheckpointError) -> str:
    """Return why something failed, in a few words."""
    if isinstance(error, CheckpointError):
        return error.message
    return error.strerror or str(error)
