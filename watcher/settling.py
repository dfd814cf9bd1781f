"""Look at projects that changed without any announcement, and keep the state before such changes.

Owns the thread that does so, and the checkpoint before the first change of a burst. When to look belongs to
`watcher.debounce`. What an agent's turn changes is the turn's: its own checkpoint is before it.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import TYPE_CHECKING

from config.errors import CheckpointError
from store.checkpoint import Kind, Label, take_checkpoint
from store.state import compare_states
from watcher.debounce import Changes, Pace, calm_down, next_look, note_change, note_look, note_restless
from watcher.reasons import describe_unhooked

if TYPE_CHECKING:
    from store.layout import ProjectHash
    from watcher.engine import Engine
    from watcher.home import Desk, Home

_log = logging.getLogger(__name__)
_WAIT_S = 60.0
_TURN_S = 3600.0
"""A turn that was silent for longer is over, though nobody said so."""


class Settling:
    """Look at projects when their changes have settled."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._wake = threading.Condition()
        self._changes: dict[ProjectHash, Changes] = {}
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="settling")

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, after a look that is under way."""
        with self._wake:
            self._is_stopping = True
            self._wake.notify()
        if self._thread.ident is not None:
            self._thread.join()

    def note_change(self, engine: Engine) -> None:
        """Take note that something changed in a project. Called by its watch."""
        now, pace = time.monotonic(), self._pace()
        with self._wake:
            known = calm_down(self._changes.get(engine.project.hash, Changes()), now, pace)
            is_worth_a_look = not known.restless or engine.has_changed_beyond(known.restless)
            after = note_change(known, now, pace) if is_worth_a_look else note_restless(known, now)
            self._changes[engine.project.hash] = after
            self._wake.notify()

    def _run(self) -> None:
        while (project := self._wait()) is not None:
            engine = self._home.find_engine(project)
            if engine is not None:
                self._look(engine)

    def _wait(self) -> ProjectHash | None:
        """Wait for a project that is to be looked at; nothing when it is time to stop."""
        with self._wake:
            while not self._is_stopping:
                pace = self._pace()
                times = {name: at for name, each in self._changes.items() if (at := next_look(each, pace)) is not None}
                due = min(times, key=lambda name: times[name], default=None)
                if due is not None and times[due] <= time.monotonic():
                    return due
                self._wake.wait(None if due is None else max(0.0, times[due] - time.monotonic()))
        return None

    def _look(self, engine: Engine) -> None:
        project = engine.project
        with self._wake:
            before = self._changes[project.hash]
        paths: frozenset[bytes] = frozenset()
        try:
            if engine.watch_state is not None and self._home.layout.exists():
                with self._home.work_on(project, wait_s=_WAIT_S) as desk:
                    paths = _settle(desk, engine, begins_burst=not before.look_count, changed_s=_age(before))
        except (CheckpointError, OSError) as error:
            _log.warning("%s could not be looked at after a change: %s", project.workdir, error)
        with self._wake:
            after = note_look(before, paths, time.monotonic())
            now = self._changes[project.hash]
            if now.last > before.last:
                after = note_change(after, now.last, self._pace())
            self._changes[project.hash] = after

    def _pace(self) -> Pace:
        watch = self._home.settings()[0].watch
        return Pace(watch.quiet_ms / 1000, watch.idle_gap_s, watch.max_wait_s)


def _age(changes: Changes) -> float:
    """Return for how many seconds the project has been changing."""
    return time.monotonic() - (changes.first if changes.first is not None else changes.last)


def _settle(desk: Desk, engine: Engine, *, begins_burst: bool, changed_s: float) -> frozenset[bytes]:
    """Make the files of now the baseline, and the state before them a checkpoint if a burst begins with them.

    Returns:
        The paths that had changed.
    """
    project, before = engine.project, engine.find_baseline(desk.store.layout)
    after = desk.bring_up_to_date()
    if before is None or before.state == after.state:
        return frozenset()
    paths = [change.path for change in compare_states(desk.store.objects, before.state, after.state)]
    now = time.time()
    if begins_burst and paths and not _is_announced(desk, now - changed_s, now):
        desk.refuse_full_disk()
        label = Label(Kind.UNHOOKED, describe_unhooked([os.fsdecode(path) for path in paths]), now)
        taken = take_checkpoint(desk.store, before, label, keep_count=desk.settings.max_snapshots)
        _log.info("%s: %s%s", project.workdir, label.reason, "" if taken.is_new else " (recorded already)")
    return frozenset(paths)


def _is_announced(desk: Desk, began_at: float, now: float) -> bool:
    """Tell whether a change falls into a turn of an agent that has a checkpoint of the project.

    Args:
        desk: The project, under the lock.
        began_at: Of the change; seconds since the epoch.
        now: The same.
    """
    slack_s = desk.settings.watch.quiet_ms / 1000
    for session in desk.home.sessions.list_touching(desk.store.project.hash):
        if any(opened.owner is not None for opened in session.open_calls.values()):
            continue  # a program that announces nothing of what it does
        if session.last_event >= began_at - slack_s or (
            not session.is_turn_over and now - session.last_event < _TURN_S
        ):
            return True
    return False
