"""The ledger: what the agent last left at each path. What differs from it is a hand edit.

Owns the file `ledgers/<hash>.json` and the fingerprints in it. What a rollback makes of them belongs to `store.plan`.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from store.entries import MODE_LINK
from store.errors import CorruptFileError
from store.files import read_json_object, to_path, to_seconds, write_json

if TYPE_CHECKING:
    from store.entries import Node
    from store.layout import Layout
    from store.objects import ObjectStore
    from store.project import Project


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Say what stands at a path, exactly."""

    sha256: str
    """Over the raw bytes of a file, or over the target of a link; empty for a directory and when nothing is there."""
    mode: str = ""
    """The mode as `lstat` gives it, in octal, such as `100755`; empty where it is not known or nothing is there."""

    def matches(self, other: Fingerprint) -> bool:
        """Tell whether two fingerprints are of the same thing, as far as both know."""
        if self.sha256 != other.sha256:
            return False
        is_mode_unknown = self.sha256 != "" and not (self.mode and other.mode)
        return is_mode_unknown or self.mode == other.mode


NOTHING = Fingerprint("")
"""The fingerprint of a path at which there is nothing."""


@dataclass(frozen=True, slots=True)
class Written:
    """Say what the agent last left at a path, and when."""

    content: Fingerprint
    at: float
    """Seconds since the epoch."""
    session: str | None = None
    turn: str | None = None
    tool: str | None = None
    existed: bool = False
    """Whether somebody else had made the file that the agent then changed."""


def made_by_others(before: Fingerprint, written: Written | None) -> bool:
    """Tell whether a file that an agent is changing was made by somebody else.

    Args:
        before: What stands there before the change.
        written: What the ledger says of it.
    """
    if before == NOTHING:
        return False
    return written is None or written.existed or written.content == NOTHING


Ledger = dict[bytes, Written]
"""What the agent last left, by path relative to the project."""


class Author(StrEnum):
    """Say who left what stands at a path now, as far as the ledger knows."""

    AGENT = "agent"
    """The agent's last content, or its deletion, is still there."""
    USER = "user"
    """It differs from what the agent left there."""
    UNKNOWN = "unknown"
    """The agent never wrote there."""


def judge(written: Written | None, now: Fingerprint) -> Author:
    """Return who left what stands at a path now."""
    if written is None:
        return Author.UNKNOWN
    return Author.AGENT if written.content.matches(now) else Author.USER


def load_ledger(layout: Layout, project: Project) -> Ledger:
    """Return a project's ledger; empty when nothing was ever recorded.

    Raises:
        CorruptFileError: The file can't be understood. Nobody may guess then, since an empty ledger means that a
            rollback overwrites more.
    """
    path = layout.ledger_file(project.hash)
    ledger: Ledger = {}
    for name, raw in (read_json_object(path) or {}).items():
        if name and to_path(name) is None:
            raise _damaged(path, name)
        written, relative = parse_written(raw), project.relative(name)
        if written is None:
            raise _damaged(path, name)
        if relative is not None:
            ledger[relative] = written
    return ledger


def _damaged(path: str, name: str) -> CorruptFileError:
    return CorruptFileError(f"The ledger {path} can't be understood: its entry for {name!r} is damaged.")


def save_ledger(layout: Layout, project: Project, ledger: Ledger) -> None:
    """Replace a project's ledger. The caller holds the lock."""
    raw = {os.path.join(project.workdir, os.fsdecode(path)): format_written(each) for path, each in ledger.items()}
    write_json(layout.ledger_file(project.hash), raw)


def format_written(written: Written) -> dict[str, object]:
    """Return an entry of the ledger as JSON."""
    optional = {
        "mode": written.content.mode,
        "session": written.session,
        "turn": written.turn,
        "tool": written.tool,
    }
    raw = {"sha256": written.content.sha256, "ts": written.at, **{key: text for key, text in optional.items() if text}}
    return raw | {"existed": True} if written.existed else raw


def parse_written(raw: object) -> Written | None:
    """Return the entry of a ledger in JSON; nothing when it is none."""
    if not isinstance(raw, dict) or not isinstance(raw.get("sha256"), str):
        return None
    return Written(
        Fingerprint(raw["sha256"], _text(raw.get("mode")) or ""),
        at=to_seconds(raw.get("ts")) or 0.0,
        session=_text(raw.get("session")),
        turn=_text(raw.get("turn")),
        tool=_text(raw.get("tool")),
        existed=raw.get("existed") is True,
    )


def fingerprint_file(full: bytes) -> Fingerprint | None:
    """Return the fingerprint of what stands at a path on disk.

    Returns:
        Nothing when it can't be told: a directory, a special file, or one that can't be read.
    """
    try:
        status = os.lstat(full)
        if stat.S_ISLNK(status.st_mode):
            return _fingerprint_content(os.readlink(full), MODE_LINK.decode())
        if not stat.S_ISREG(status.st_mode):
            return None
        descriptor = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            mode = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(mode):
                return None
            return Fingerprint(hashlib.file_digest(file, "sha256").hexdigest(), f"{mode:o}")
    except (FileNotFoundError, NotADirectoryError):
        return NOTHING
    except OSError:
        return None


def fingerprint_node(objects: ObjectStore, node: Node | None, content: bytes | None = None) -> Fingerprint:
    """Return the fingerprint of what a state holds at a path; nothing stands for a path it does not hold.

    Args:
        objects: Where the content is.
        node: What the state holds.
        content: The content, if it is at hand.
    """
    if node is None or node.is_gitlink:
        return NOTHING
    if node.is_directory:
        return Fingerprint("", f"{stat.S_IFDIR | (node.bits or 0):o}")
    mode = node.entry.mode.decode() if node.bits is None else f"{stat.S_IFREG | node.bits:o}"
    return _fingerprint_content(objects.read_blob(node.entry.oid) if content is None else content, mode)


def _fingerprint_content(content: bytes, mode: str) -> Fingerprint:
    return Fingerprint(hashlib.sha256(content).hexdigest(), mode)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
