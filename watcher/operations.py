"""Everything that can be asked, by name: the methods of the socket, and of a command that works without the service.

Owns the methods and their JSON. What arguments may be belongs to `watcher.arguments`; text for people is made from the
JSON elsewhere.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from config.errors import CheckpointError, UsageError
from store.checkpoint import Kind, Label, take_checkpoint
from store.diff import diff_states
from store.errors import ChangedMeanwhileError, CorruptFileError, StoreError
from store.git import find_git
from store.history import list_checkpoints, resolve_checkpoint
from store.objects import ObjectStore
from store.plan import Mode
from store.project import Project, list_projects
from store.project_store import open_project_store
from store.prune import Policy
from store.restore import finish_rollback, roll_back, take_back_rollback
from store.state import state_of
from store.statistics import list_statistics
from watcher.agents import find_adapter
from watcher.arguments import parse_payload, read_hashes, read_number, read_path, read_text
from watcher.events import CONTAINERS, parse_event
from watcher.hooks import handle_event
from watcher.open_calls import go_on_from_here, record_open_calls
from watcher.overview import describe_home, describe_maintenance
from watcher.reasons import mask_secrets, one_line
from watcher.rollback import describe_to_agent
from watcher.selection import read_selection
from watcher.turns import count_turns_since
from watcher.upkeep import Upkeep
from watcher.view import (
    describe_checkpoint,
    describe_cut_off,
    describe_diff,
    describe_health,
    describe_left_out,
    describe_pruned,
    describe_rollback,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from store.objects import Commit
    from store.restore import Rollback
    from store.standings import Selection
    from watcher.home import Desk, Home
    from watcher.progress import Progress

_WAIT_S = 600.0
"""How long a command given by hand may take; agents' hooks have their own deadline."""


class Operations:
    """Answer requests on one home."""

    def __init__(
        self, home: Home, *, serving: bool, next_runs: Callable[[], Mapping[str, float | None]] = dict
    ) -> None:
        """Prepare.

        Args:
            home: Whose requests.
            serving: Whether this process is the service.
            next_runs: Returns when jobs run next, in seconds since the epoch.
        """
        self._home = home
        self._serving = serving
        self.upkeep = Upkeep(home)
        self._next_runs = next_runs
        self._long_methods: dict[str, Callable[[Mapping[str, object], Progress | None], dict[str, object]]] = {
            "take": self.take,
            "watch": self.watch,
        }
        self._methods: dict[str, Callable[[Mapping[str, object]], dict[str, object]]] = {
            "event": self.event,
            "hook": self.hook,
            "rollback.list": self.list_checkpoints,
            "rollback.restore": self.restore,
            "rollback.settle": self.settle,
            "rollback.diff": self.diff,
            "status": self.status,
            "prune": self.prune,
            "clear": self.clear,
            "ping": self.ping,
        }

    def dispatch(
        self, method: str, arguments: Mapping[str, object], on_progress: Progress | None = None
    ) -> dict[str, object]:
        """Answer one request.

        Args:
            method: What is asked for.
            arguments: About what.
            on_progress: Called now and then, while many files are read, with how many of how many are.

        Raises:
            UsageError: There is no such method, or an argument is missing or of the wrong type.
            CheckpointError: It could not be done.
        """
        if method in self._long_methods:
            return self._long_methods[method](arguments, on_progress)
        operation = self._methods.get(method)
        if operation is None:
            raise UsageError(f"Unknown method {method!r}.")
        return operation(arguments)

    def ping(self, _: Mapping[str, object]) -> dict[str, object]:
        """Say who answers."""
        return {"ok": True, "pid": os.getpid(), "home": self._home.paths.home, "serving": self._serving}

    def event(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Handle a generic event."""
        return handle_event(self._home, parse_event(arguments), now=time.time()).to_json()

    def hook(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Handle one agent's hook payload, and say how the hook client is to end."""
        adapter = find_adapter(read_text(arguments, "agent"))
        payload = parse_payload(read_text(arguments, "payload"))
        event = adapter.translate(payload)
        if event is None:
            return {"stdout": "", "stderr": "", "exit_code": 0}
        switch = arguments.get("checkpoints")
        if event.checkpoints is None and isinstance(switch, bool):
            event = replace(event, checkpoints=switch)
        output = adapter.answer(event, handle_event(self._home, event, now=time.time()))
        return {"stdout": output.stdout, "stderr": output.stderr, "exit_code": output.exit_code}

    def list_checkpoints(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """List a project's checkpoints, newest first."""
        project = self._project(arguments)
        settings, _ = self._home.settings()
        commits = self._history(project)
        statistics = list_statistics(self._home.layout, project.hash, commits) if commits else {}
        listed: dict[str, object] = {
            "workdir": project.workdir,
            "enabled": self._home.is_in_effect(project, settings),
            "checkpoints": [
                describe_checkpoint(commit, number=place, statistics=statistics.get(commit.oid.hex()))
                for place, commit in enumerate(commits, 1)
            ],
            "health": self._health(project),
            "cut_off": describe_cut_off(self._home.layout, project),
        }
        if not commits:
            listed["elsewhere"] = self._list_with_checkpoints()
        return listed

    def restore(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Put a checkpoint back."""
        project = self._project(arguments)
        self._refuse_container(arguments)
        given = read_text(arguments, "hash")
        selection = read_selection(project, arguments)
        now = time.time()
        commits = self._history(project)
        if not commits:
            self._refuse_without_history(project)
        resolve_checkpoint(commits, given)
        with self._home.work_on(project, wait_s=_WAIT_S) as desk:
            commits = list_checkpoints(desk.store)
            checkpoint = resolve_checkpoint(commits, given)
            label = Label(Kind.SAFETY, f"pre-rollback snapshot (restoring to {checkpoint.oid.hex()[:8]})", now)
            record_open_calls(desk, now=now)
            done = self._roll_back(desk, checkpoint, selection, label)
            is_whole = selection.mode is not Mode.SELECTED
            undo_turns = self._count_turns(project, commits, checkpoint) if _changed(done) and is_whole else 0
            if not selection.dry_run:
                self._tell_sessions(project, done)
                go_on_from_here(desk, label)
        return describe_rollback(done, undo_turns=undo_turns)

    def _roll_back(self, desk: Desk, checkpoint: Commit, selection: Selection, label: Label) -> Rollback:
        """Roll back. What is not as it was thought to be is looked at again, and then left in place."""
        baseline, keep_count = desk.bring_up_to_date(whatever_size=True), desk.settings.max_snapshots
        try:
            return roll_back(desk.store, baseline, checkpoint, selection, label=label, keep_count=keep_count)
        except ChangedMeanwhileError as error:
            self._home.engine(desk.store.project).distrust(error.message)
        baseline = desk.bring_up_to_date(whatever_size=True)
        selection = replace(selection, leave_restless=True)
        return roll_back(desk.store, baseline, checkpoint, selection, label=label, keep_count=keep_count)

    def settle(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Finish a rollback that was cut off, or take it back."""
        project = self._project(arguments)
        self._refuse_container(arguments)
        action = read_text(arguments, "action")
        if action not in ("resume", "abort"):
            raise UsageError(f"Unknown action {action!r}; it is resume or abort.")
        now = time.time()
        with self._home.work_on(project, wait_s=_WAIT_S) as desk:
            if action == "resume":
                label = Label(Kind.SAFETY, "rollback finished", now)
                done = finish_rollback(desk.store, label=label, keep_count=desk.settings.max_snapshots)
            else:
                done = take_back_rollback(desk.store, keep_count=desk.settings.max_snapshots)
            self._tell_sessions(project, done)
        return describe_rollback(done, undo_turns=0) | {"action": action}

    def _tell_sessions(self, project: Project, done: Rollback) -> None:
        """Have the turn that goes on take another checkpoint, and the agents learn what changed under them."""
        if _changed(done):
            self._home.sessions.reopen(
                project.hash, notice=describe_to_agent(describe_rollback(done, undo_turns=0), project.workdir)
            )

    def diff(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Compare a checkpoint, or the first one of a session, with the files as they are now."""
        project = self._project(arguments)
        self._refuse_container(arguments)
        given = read_text(arguments, "hash")
        commits = self._history(project)
        if not commits:
            self._refuse_without_history(project)
        checkpoint = _first_of_session(commits, arguments) if given == "session" else resolve_checkpoint(commits, given)
        with self._home.work_on(project, wait_s=_WAIT_S) as desk:
            now = desk.bring_up_to_date(whatever_size=True)
            diff = diff_states(self._home.layout, desk.store.objects, state_of(checkpoint), now.state)
        return describe_diff(diff, baseline=checkpoint)

    def take(self, arguments: Mapping[str, object], on_progress: Progress | None = None) -> dict[str, object]:
        """Take a checkpoint by hand, whether or not the project is opted in."""
        project = self._project(arguments)
        self._home.refuse_too_broad(project)
        self._refuse_missing(project)
        reason = mask_secrets(one_line(read_text(arguments, "reason", default="") or "manual checkpoint"))
        return self._take(project, reason, on_progress)

    def watch(self, arguments: Mapping[str, object], on_progress: Progress | None = None) -> dict[str, object]:
        """Opt a project in or out, or list those that are in."""
        action = read_text(arguments, "action")
        if action == "list":
            return {"projects": list(self._home.watched())}
        if action not in ("add", "remove"):
            raise UsageError(f"Unknown action {action!r}; it is add, remove or list.")
        project = Project.of(os.path.join(read_path(arguments, "cwd", default="/"), read_path(arguments, "path")))
        if action == "remove":
            return self._opt_out(project)
        self._home.refuse_too_broad(project)
        self._refuse_missing(project)
        self._refuse_without_git()
        with self._home.work_on(project, wait_s=_WAIT_S):
            is_new = project.workdir not in self._home.watched()
            if is_new:
                self._home.keep_watched([*self._home.watched(), project.workdir])
            self._home.engine(project).allow_watching()
        reason = "checkpoint at opt-in" if self._history(project) else "first checkpoint"
        return {"workdir": project.workdir, "added": is_new} | self._take(project, reason, on_progress)

    def status(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Describe the store at a glance."""
        del arguments
        return describe_home(self._home, serving=self._serving) | {
            "maintenance": describe_maintenance(self._home, self.upkeep, self._next_runs(), now=time.time())
        }

    def prune(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Sweep now, or say what a sweep would do."""
        settings, _ = self._home.settings()
        cap_mb = read_number(arguments, "max_size_mb", default=settings.max_total_size_mb)
        policy = Policy(
            retention_days=read_number(arguments, "retention_days", default=settings.retention_days),
            max_bytes=int(cap_mb * 1024 * 1024) or None,
            confirmed=read_hashes(arguments, "orphans"),
            dry_run=arguments.get("dry_run") is True,
        )
        return describe_pruned(self.upkeep.sweep(policy, now=time.time()))

    def clear(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Remove everything, or the archives of older repositories only."""
        is_legacy = arguments.get("legacy") is True
        cleared = self.upkeep.clear_archives() if is_legacy else self.upkeep.clear()
        return {
            "deleted": cleared.count,
            "bytes_freed": cleared.freed_bytes,
            "errors": len(cleared.problems),
            "problems": list(cleared.problems),
        }

    def _take(self, project: Project, reason: str, on_progress: Progress | None) -> dict[str, object]:
        started = time.monotonic()
        self._refuse_without_git()
        now = time.time()
        with self._home.work_on(project, wait_s=_WAIT_S) as desk:
            try:
                desk.refuse_full_disk()
                baseline = desk.bring_up_to_date(on_progress=on_progress)
                label = Label(Kind.MANUAL, reason, now)
                taken = take_checkpoint(desk.store, baseline, label, keep_count=desk.settings.max_snapshots)
            except CheckpointError as error:
                desk.note_attempt(now=now, failure=error.message)
                raise
            desk.note_attempt(now=now)
        return {
            "taken": taken.is_new,
            "why": None if taken.is_new else "unchanged",
            "checkpoint": describe_checkpoint(taken.checkpoint),
            "skipped": describe_left_out(baseline),
            "files": baseline.file_count,
            "elapsed_ms": round((time.monotonic() - started) * 1000, 1),
        }

    def _opt_out(self, project: Project) -> dict[str, object]:
        if project.workdir not in self._home.watched():
            raise StoreError(f"{project.workdir} is not opted in.", hint="See: hermes-checkpoints watch list")
        with self._home.hold(wait_s=_WAIT_S):
            self._home.keep_watched(workdir for workdir in self._home.watched() if workdir != project.workdir)
            engine = self._home.find_engine(project.hash)
            if engine is not None:
                engine.stop_watching()
        return {"workdir": project.workdir, "removed": True}

    def _project(self, arguments: Mapping[str, object]) -> Project:
        """Return the project that a request is about."""
        workdir = read_path(arguments, "workdir")
        if not workdir.startswith("/"):
            raise UsageError("`workdir` must be an absolute directory.")
        return self._home.find_project(workdir, "/")

    def _history(self, project: Project) -> list[Commit]:
        """Return a project's checkpoints; reading needs no lock."""
        if not self._home.layout.exists():
            return []
        return list_checkpoints(open_project_store(self._home.layout, project))

    def _health(self, project: Project) -> dict[str, object]:
        settings, _ = self._home.settings()
        record = next((each for name, each in list_projects(self._home.layout) if name == project.hash), None)
        if isinstance(record, CorruptFileError):
            return {"protected": False, "why": record.message, "last_success": None, "last_failure": None}
        return describe_health(record, protected=self._home.is_in_effect(project, settings))

    def _list_with_checkpoints(self) -> list[str]:
        """Return the projects that do have checkpoints."""
        if not self._home.layout.exists():
            return []
        tips = ObjectStore(self._home.layout.store).list_refs("refs/hermes/")
        hashes = {name.rpartition("/")[2] for name in tips}
        records = [record for name, record in list_projects(self._home.layout) if name in hashes]
        return sorted(record.workdir for record in records if not isinstance(record, CorruptFileError))

    def _count_turns(self, project: Project, commits: list[Commit], checkpoint: Commit) -> int:
        """Return how many turns lie between a checkpoint and now, in the session that last changed the project."""
        session = self._home.sessions.find_latest(project.hash)
        newer = [commit.oid.hex() for commit in commits[: commits.index(checkpoint) + 1]]
        return count_turns_since(session, project.hash, newer) if session is not None else 0

    def _refuse_container(self, arguments: Mapping[str, object]) -> None:
        backend = arguments.get("backend")
        if backend in CONTAINERS:
            raise StoreError(
                f"Checkpoints are not taken for terminal.backend={backend}: "
                "file paths belong to the container, not this host."
            )

    def _refuse_without_history(self, project: Project) -> None:
        settings, _ = self._home.settings()
        if not self._home.is_in_effect(project, settings):
            raise StoreError("Checkpoints are not enabled.", hint="Enable with: hermes-checkpoints watch add")
        raise StoreError(f"No checkpoints found for {project.workdir}")

    def _refuse_missing(self, project: Project) -> None:
        if not os.path.isdir(project.workdir):
            raise UsageError(f"{project.workdir} is not a directory.")

    def _refuse_without_git(self) -> None:
        if find_git(os.environ.get("PATH")) is None:
            raise StoreError("git was not found on PATH, so no checkpoint can be taken.", hint="Install git.")


def _changed(done: Rollback) -> bool:
    return bool(done.restored or done.removed)


def _first_of_session(commits: list[Commit], arguments: Mapping[str, object]) -> Commit:
    """Return the oldest kept checkpoint of a session: the one given, else that of the newest checkpoint."""
    session = arguments.get("session") or commits[0].note.get("session")
    return [commit for commit in commits if commit.note.get("session") == session][-1] if session else commits[-1]
