"""Sessions across processes: the same turn is known to the service, to a command without it, and after a restart.

Owns the files `sessions/<hash>.json`, one for each session. What an event means belongs to `watcher.turns`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import threading
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from store.errors import CorruptFileError
from store.files import make_private_directory, read_json_object, to_seconds, write_json
from store.layout import ProjectHash
from watcher.turns import OpenCall, Owner, Session, Turn, forget_project, reopen

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEPT_S = 7 * 86400.0
"""A session that was silent for longer is forgotten."""
_SAME_TIME_S = 10.0
"""An event so soon after another one is not written for its time alone."""

_OID = re.compile(r"[0-9a-f]{40}")

Signature = tuple[int, int, int]


class Sessions:
    """Hold every known session, and follow what other processes write.

    Whoever changes one holds the store's lock.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._guard = threading.Lock()
        self._known: dict[str, tuple[Signature, Session]] = {}

    def find(self, name: str) -> Session | None:
        """Return a session as it is on disk; this alone needs no lock of the store."""
        with self._guard:
            return self._load(self._path(name))

    def find_latest(self, project: ProjectHash) -> Session | None:
        """Return the session that last changed a project."""
        return max(self.list_touching(project), key=lambda each: each.last_event, default=None)

    def list_touching(self, project: ProjectHash) -> list[Session]:
        """Return the sessions that ever had a checkpoint of a project."""
        with self._guard:
            sessions = [session for path in self._list() if (session := self._load(path)) is not None]
        return [each for each in sessions if any(project in turn.served for turn in each.turns)]

    def list_at_work(self, project: ProjectHash) -> list[tuple[str, Session]]:
        """Return the sessions, by name, that have calls at work in a project whose end was not announced yet."""
        with self._guard:
            found = [(path, session) for path in self._list() if (session := self._load(path)) is not None]
            return [
                (str((read_json_object(path) or {}).get("name", "")), session)
                for path, session in found
                if any(project in call.states for call in session.open_calls.values())
            ]

    def keep(self, name: str, session: Session) -> None:
        """Remember a session; nothing is written when only the time of its last event moved a little."""
        with self._guard:
            path = self._path(name)
            before = self._load(path)
            if before is None:
                make_private_directory(self._directory)
                self._forget_old(session.last_event)
            elif not _has_news(before, session):
                return
            self._write(path, {"v": 1, "name": name} | _format(session), session)

    def reopen(self, project: ProjectHash, *, notice: str) -> None:
        """Let every turn of every session take a checkpoint of a project again, since that was rolled back.

        Args:
            project: Which one.
            notice: What the agents that changed it are told at their next turn.
        """
        with self._guard:
            for path in self._list():
                session = self._load(path)
                if session is not None and (after := reopen(session, project, notice)) != session:
                    self._write(path, {**(read_json_object(path) or {}), **_format(after)}, after)

    def forget_project(self, project: ProjectHash) -> None:
        """Drop what every session remembers of a project that is gone from the store."""
        with self._guard:
            for path in self._list():
                session = self._load(path)
                if session is not None and (after := forget_project(session, project)) != session:
                    self._write(path, {**(read_json_object(path) or {}), **_format(after)}, after)

    def forget(self, name: str) -> None:
        """Drop a session that ended."""
        with self._guard:
            self._remove(self._path(name))

    def _write(self, path: str, raw: dict[str, object], session: Session) -> None:
        write_json(path, raw)
        if (signature := _sign(path)) is not None:
            self._known[path] = (signature, session)

    def _path(self, name: str) -> str:
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return os.path.join(self._directory, f"{digest}.json")

    def _list(self) -> list[str]:
        try:
            names = os.listdir(self._directory)
        except FileNotFoundError:
            return []
        return [os.path.join(self._directory, name) for name in names if name.endswith(".json")]

    def _load(self, path: str) -> Session | None:
        """Read a session's file, if it changed; one that can't be understood is as good as none."""
        signature = _sign(path)
        if signature is None:
            return None
        known = self._known.get(path)
        if known is None or known[0] != signature:
            try:
                raw = read_json_object(path) or {}
            except CorruptFileError:
                return None
            known = self._known[path] = (signature, _parse(raw))
        return known[1]

    def _forget_old(self, now: float) -> None:
        for path in self._list():
            session = self._load(path)
            if session is None or now - session.last_event > _KEPT_S:
                self._remove(path)

    def _remove(self, path: str) -> None:
        self._known.pop(path, None)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _has_news(before: Session, after: Session) -> bool:
    at = after.last_event
    return replace(before, last_event=at) != after or abs(at - before.last_event) > _SAME_TIME_S


def _sign(path: str) -> Signature | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _format(session: Session) -> dict[str, object]:
    return {
        "turns": [
            {
                "name": turn.name,
                "served": {str(project): oid for project, oid in turn.served.items()},
                "reopened": sorted(turn.reopened),
            }
            for turn in session.turns
        ],
        "last_event": session.last_event,
        "is_turn_over": session.is_turn_over,
        "announces_turns": session.announces_turns,
        "checkpoints": session.checkpoints,
        "notices": list(session.notices),
        "open_calls": {
            name: {
                "states": {str(project): commit for project, commit in opened.states.items()},
                "turn": opened.turn,
                "tool": opened.tool,
                "began_at": opened.began_at,
                "count": opened.count,
                "owner": [opened.owner.pid, opened.owner.started_at] if opened.owner is not None else None,
            }
            for name, opened in session.open_calls.items()
        },
    }


def _parse(raw: Mapping[str, object]) -> Session:
    """Return the session in a JSON object; what is damaged in it is as if it had never been said."""
    turns, calls, checkpoints = raw.get("turns"), raw.get("open_calls"), raw.get("checkpoints")
    notices = raw.get("notices")
    return Session(
        turns=tuple(_parse_turn(turn) for turn in turns if isinstance(turn, dict)) if isinstance(turns, list) else (),
        last_event=to_seconds(raw.get("last_event")) or 0.0,
        is_turn_over=raw.get("is_turn_over") is True,
        announces_turns=raw.get("announces_turns") is True,
        checkpoints=checkpoints if isinstance(checkpoints, bool) else None,
        notices=tuple(each for each in notices if isinstance(each, str)) if isinstance(notices, list) else (),
        open_calls=MappingProxyType(
            {name: _parse_call(call) for name, call in calls.items() if isinstance(call, dict)}
            if isinstance(calls, dict)
            else {}
        ),
    )


def _parse_turn(raw: Mapping[str, object]) -> Turn:
    reopened = raw.get("reopened")
    return Turn(
        str(raw.get("name")),
        _parse_ids(raw.get("served")),
        frozenset(ProjectHash(str(project)) for project in reopened) if isinstance(reopened, list) else frozenset(),
    )


def _parse_ids(raw: object) -> dict[ProjectHash, str]:
    """Return ids by project, those that are none left out."""
    items = raw.items() if isinstance(raw, dict) else ()
    return {ProjectHash(str(project)): oid for project, oid in items if isinstance(oid, str) and _OID.fullmatch(oid)}


def _parse_call(raw: Mapping[str, object]) -> OpenCall:
    count = raw.get("count")
    return OpenCall(
        _parse_ids(raw.get("states")),
        turn=str(raw.get("turn")),
        tool=str(raw.get("tool")),
        began_at=to_seconds(raw.get("began_at")) or 0.0,
        count=count if isinstance(count, int) and count > 0 else 1,
        owner=_parse_owner(raw.get("owner")),
    )


def _parse_owner(raw: object) -> Owner | None:
    if not isinstance(raw, list) or len(raw) != 2 or not isinstance(raw[0], int):
        return None
    started_at = to_seconds(raw[1])
    return None if started_at is None else Owner(raw[0], started_at)
