"""One home: its settings, its store, its projects and their engines, open for requests.

Owns how a request reaches a project: which one it is, whether it is in effect, the lock, the engine, and the record
of how it went. The service and a command without it both work on one of these, so that they give the same answers.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from config.choices import Durability
from config.errors import CheckpointError
from config.paths import Paths
from config.settings import Settings, SettingsSource, default_excludes
from config.watched import format_watched, parse_watched
from store.errors import CorruptFileError, NoSpaceError, NotLiveError, SafetyCheckpointError
from store.excludes import refresh_excludes
from store.files import (
    find_free_bytes,
    flush_file_system,
    is_disk_full,
    make_private_directory,
    write_atomically,
)
from store.layout import Layout
from store.lock import StoreLock
from store.mounts import WorkdirState
from store.nested import is_part_of_repository
from store.project import (
    Project,
    ProjectRecord,
    find_root,
    list_hashes,
    load_record,
    refuse_too_broad,
    resolve_path,
    save_record,
    set_record_aside,
    touch,
)
from store.project_store import ProjectStore, open_project_store
from store.volumes import is_as_recorded, judge, record_evidence
from watcher.engine import Engine
from watcher.sessions import Sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from store.baseline import Baseline
    from store.layout import ProjectHash
    from watcher.events import Event
    from watcher.progress import Progress

_log = logging.getLogger(__name__)
_FLUSH_AFTER_S = 0.5
_TOUCH_AGAIN_S = 5.0
"""How old the last touch on disk may become while a project is worked on."""


class Desk:
    """Hold one project open for one piece of work, under the lock."""

    def __init__(self, home: Home, store: ProjectStore, settings: Settings, deadline: float) -> None:
        self.home = home
        self.store = store
        self.settings = settings
        self._deadline = deadline
        """When to give up, on the monotonic clock."""
        self._damage: CorruptFileError | None = None
        self._record = self._load_record()

    def bring_up_to_date(
        self, added: Sequence[bytes] = (), *, whatever_size: bool = False, on_progress: Progress | None = None
    ) -> Baseline:
        """Return the state of the project's files now.

        Args:
            added: Ignored paths that a tool is about to change: captured all the same, from now on.
            whatever_size: Return it though there are more files than the settings allow.
            on_progress: Called now and then, while many files are read, with how many of how many are.
        """
        project = self.store.project
        self._refuse_not_live()
        engine = self.home.engine(project)
        pinned = dict(self._record.pinned) if self._record is not None else {}
        for path in added:
            pinned[path] = os.path.lexists(os.path.join(project.root, path))
            engine.note_path(path)
        if added:
            now = time.time()
            known = self._record or ProjectRecord(project.workdir, created_at=now, last_touch=now)
            self._keep_record(replace(known, pinned=pinned))
        return engine.bring_up_to_date(
            self.store, self.settings, pinned, self._deadline, whatever_size=whatever_size, on_progress=on_progress
        )

    def _refuse_not_live(self) -> None:
        """Refuse to look at a project whose volume is away: what is at its path is not the project.

        A directory that was deleted and made again is taken for the project, whose history goes on.

        Raises:
            NotLiveError: It is detached, or nobody can tell.
        """
        evidence = self._record.evidence if self._record is not None else None
        if evidence is None or is_as_recorded(self.store.project.workdir, evidence):
            return
        verdict = judge(self.store.project.workdir, evidence)
        if verdict.state in (WorkdirState.DETACHED, WorkdirState.UNKNOWN):
            raise NotLiveError(f"{self.store.project.workdir} is {verdict.state}: {verdict.reason}.")

    def refuse_full_disk(self) -> None:
        """Refuse to add anything while little disk is free.

        Raises:
            NoSpaceError: Less than the settings ask for.
        """
        if find_free_bytes(self.store.layout.base) < self.settings.min_free_bytes:
            raise NoSpaceError(f"Less than {self.settings.min_free_mb} MB of disk are free, so nothing is added.")

    def list_unpinned(self, named: Iterable[bytes]) -> list[bytes]:
        """Return the ignored paths among those that a tool names that are not captured yet and may be."""
        engine = self.home.engine(self.store.project)
        pinned = self._record.pinned if self._record is not None else {}
        return [
            path
            for path in named
            if path not in pinned
            and not is_part_of_repository(path)
            and engine.is_ignored(self.store, self.settings, path)
        ]

    def note_attempt(self, *, now: float, failure: str | None = None) -> None:
        """Record how an attempt to protect the project went.

        A success soon after another one says nothing new, and is not written.
        """
        before, after = self._record, touch(self._record, self.store.project, now=now, failure=failure)
        is_news = before is None or failure is not None or _is_failing(before) or not _is_evident(before)
        if before is None or is_news or not 0 <= now - before.last_touch < _TOUCH_AGAIN_S:
            seen = record_evidence(after.workdir) if failure is None else None
            self._keep_record(after if seen is None else replace(after, evidence=seen))

    def _load_record(self) -> ProjectRecord | None:
        """Return what is known of the project; nothing when its file is damaged, and remember that."""
        try:
            return load_record(self.store.layout, self.store.project.hash)
        except CorruptFileError as error:
            self._damage = error
            return None

    def _keep_record(self, record: ProjectRecord) -> None:
        """Write what is known of the project; a damaged file is never overwritten, but kept beside it."""
        if self._damage is not None:
            aside = set_record_aside(self.store.layout, self.store.project.hash)
            _log.warning("%s It is kept as %s.", self._damage.message, aside)
            self._damage = None
        self._record = record
        save_record(self.store.layout, self.store.project.hash, record)


def _is_evident(record: ProjectRecord) -> bool:
    return record.evidence is not None and is_as_recorded(record.workdir, record.evidence)


def _is_failing(record: ProjectRecord) -> bool:
    return record.last_failure is not None and record.last_failure.at >= (record.last_success or 0.0)


class Home:
    """Hold everything that requests of one home work on."""

    def __init__(
        self,
        paths: Paths,
        *,
        user_home: str,
        follow_events: bool,
        on_change: Callable[[Engine], None] | None = None,
    ) -> None:
        """Open a home.

        Args:
            paths: Where it is.
            user_home: The user's home directory, which is never captured.
            follow_events: Whether projects are watched.
            on_change: Called after something changed in one that is.
        """
        self._on_change = on_change
        self.paths = paths
        self.layout = Layout(paths.base, paths.lock_file)
        self.sessions = Sessions(self.layout.sessions_directory)
        self.name = uuid.uuid4().hex.encode()
        """By which its own removals of objects are told from those of others."""
        self._user_home = os.path.realpath(user_home)
        self._follow_events = follow_events
        self._settings = SettingsSource(paths.config_file)
        self._lock = StoreLock(self.layout)
        self._engines: dict[ProjectHash, Engine] = {}
        self._flusher = _Flusher(self.layout)
        self._watched: tuple[tuple[int, int, int], tuple[str, ...]] | None = None
        self._are_excludes_fresh = False
        self._workdirs: dict[ProjectHash, str] = {}
        self._last_work = time.monotonic()

    def load_record(self, project: ProjectHash) -> ProjectRecord | None:
        """Return what is known of a project; a damaged file counts as nothing known."""
        try:
            return load_record(self.layout, project)
        except CorruptFileError:
            return None

    def settings(self) -> tuple[Settings, str | None]:
        """Return the settings in force, and what is wrong with those on disk, if anything is."""
        return self._settings.current()

    def engine(self, project: Project) -> Engine:
        """Return a project's engine, made at first use."""
        engine = self._engines.get(project.hash)
        if engine is None:
            engine = self._engines[project.hash] = Engine(
                project, follow_events=self._follow_events, home_name=self.name, on_change=self._on_change
            )
        return engine

    def find_engine(self, project: ProjectHash) -> Engine | None:
        """Return a project's engine, if it has one already."""
        return self._engines.get(project)

    def engines(self) -> list[Engine]:
        """Return every engine made so far."""
        return list(self._engines.values())

    def find_project(self, path: str, cwd: str) -> Project:
        """Return the project that a path belongs to, by the one root rule."""
        resolved = resolve_path(path, cwd)
        if os.path.isdir(resolved):
            resolved = os.path.realpath(resolved)
        return Project.at(find_root(resolved, registered=self._registered(), home=self._user_home))

    def refuse_too_broad(self, project: Project) -> None:
        """Refuse a directory that is never captured.

        Raises:
            TooBroadError: It is one.
        """
        refuse_too_broad(project.workdir, home=self._user_home, base=self.paths.base)

    def watched(self) -> tuple[str, ...]:
        """Return the projects that were opted in.

        Raises:
            ConfigError: The file can't be understood.
        """
        signature = _sign(self.paths.watched_file)
        if signature is None:
            return ()
        if self._watched is None or self._watched[0] != signature:
            with open(self.paths.watched_file, encoding="utf-8", errors="surrogateescape") as file:
                self._watched = (signature, parse_watched(file.read(), self.paths.watched_file))
        return self._watched[1]

    def keep_watched(self, workdirs: Iterable[str]) -> None:
        """Replace the list of projects that were opted in. The caller holds the lock."""
        make_private_directory(self.paths.home)
        write_atomically(self.paths.watched_file, format_watched(tuple(workdirs)).encode())

    def is_in_effect(self, project: Project, settings: Settings, session_switch: bool | None = None) -> bool:
        """Tell whether a project is protected: the session's word, else the opt-in, else the master switch."""
        if session_switch is not None:
            return session_switch
        return project.workdir in self.watched() or settings.enabled

    def find_session_switch(self, event: Event) -> bool | None:
        """Return a session's own word on checkpoints, said now or earlier; nothing when it never said one."""
        if event.checkpoints is not None:
            return event.checkpoints
        session = self.sessions.find(event.session)
        return session.checkpoints if session is not None else None

    @contextmanager
    def hold(self, *, wait_s: float) -> Iterator[None]:
        """Hold the store's lock.

        Raises:
            StoreBusyError: Somebody else held it for that long.
        """
        with self._lock.hold(wait_s=wait_s):
            yield

    @contextmanager
    def work_on(self, project: Project, *, wait_s: float) -> Iterator[Desk]:
        """Open a project for work under the lock; the store is made if there is none.

        Args:
            project: Which one.
            wait_s: How long the whole work may take.

        Raises:
            StoreBusyError: Somebody else held the lock for that long.
            NoSpaceError: The disk is full.
        """
        self._last_work = time.monotonic()
        deadline = time.monotonic() + wait_s
        settings, _ = self.settings()
        with self.hold(wait_s=wait_s), _telling_full_disk():
            self._prepare_store()
            yield Desk(self, open_project_store(self.layout, project), settings, deadline)
        self._flusher.note_change(at_once=settings.durability is Durability.FULL)

    def _prepare_store(self) -> None:
        """Make sure that there is a store, and once in a process that its excludes are those of today."""
        shipped = default_excludes()
        self.layout.create(shipped, now=time.time())
        if not self._are_excludes_fresh and refresh_excludes(self.layout, shipped):
            _log.info("The default excludes of a newer version were merged into %s.", self.layout.exclude_file)
        self._are_excludes_fresh = True

    def idle_s(self) -> float:
        """Return for how long no project was worked on."""
        return time.monotonic() - self._last_work

    def close(self) -> None:
        """Stop every watch, and flush what was written."""
        for engine in self._engines.values():
            engine.stop_watching()
        self._flusher.close()

    def _registered(self) -> list[str]:
        """Return the workdir of every known project; each project file is read once, as its workdir never changes."""
        hashes = list_hashes(self.layout)
        for project in hashes:
            if project not in self._workdirs and (record := self.load_record(project)) is not None:
                self._workdirs[project] = record.workdir
        return [*(self._workdirs[project] for project in hashes if project in self._workdirs), *self.watched()]


@contextmanager
def _telling_full_disk() -> Iterator[None]:
    """Give an error that a full disk led to the class that says so; a rollback says itself what it means for it."""
    try:
        yield
    except (CheckpointError, OSError) as error:
        if isinstance(error, (NoSpaceError, SafetyCheckpointError)) or not is_disk_full(error):
            raise
        text = error.message if isinstance(error, CheckpointError) else f"{error}."
        raise NoSpaceError(f"The disk is full. {text}", hint="Free some space.") from error


class _Flusher:
    """Flush the store to disk soon after it changed, many changes at once."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._guard = threading.Lock()
        self._timer: threading.Timer | None = None

    def note_change(self, *, at_once: bool) -> None:
        if at_once:
            self._flush()
            return
        with self._guard:
            if self._timer is None:
                self._timer = threading.Timer(_FLUSH_AFTER_S, self._flush)
                self._timer.daemon = True
                self._timer.start()

    def close(self) -> None:
        with self._guard:
            timer = self._timer
        if timer is not None:
            timer.cancel()
            self._flush()
            timer.join()

    def _flush(self) -> None:
        with self._guard:
            self._timer = None
        if self._layout.exists():
            flush_file_system(self._layout.store)


def _sign(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
