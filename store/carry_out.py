"""Carry out what was planned: change the files, verify each one, and give an exact account.

Owns the order of the changes: what stands in the way, then what is put back, then what is removed, then the bits of
directories. The system calls belong to `store.apply`. Nothing here decides what is to be done.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from config.errors import CheckpointError
from store.capture import LeftOut, read_path
from store.entries import DIRECTORY, Entry, Node, Oid
from store.index import mode_of
from store.ledger import fingerprint_file, fingerprint_node
from store.pack import BLOB, hash_object
from store.pathname import list_above
from store.plan import LeftInPlace, Standing
from store.standings import NO_LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from store.apply import ProjectFiles
    from store.ledger import Fingerprint
    from store.objects import ObjectStore
    from store.project_store import ProjectStore
    from store.state import State


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
    for path in sorted(put_back):
        _write(store, files, steps[path], results)
    for path in sorted(removed - in_the_way):
        _remove(files, path, steps[path], results)
    _remove_left_directories(objects, files, target, results.removed)
    planned = {path for path in put_back.intersection(results.restored) if steps[path].standing.makes_directory}
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


def _write(store: ProjectStore, files: ProjectFiles, step: Step, results: Results) -> None:
    path, target = step.standing.path, step.standing.target
    if target is None or not _is_still(files, path, step, results):
        return
    content: bytes | None = None
    try:
        if target.is_directory:
            _make_directory(files, path, step)
        elif target.bits is not None and step.standing.differs_in_bits_only:
            files.set_bits(path, target.bits)
        else:
            content = store.objects.read_blob(target.entry.oid)
            if step.status is not None and stat.S_ISDIR(step.status.st_mode):
                files.remove_empty_tree(path)
            files.write(path, content, target.entry.mode, target.bits, replace=step.status is not None)
    except (OSError, CheckpointError) as error:
        results.failed.append(LeftInPlace(path, _explain(error)))
        return
    if target.is_directory:
        status = files.status(path)
        is_there = status is not None and stat.S_ISDIR(status.st_mode)
    else:
        is_there = _verify(store, path, target, content, results)
    if is_there:
        results.restored.append(path)
    else:
        results.failed.append(LeftInPlace(path, "it is not what was written"))


def _verify(store: ProjectStore, path: bytes, target: Node, content: bytes | None, results: Results) -> bool:
    """Tell whether a path holds what was put there, and keep its fingerprint."""
    full = os.path.join(store.project.root, path)
    there, wanted = fingerprint_file(full), fingerprint_node(store.objects, target, content)
    if there is None or there.sha256 != wanted.sha256:
        return False
    if target.bits is None and mode_of(os.lstat(full)) != target.entry.mode:
        return False
    if target.bits is not None and there.mode != wanted.mode:
        return False
    results.fingerprints[path] = there
    return True


def _make_directory(files: ProjectFiles, path: bytes, step: Step) -> None:
    """Make a directory, in the place of a file if one is there. Its bits are set when everything in it is done."""
    if step.status is not None and not stat.S_ISDIR(step.status.st_mode):
        files.remove(path)
    files.make_directory(path)


def _remove(files: ProjectFiles, path: bytes, step: Step, results: Results) -> None:
    if not _is_still(files, path, step, results):
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


def _is_still(files: ProjectFiles, path: bytes, step: Step, results: Results) -> bool:
    """Tell whether a path still holds what the safety checkpoint recorded; otherwise it is left in place."""
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
