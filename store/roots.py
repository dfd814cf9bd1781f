"""Everything that must stay: what refs, journals and open calls name.

Owns the list of roots of a collection. It reads the files of refs itself, so that one that is damaged hides no other.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from store.entries import Oid
from store.errors import CorruptFileError
from store.files import read_file, read_json_object, to_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from store.layout import Layout

_OID = re.compile(r"[0-9a-f]{40}")
_KEPT_CALL_S = 86400.0
"""The state before a call that is at work for longer may be lost."""
_PROJECT = re.compile(r"[0-9a-f]{16}")


@dataclass(slots=True)
class Roots:
    """Hold what must stay, by who names it."""

    named: dict[str, Oid] = field(default_factory=dict)
    """By ref, or by the file that names it."""
    damaged: dict[str, str] = field(default_factory=dict)
    """Refs that can't be read, each with why."""


def read_roots(layout: Layout, *, now: float) -> Roots:
    """Return everything that must stay.

    Args:
        layout: The store.
        now: Seconds since the epoch; calls that began long ago keep nothing alive.
    """
    roots = Roots()
    _read_packed_refs(layout, roots)
    _read_loose_refs(layout, roots)
    for path in _list_json(os.path.join(layout.store, "journals")):
        found = _OID.findall((read_file(path) or b"").decode("ascii", "replace"))
        roots.named |= {f"{path}#{number}": _to_oid(oid) for number, oid in enumerate(found)}
    for path in _list_json(layout.sessions_directory):
        named = _list_states(_read(path), now)
        roots.named |= {f"{path}#{number}": _to_oid(oid) for number, oid in enumerate(named)}
    return roots


def list_remembered(layout: Layout, project: str) -> list[Oid]:
    """Return the checkpoints of a project that are named elsewhere than in its history, which can't be read."""
    found = {name for name in _read(os.path.join(layout.store, "statistics", f"{project}.json")) if _is_oid(name)}
    for path in _list_json(layout.sessions_directory):
        turns = _read(path).get("turns")
        for turn in turns if isinstance(turns, list) else ():
            served = turn.get("served") if isinstance(turn, dict) else None
            if isinstance(served, dict) and _is_oid(oid := served.get(project)):
                found.add(str(oid))
    return [_to_oid(oid) for oid in sorted(found)]


def project_of(ref: str) -> str | None:
    """Return the project that a ref belongs to; nothing for one of another program."""
    return next((part for part in ref.split("/")[2:] if _PROJECT.fullmatch(part)), None)


def list_refs_of(layout: Layout, project: str) -> list[str]:
    """Return every ref of a project, damaged ones too."""
    roots = Roots()
    _read_packed_refs(layout, roots)
    _read_loose_refs(layout, roots)
    return sorted(name for name in {*roots.named, *roots.damaged} if project_of(name) == project)


def _read_packed_refs(layout: Layout, roots: Roots) -> None:
    """Source: gitrepository-layout(5), `packed-refs`."""
    for line in (read_file(os.path.join(layout.store, "packed-refs")) or b"").decode("utf-8", "replace").splitlines():
        oid, _, name = line.partition(" ")
        if name.startswith("refs/") and _is_oid(oid):
            roots.named[name] = _to_oid(oid)


def _read_loose_refs(layout: Layout, roots: Roots) -> None:
    for folder, _, names in os.walk(os.path.join(layout.store, "refs")):
        for file_name in names:
            if file_name.endswith(".lock") or file_name.startswith("."):
                continue
            path = os.path.join(folder, file_name)
            name = os.path.relpath(path, layout.store)
            try:
                content = (read_file(path) or b"").decode("ascii", "replace").strip()
            except OSError as error:
                roots.damaged[name] = f"it can't be read: {error.strerror}"
                continue
            if _is_oid(content):
                roots.named[name] = _to_oid(content)
            elif not content.startswith("ref: "):
                roots.named.pop(name, None)
                roots.damaged[name] = "it holds no id"


def _list_states(session: dict[str, object], now: float) -> Iterator[str]:
    """Yield the states that the open calls of a session began with."""
    calls = session.get("open_calls")
    for call in calls.values() if isinstance(calls, dict) else ():
        if not isinstance(call, dict) or now - (to_seconds(call.get("began_at")) or 0.0) >= _KEPT_CALL_S:
            continue
        states = call.get("states")
        for oid in states.values() if isinstance(states, dict) else ():
            if _is_oid(oid):
                yield str(oid)


def _list_json(directory: str) -> list[str]:
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return []
    return [os.path.join(directory, name) for name in names if name.endswith(".json")]


def _read(path: str) -> dict[str, object]:
    try:
        return read_json_object(path) or {}
    except CorruptFileError:
        return {}


def _is_oid(value: object) -> bool:
    return isinstance(value, str) and _OID.fullmatch(value) is not None


def _to_oid(text: str) -> Oid:
    return Oid(bytes.fromhex(text))
