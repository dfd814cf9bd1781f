"""Projects: which directory a path belongs to, which are never captured, and what is known of each.

Owns the one root rule, the guards, and the project files. Whether a project is opted in belongs to the watcher.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import os
import tempfile
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from store.errors import CorruptFileError, TooBroadError
from store.files import read_json_object, to_path, to_seconds, write_json
from store.layout import ProjectHash
from store.mounts import format_evidence, parse_evidence

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from store.layout import Layout
    from store.mounts import Evidence

_MARKERS = (
    ".git", "pyproject.toml", "package.json", "Cargo.toml", "go.mod", "Makefile", "pom.xml", ".hg", "Gemfile",
)  # fmt: skip
_DAMAGED = ".damaged"


@dataclass(frozen=True, slots=True)
class Project:
    """Name one protected directory."""

    workdir: str
    """Resolved absolute path; bytes that are not UTF-8 are surrogate escapes."""
    hash: ProjectHash
    """Its name in the store."""

    @classmethod
    def of(cls, path: str) -> Project:
        """Return the project of a directory, its links resolved."""
        return cls.at(os.path.realpath(os.path.expanduser(path)))

    @classmethod
    def at(cls, workdir: str) -> Project:
        """Return the project of a directory whose links are resolved already."""
        return cls(workdir, ProjectHash(hashlib.sha256(os.fsencode(workdir)).hexdigest()[:16]))

    @property
    def root(self) -> bytes:
        """Return the workdir as the bytes the file system knows it by."""
        return os.fsencode(self.workdir)

    def relative(self, path: str) -> bytes | None:
        """Return an absolute, resolved path relative to the project, or nothing when it lies outside."""
        raw = os.fsencode(path)
        prefix = self.root.rstrip(b"/") + b"/"
        return raw[len(prefix) :] if raw.startswith(prefix) else None


@dataclass(frozen=True, slots=True)
class Failure:
    """Say when and why a project could not be protected."""

    at: float
    """Seconds since the epoch."""
    why: str
    """One sentence or one of the words of a hook's answer."""


@dataclass(frozen=True, slots=True)
class ProjectRecord:
    """Hold what is known of a project across runs."""

    workdir: str
    created_at: float
    """Seconds since the epoch of the first touch."""
    last_touch: float
    """Seconds since the epoch of the last attempt."""
    last_success: float | None = None
    """Seconds since the epoch of the last attempt that ended well."""
    last_failure: Failure | None = None
    """The last attempt that did not."""
    pinned: Mapping[bytes, bool] = field(default_factory=lambda: MappingProxyType({}))
    """Ignored paths that a tool named, captured all the same; each with whether it existed before."""
    evidence: Evidence | None = None
    """What tells its volume and directory from others, as last seen while it was live."""


def resolve_path(path: str, cwd: str) -> str:
    """Return a path absolute and with the links of its directories resolved; a link itself is not followed.

    A leading `~/` is the user's home, as agents mean it; any other `~` is part of a name.
    """
    expanded = os.path.expanduser(path) if path.startswith("~/") else path
    absolute = os.path.normpath(os.path.join(cwd, expanded))
    directory, name = os.path.split(absolute)
    return os.path.join(os.path.realpath(directory), name)


def find_root(path: str, *, registered: Collection[str], home: str) -> str:
    """Return the project root of a resolved path.

    The nearest registered project that contains it; else the nearest ancestor, below the home directory, that holds
    a marker such as `.git` or `pyproject.toml`; else its own directory.

    Args:
        path: Absolute and resolved; a file or a directory, that may not exist yet.
        registered: Resolved workdirs of known projects.
        home: The user's home directory, resolved.
    """
    start = path if os.path.isdir(path) else os.path.dirname(path)
    known = frozenset(registered)
    for directory in _upwards(start):
        if directory in known:
            return directory
    above_home = frozenset(_upwards(home))
    for directory in _upwards(start):
        if directory in above_home:
            break
        if any(os.path.lexists(os.path.join(directory, marker)) for marker in _MARKERS):
            return directory
    return start


def refuse_too_broad(workdir: str, *, home: str, base: str) -> None:
    """Refuse the directories that are never captured.

    Raises:
        TooBroadError: It is `/`, the home directory or one above it, the store or inside it, or the directory of
            temporary files itself.
    """
    real_base = os.path.realpath(base)
    if workdir == "/":
        what = "the root of the file system"
    elif workdir == os.path.realpath(home):
        what = "the home directory"
    elif workdir in _upwards(os.path.realpath(home)):
        what = "above the home directory"
    elif workdir == real_base or workdir.startswith(real_base + os.sep):
        what = "the checkpoint store itself"
    elif workdir == os.path.realpath(tempfile.gettempdir()):
        what = "the directory of temporary files"
    else:
        return
    raise TooBroadError(
        f"{workdir} is {what}, which is never captured.", hint="Choose the directory of one project below it."
    )


def _upwards(path: str) -> Iterator[str]:
    """Yield a directory and every directory above it."""
    while True:
        yield path
        parent = os.path.dirname(path)
        if parent == path:
            return
        path = parent


def load_record(layout: Layout, project: ProjectHash) -> ProjectRecord | None:
    """Return what is known of a project, or nothing for one never touched.

    Raises:
        CorruptFileError: Its file can't be understood; other projects are not affected.
    """
    path = layout.project_file(project)
    raw = read_json_object(path)
    if raw is None:
        return None
    workdir, failure, pinned = raw.get("workdir"), raw.get("last_failure"), raw.get("pinned")
    if not isinstance(workdir, str) or to_path(workdir) is None or not workdir.startswith("/"):
        raise CorruptFileError(f"{path} can't be understood: it names no workdir.")
    pins = {to_path(name): existed is True for name, existed in pinned.items()} if isinstance(pinned, dict) else {}
    if not all(_is_inside(pin) for pin in pins):
        raise CorruptFileError(f"{path} can't be understood: it pins what is no path inside the project.")
    return ProjectRecord(
        workdir=workdir,
        created_at=to_seconds(raw.get("created_at")) or 0.0,
        last_touch=to_seconds(raw.get("last_touch")) or 0.0,
        last_success=to_seconds(raw.get("last_success")),
        last_failure=Failure(to_seconds(failure.get("at")) or 0.0, str(failure.get("why")))
        if isinstance(failure, dict)
        else None,
        pinned={pin: existed for pin, existed in pins.items() if pin is not None},
        evidence=parse_evidence(raw.get("evidence")),
    )


def _is_inside(path: bytes | None) -> bool:
    """Tell whether a relative path leads to something inside the directory it is meant from."""
    return path is not None and not {b"", b".", b".."} & set(path.split(b"/"))


def set_record_aside(layout: Layout, project: ProjectHash) -> str:
    """Rename a project's file that can't be understood, so that another one can be written, and return its new name.

    What was set aside before is kept.
    """
    path = layout.project_file(project)
    names = itertools.chain([path + _DAMAGED], (f"{path}{_DAMAGED}-{number}" for number in itertools.count(2)))
    aside = next(name for name in names if not os.path.lexists(name))
    os.rename(path, aside)
    return aside


def list_set_aside(layout: Layout) -> list[str]:
    """Return the files of projects that could not be understood and were set aside."""
    try:
        names = sorted(os.listdir(layout.projects_directory))
    except FileNotFoundError:
        return []
    return [os.path.join(layout.projects_directory, name) for name in names if f".json{_DAMAGED}" in name]


def save_record(layout: Layout, project: ProjectHash, record: ProjectRecord) -> None:
    """Replace a project's file, with the identity of the workdir's parent while that can be seen."""
    raw: dict[str, object] = {
        "workdir": record.workdir,
        "created_at": record.created_at,
        "last_touch": record.last_touch,
        **_parent_identity(record.workdir),
    }
    if record.last_success is not None:
        raw["last_success"] = record.last_success
    if record.last_failure is not None:
        raw["last_failure"] = {"at": record.last_failure.at, "why": record.last_failure.why}
    if record.pinned:
        raw["pinned"] = {os.fsdecode(path): existed for path, existed in record.pinned.items()}
    if record.evidence is not None:
        raw["evidence"] = format_evidence(record.evidence)
    write_json(layout.project_file(project), raw)


def touch(record: ProjectRecord | None, project: Project, *, now: float, failure: str | None = None) -> ProjectRecord:
    """Return a project's record after one more attempt, which is the last one by its times too.

    Where the clock was set back, the time of the attempt before is brought down.
    """
    known = record or ProjectRecord(project.workdir, created_at=now, last_touch=now)
    if failure is not None:
        succeeded = None if known.last_success is None else min(known.last_success, now)
        return replace(known, last_touch=now, last_success=succeeded, last_failure=Failure(now, failure))
    failed = known.last_failure
    if failed is not None and failed.at >= now:
        failed = replace(failed, at=math.nextafter(now, 0.0))
    return replace(known, last_touch=now, last_success=now, last_failure=failed)


def list_hashes(layout: Layout) -> list[ProjectHash]:
    """Return every project that has a file in the store."""
    try:
        names = sorted(os.listdir(layout.projects_directory))
    except FileNotFoundError:
        return []
    return [ProjectHash(name.removesuffix(".json")) for name in names if name.endswith(".json") and name[0] != "."]


def list_projects(layout: Layout) -> Iterator[tuple[ProjectHash, ProjectRecord | CorruptFileError]]:
    """Yield every project of the store; one broken file is reported in its place and hides no other."""
    for project in list_hashes(layout):
        try:
            record = load_record(layout, project)
        except CorruptFileError as error:
            yield project, error
            continue
        if record is not None:
            yield project, record


def _parent_identity(workdir: str) -> dict[str, int]:
    """Return the device and inode of the directory above, by which an unmounted volume is told from a deletion."""
    try:
        status = os.stat(os.path.dirname(workdir))
    except OSError:
        return {}
    if not status.st_dev or not status.st_ino:
        return {}
    return {"workdir_parent_dev": status.st_dev, "workdir_parent_ino": status.st_ino}
