"""Watch one project: every change on disk becomes an entry of its dirty set.

`ProjectWatch` is what the engine uses. Below it, watchdog gives the frame (threads, start, stop, delivery of "something
changed"), and `ProjectEmitter` is the thread that the project's `Follower` runs on.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
import time
from typing import TYPE_CHECKING, ClassVar

from watchdog.events import DirModifiedEvent, FileSystemEvent, FileSystemEventHandler
from watchdog.observers.api import DEFAULT_EMITTER_TIMEOUT, BaseObserver, EventEmitter, EventQueue, ObservedWatch

from watcher import inotify
from watcher.follower import FollowedProject, Follower, WatchState

if TYPE_CHECKING:
    from collections.abc import Callable

    from watcher.dirty import DirtySet

log = logging.getLogger(__name__)

_SETTLE_MS = 20
"""Waited after the first event, unless a barrier asks: reading in batches takes a fifth of the CPU time."""


class _Ticket:
    """One caller of `barrier` that waits."""

    __slots__ = ("done", "is_proven")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.is_proven = False


class ProjectEmitter(EventEmitter):
    """Follow a project on a thread, and answer those who ask for a barrier.

    watchdog makes the instance, so the project is an attribute of a subclass made for it. The object is also a
    `threading.Thread`, which has many names of its own: everything about watching is in `Follower`.
    """

    project: ClassVar[FollowedProject]

    def __init__(
        self,
        event_queue: EventQueue,
        watch: ObservedWatch,
        *,
        timeout: float = DEFAULT_EMITTER_TIMEOUT,
        event_filter: list[type[FileSystemEvent]] | None = None,
    ) -> None:
        super().__init__(event_queue, watch, timeout=timeout, event_filter=event_filter)
        self._follower = Follower(self.project)
        self._requests_lock = threading.Lock()
        self._tickets: list[_Ticket] = []
        self._is_retry_asked = False
        self._refresh_reason: str | None = None
        self._is_wake_closed = False
        self._wake_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    @property
    def state(self) -> WatchState:
        """The state as of the last events read."""
        return self._follower.state

    def ask(self) -> _Ticket:
        """Ask that all events of now are read; the ticket is done when they are, or can't be."""
        ticket = _Ticket()
        with self._requests_lock:
            if self._is_wake_closed:
                ticket.done.set()
            else:
                self._tickets.append(ticket)
                self._wake()
        return ticket

    def retry(self) -> None:
        """Try at once to heal a watch that isn't whole."""
        with self._requests_lock:
            self._is_retry_asked = True
            self._wake()

    def refresh(self, reason: str) -> None:
        """Walk the project again, because other directories may be excluded now."""
        with self._requests_lock:
            self._refresh_reason = reason
            self._wake()

    def on_thread_stop(self) -> None:
        """Wake the thread, so that it sees that it is to end."""
        with self._requests_lock:
            self._wake()

    def run(self) -> None:
        """Follow until stopped, then close what is open."""
        try:
            super().run()
        finally:
            with self._requests_lock:
                self._is_wake_closed = True
                tickets, self._tickets = self._tickets, []
                os.close(self._wake_fd)
            self._follower.close()
            _release(tickets, is_proven=False)

    def queue_events(self, timeout: float) -> None:  # noqa: ARG002 - it sleeps until there is something to do
        """Wait for events or a wake-up, and bring the dirty set up to date."""
        self._wait()
        with self._requests_lock:
            tickets, self._tickets = self._tickets, []
            is_forced, self._is_retry_asked = self._is_retry_asked, False
            refresh_reason, self._refresh_reason = self._refresh_reason, None
        is_proven = self._follower.follow(is_asked=bool(tickets), is_forced=is_forced, refresh_reason=refresh_reason)
        _release(tickets, is_proven=is_proven)
        if self._follower.take_news() and self.project.announce:
            # The queue drops repeats of its last item, so however slow the consumer is, one event waits.
            self.queue_event(DirModifiedEvent(self.watch.path))

    def _wake(self) -> None:
        """Wake the thread. The lock is held, so the descriptor can't be closed meanwhile."""
        if not self._is_wake_closed:
            os.eventfd_write(self._wake_fd, 1)

    def _wait(self) -> None:
        poll = select.poll()
        poll.register(self._wake_fd, select.POLLIN)
        if self._follower.fd >= 0:
            poll.register(self._follower.fd, select.POLLIN)
        wake_at = self._follower.wake_at
        ready = poll.poll(None if wake_at is None else max(0.0, wake_at - time.monotonic()) * 1000)
        if ready and all(fd != self._wake_fd for fd, _ in ready):
            poll.unregister(self._follower.fd)
            poll.poll(_SETTLE_MS)
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake_fd)


def _release(tickets: list[_Ticket], *, is_proven: bool) -> None:
    for ticket in tickets:
        ticket.is_proven = is_proven
        ticket.done.set()


class _Announcer(FileSystemEventHandler):
    """Pass "something changed" on to its one listener."""

    def __init__(self, on_dirty: Callable[[], None] | None) -> None:
        self._on_dirty = on_dirty

    def dispatch(self, event: FileSystemEvent) -> None:  # noqa: ARG002 - there is only one kind
        """Call the listener."""
        if self._on_dirty is not None:
            self._on_dirty()


class ProjectWatch:
    """The watch over one project. It never raises for what it finds on disk: its state says what is wrong.

    Args:
        workdir: The project's directory, absolute; links on the way to it are resolved.
        is_excluded: Says of a directory, by its path relative to the workdir, that it is not watched. It is called
            on the watching thread, for each directory before it is watched.
        dirty: Where changes are noted.
        forget: Says of a directory that what `is_excluded` was told by the disk below it may be outdated; of the
            workdir (b"") that everything may be. Called on the watching thread.
        on_dirty: Called on a thread of its own after something was noted; calls are run together. It must be quick
            and must not raise.
        watch_nested: Whether nested repositories are watched like any directory.
    """

    def __init__(
        self,
        workdir: bytes,
        is_excluded: Callable[[bytes], bool],
        dirty: DirtySet,
        *,
        forget: Callable[[bytes], None] = lambda _: None,
        on_dirty: Callable[[], None] | None = None,
        watch_nested: bool = False,
    ) -> None:
        self._project = FollowedProject(workdir, is_excluded, forget, dirty, watch_nested, on_dirty is not None)
        self._handler = _Announcer(on_dirty)
        self._observer: BaseObserver | None = None
        self._emitter: ProjectEmitter | None = None
        self._idle_state = WatchState("scan", "the watch is not started", time.time(), 0, 0)

    @property
    def state(self) -> WatchState:
        """Whether events can be trusted, and if not, why."""
        return self._idle_state if self._emitter is None else self._emitter.state

    def start(self) -> None:
        """Begin to watch and return at once; `barrier` waits until the watch is set up. Called again: try to heal."""
        if self._emitter is not None:
            self._emitter.retry()
            return
        if not inotify.is_available():
            self._rest("this system has no inotify")
            return

        class Emitter(ProjectEmitter):
            project = self._project

        observer = BaseObserver(Emitter)
        try:
            observer.schedule(self._handler, os.fsdecode(self._project.workdir), recursive=True)
        except OSError as error:
            self._rest(f"the watch can't be started: {error.strerror}")
            return
        observer.start()
        (emitter,) = observer.emitters
        assert isinstance(emitter, ProjectEmitter)  # noqa: S101 - the class given above
        self._observer, self._emitter = observer, emitter

    def stop(self) -> None:
        """End the threads and close the descriptors. The set keeps what was noted."""
        observer, self._observer, self._emitter = self._observer, None, None
        self._rest("the watch is stopped")
        if observer is not None:
            observer.stop()
            observer.join()

    def barrier(self, timeout_s: float) -> bool:
        """Prove that every change whose system call returned before this call is covered by the dirty set.

        Returns:
            False when that could not be proven in time, or the watch is not whole: the caller scans.
        """
        emitter = self._emitter
        if emitter is None:
            return False
        ticket = emitter.ask()
        return ticket.done.wait(timeout_s) and ticket.is_proven

    def refresh(self, reason: str) -> None:
        """Ask `is_excluded` again for every directory, and note that a scan is needed."""
        if self._emitter is not None:
            self._emitter.refresh(reason)

    def _rest(self, why: str) -> None:
        self._idle_state = WatchState("scan", why, time.time(), 0, 0)
