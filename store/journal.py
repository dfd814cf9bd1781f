"""The journal of a rollback: written before the first file changes, gone after the last one.

Owns the file `journals/<hash>.json` and the refs that keep both states alive meanwhile. A journal that is found means
that a rollback was cut off; what becomes of it is decided by `store.restore`.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from store.entries import Oid
from store.errors import CorruptFileError
from store.files import read_json_object, to_path, to_seconds, write_json
from store.layout import journal_refs
from store.ledger import format_written, parse_written
from store.plan import Mode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from store.layout import Layout
    from store.ledger import Written
    from store.project import Project
    from store.project_store import ProjectStore


@dataclass(frozen=True, slots=True)
class Journal:
    """Say what a rollback is about to do, and what it takes to undo it."""

    target: Oid
    """The checkpoint that is put back."""
    safety: Oid
    """The checkpoint of the state before."""
    mode: Mode
    paths: tuple[bytes, ...]
    """Every path that is written or removed."""
    began_at: float
    """Seconds since the epoch."""
    token: str
    """What the names of files written aside end in."""
    written: Mapping[bytes, Written | None]
    """What the ledger said of each of the paths before; nothing where it said nothing."""


def begin(store: ProjectStore, journal: Journal) -> None:
    """Write the journal, and have it on disk with the state before. The caller holds the lock.

    Raises:
        GitFailedError: The store can't be written.
    """
    for name, oid in zip(journal_refs(store.project.hash), (journal.target, journal.safety), strict=True):
        store.objects.move_ref(name, old=store.objects.read_ref(name), new=oid)
    raw = {
        "v": 1,
        "target": journal.target.hex(),
        "safety": journal.safety.hex(),
        "mode": journal.mode.value,
        "began_at": journal.began_at,
        "token": journal.token,
        "paths": {
            os.fsdecode(path): None if (written := journal.written.get(path)) is None else format_written(written)
            for path in journal.paths
        },
    }
    store.objects.flush()
    write_json(store.layout.journal_file(store.project.hash), raw, flush=True)


def end(store: ProjectStore) -> None:
    """Remove the journal: the rollback is over. The caller holds the lock."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(store.layout.journal_file(store.project.hash))
    for name in journal_refs(store.project.hash):
        store.objects.delete_ref(name)


def find_journal(layout: Layout, project: Project) -> Journal | None:
    """Return the journal of a rollback that was cut off; nothing when there is none.

    Raises:
        CorruptFileError: It can't be understood.
    """
    path = layout.journal_file(project.hash)
    raw = read_json_object(path)
    if raw is None:
        return None
    try:
        return _parse(raw)
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFileError(
            f"The journal {path} can't be understood.",
            hint="The newest checkpoint is the state before the rollback; remove the file to go on without it.",
        ) from error


def _parse(raw: Mapping[str, object]) -> Journal:
    listed = raw["paths"]
    if not isinstance(listed, dict):
        raise TypeError(listed)
    written: dict[bytes, Written | None] = {}
    for name, entry in listed.items():
        path = to_path(name)
        if path is None or path.startswith(b"/") or b".." in path.split(b"/"):
            raise ValueError(name)
        written[path] = parse_written(entry)
        if entry is not None and written[path] is None:
            raise ValueError(entry)
    token = str(raw["token"])
    if not token.isalnum():
        raise ValueError(token)
    return Journal(
        _parse_oid(raw["target"]),
        _parse_oid(raw["safety"]),
        Mode(str(raw["mode"])),
        tuple(written),
        to_seconds(raw.get("began_at")) or 0.0,
        token,
        written,
    )


def _parse_oid(value: object) -> Oid:
    oid = bytes.fromhex(str(value))
    if len(oid) != 20:
        raise ValueError(value)
    return Oid(oid)
