"""Sessions across processes: the same turn is known to the service, to a command without it, and after a restart.

Owns the file `sessions.json`. What an event means belongs to `watcher.turns`.
"""

from __future__ import annotations

import os
import threading
from types import MappingProxyType
from typing import TYPE_CHECKING

from store.errors import CorruptFileError
from store.files import read_json_object, write_json
from store.layout import ProjectHash
from watcher.turns import OpenCall, Session, Turn

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEPT_SESSIONS = 100
_KEPT_S = 7 * 86400.0
"""A session that was silent for longer is forgotten."""


class Sessions:
    """Hold every known session, and follow what other processes write.

    Whoever changes one holds the store's lock.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._sessions: dict[str, Session] = {}
        self._guard = threading.Lock()

    def find(self, name: str) -> Session | None:
        """Return a session as it is on disk; this alone needs no lock of the store."""
        with self._guard:
            self._follow()
            return self._sessions.get(name)

    def find_latest(self, project: ProjectHash) -> Session | None:
        """Return the session that last changed a project."""
        with self._guard:
            self._follow()
            touching = [each for each in self._sessions.values() if any(project in turn.served for turn in each.turns)]
            return max(touching, key=lambda each: each.last_event, default=None)

    def keep(self, name: str, session: Session) -> None:
        """Remember a session; nothing is written when only the time of its last event moved a little."""
        with self._guard:
            self._follow()
            before = self._sessions.get(name)
            self._sessions[name] = session
            if before is None or _has_news(before, session):
                self._save(session.last_event)

    def forget(self, name: str, *, now: float) -> None:
        """Drop a session that ended."""
        with self._guard:
            self._follow()
            if self._sessions.pop(name, None) is not None:
                self._save(now)

    def _follow(self) -> None:
        """Read the file again if another process replaced it; one that can't be understood is as good as none."""
        signature = _sign(self._path)
        if signature == self._seen:
            return
        try:
            raw = read_json_object(self._path) or {}
        except CorruptFileError:
            raw = {}
        listed = raw.get("sessions")
        self._sessions = {
            name: _parse(entry)
            for name, entry in (listed if isinstance(listed, dict) else {}).items()
            if isinstance(entry, dict)
        }
        self._seen = signature

    def _save(self, now: float) -> None:
        newest = sorted(self._sessions.items(), key=lambda item: item[1].last_event)[-_KEPT_SESSIONS:]
        self._sessions = {name: each for name, each in newest if now - each.last_event <= _KEPT_S}
        write_json(self._path, {"v": 1, "sessions": {name: _format(each) for name, each in self._sessions.items()}})
        self._seen = _sign(self._path)


def _has_news(before: Session, after: Session) -> bool:
    same_but_for_time = _format(before) | {"last_event": 0} == _format(after) | {"last_event": 0}
    return not same_but_for_time or after.last_event - before.last_event > 10


def _sign(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _format(session: Session) -> dict[str, object]:
    return {
        "turns": [
            {"name": turn.name, "served": {str(project): oid for project, oid in turn.served.items()}}
            for turn in session.turns
        ],
        "last_event": session.last_event,
        "is_turn_over": session.is_turn_over,
        "announces_turns": session.announces_turns,
        "checkpoints": session.checkpoints,
        "open_calls": {
            name: {
                "trees": {str(project): tree for project, tree in opened.trees.items()},
                "turn": opened.turn,
                "tool": opened.tool,
            }
            for name, opened in session.open_calls.items()
        },
    }


def _parse(raw: Mapping[str, object]) -> Session:
    """Return the session in a JSON object; what is damaged in it is as if it had never been said."""
    turns, calls, last_event = raw.get("turns"), raw.get("open_calls"), raw.get("last_event")
    checkpoints = raw.get("checkpoints")
    return Session(
        turns=tuple(_parse_turn(turn) for turn in turns if isinstance(turn, dict)) if isinstance(turns, list) else (),
        last_event=float(last_event) if isinstance(last_event, (int, float)) else 0.0,
        is_turn_over=raw.get("is_turn_over") is True,
        announces_turns=raw.get("announces_turns") is True,
        checkpoints=checkpoints if isinstance(checkpoints, bool) else None,
        open_calls=MappingProxyType(
            {name: _parse_call(call) for name, call in calls.items() if isinstance(call, dict)}
            if isinstance(calls, dict)
            else {}
        ),
    )


def _parse_turn(raw: Mapping[str, object]) -> Turn:
    served = raw.get("served")
    return Turn(
        str(raw.get("name")),
        {ProjectHash(str(project)): str(oid) for project, oid in served.items()} if isinstance(served, dict) else {},
    )


def _parse_call(raw: Mapping[str, object]) -> OpenCall:
    trees = raw.get("trees")
    return OpenCall(
        {ProjectHash(str(name)): str(tree) for name, tree in trees.items()} if isinstance(trees, dict) else {},
        turn=str(raw.get("turn")),
        tool=str(raw.get("tool")),
    )
