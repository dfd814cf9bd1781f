"""The service: one per home, from its lock to its last reply.

Owns what runs and in which order it starts and stops. What a request does belongs to `watcher.operations`.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from logging.handlers import RotatingFileHandler
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from config.errors import CheckpointError
from store.files import make_private_directory
from store.git import find_git
from store.project import Project
from watcher.errors import ServiceRunning
from watcher.home import Home
from watcher.operations import Operations
from watcher.schedule import Schedule
from watcher.server import Server
from watcher.settling import Settling

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType

    from config.paths import Paths
    from watcher.engine import Engine
    from watcher.progress import Progress

_log = logging.getLogger(__name__)
_LOG_BYTES = 1_000_000
_LOG_FILES = 3
_STOP_S = 30.0
"""How long a running request may take to end when the service is told to go."""
_AUDIT_INTERVAL_S = 3600.0
"""How often everything is looked at, for changes that give no events, such as those through mmap."""
_FIRST_LOOK_S = 3600.0
_SWEEP_LOOK_S = 600.0
"""How often it is asked whether a sweep is due; the first time not at the start."""
_GC_LOOK_S = 120.0
_IDLE_S = 30.0
"""How long nobody must have asked for anything before space is reclaimed."""


class Service:
    """Serve one home until told to stop."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._stopping = threading.Event()
        self._home = Home(paths, user_home=os.path.expanduser("~"), follow_events=True, on_change=self._note_change)
        self._settling = Settling(self._home)
        self._schedule = Schedule()
        self._operations = Operations(self._home, serving=True, next_runs=self._schedule.next_runs)
        self._server = Server(paths.socket, self._dispatch)
        self._lock = FileLock(os.path.join(paths.home, ".checkpoints-service.lock"), mode=0o600, fallback_to_soft=False)

    def run(self, *, on_ready: Callable[[tuple[str, ...]], None]) -> None:
        """Serve until a signal or a request says stop.

        Args:
            on_ready: Called once requests are answered, with the projects that are opted in.

        Raises:
            ServiceRunning: Another service holds this home.
        """
        make_private_directory(self._paths.home)
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise ServiceRunning(f"A service for {self._paths.home} is running already.") from None
        try:
            _log_to_file(self._paths)
            self._serve(on_ready)
        finally:
            self._lock.release()

    def stop(self) -> None:
        """Tell the service to finish what runs and go."""
        self._stopping.set()

    def _serve(self, on_ready: Callable[[tuple[str, ...]], None]) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        self._server.start()
        first_look = threading.Thread(target=self._look_at_watched, name="first-look")
        try:
            _log.info("serving %s as process %d", self._paths.home, os.getpid())
            if find_git(os.environ.get("PATH")) is None:
                _log.error("git was not found on PATH: no checkpoints are taken")
            first_look.start()
            self._schedule.every(_AUDIT_INTERVAL_S, "audit", self._audit)
            self._schedule.every(_SWEEP_LOOK_S, "sweep", self._sweep)
            self._schedule.every(_GC_LOOK_S, "gc", self._collect)
            self._schedule.start()
            self._settling.start()
            on_ready(self._home.watched())
            self._stopping.wait()
        finally:
            _log.info("stopping")
            self._stopping.set()
            self._operations.upkeep.stop()
            self._schedule.stop()
            self._settling.stop()
            self._server.stop(_STOP_S)
            first_look.join()
            self._home.close()

    def _dispatch(self, method: str, arguments: dict[str, object], on_progress: Progress | None) -> object:
        if method == "shutdown":
            self.stop()
            return {"ok": True}
        return self._operations.dispatch(method, arguments, on_progress)

    def _note_change(self, engine: Engine) -> None:
        self._settling.note_change(engine)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature is Python's
        self.stop()

    def _look_at_watched(self) -> None:
        """Look at every opted-in project, so that the first hook of each one finds it known."""
        for workdir in self._home.watched():
            if self._stopping.is_set():
                return
            self._look_at(Project.of(workdir))

    def _look_at(self, project: Project) -> None:
        if not os.path.isdir(project.workdir):
            _log.warning("%s is not there", project.workdir)
            return
        try:
            with self._home.work_on(project, wait_s=_FIRST_LOOK_S) as desk:
                desk.bring_up_to_date()
        except (CheckpointError, OSError) as error:
            _log.warning("%s could not be looked at: %s", project.workdir, error)

    def _audit(self) -> None:
        """Look at every file of the known projects, whatever the events said."""
        for engine in self._home.engines():
            if self._stopping.is_set():
                return
            engine.distrust("audit")
            self._look_at(engine.project)

    def _sweep(self) -> None:
        """Sweep, if that is due."""
        self._operations.upkeep.sweep_if_due(now=time.time())

    def _collect(self) -> None:
        """Reclaim space, if there is something to reclaim and nobody is at work."""
        if self._home.idle_s() >= _IDLE_S:
            self._operations.upkeep.collect_if_pending(now=time.time())


def _log_to_file(paths: Paths) -> None:
    """Send the log to the home's log file, which never grows beyond a few megabytes."""
    make_private_directory(paths.logs_dir)
    handler = RotatingFileHandler(paths.log_file, maxBytes=_LOG_BYTES, backupCount=_LOG_FILES, encoding="utf-8")
    os.chmod(paths.log_file, 0o600)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    for others in root.handlers:
        others.setLevel(root.level)
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    logging.getLogger("apscheduler").setLevel(logging.WARNING)


def describe_ready(program: str, watched: Mapping[str, None] | tuple[str, ...]) -> str:
    """Return what a user can do now, in three lines."""
    projects = ", ".join(watched) if watched else "nothing yet: hermes-checkpoints watch add DIR"
    return (
        f"Protecting {projects}. Stop with Ctrl-C.\n"
        f"Connect Claude Code: its PreToolUse and PostToolUse hooks run `{program} hook claude-code`.\n"
        f"Take changes back, in a second terminal inside the project: {program} rollback"
    )
