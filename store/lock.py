"""The one lock of a store: a kernel lock on a file beside the base, and a queue inside the process.

Owns mutual exclusion and its waiting. The kernel drops the lock when its holder dies, so there is no stale lock; the
file stays where it is for ever, since deleting it would let two holders in.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from store.errors import StoreBusyError
from store.files import make_private_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from store.layout import Layout

_POLL_INTERVAL_S = 0.005
"""The kernel's lock has no timed wait, and other processes hold it for milliseconds."""


class StoreLock:
    """Let one holder at a time work on a store; threads of one process are served in the order they came."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._file_lock = FileLock(layout.lock_file, mode=0o600, fallback_to_soft=False)
        self._guard = threading.Lock()
        self._waiting: deque[threading.Event] = deque()

    @contextmanager
    def hold(self, *, wait_s: float) -> Iterator[None]:
        """Hold the lock for the body of a `with`.

        Args:
            wait_s: How long to wait for others.

        Raises:
            StoreBusyError: Somebody else held it all that time.
        """
        give_up_at = time.monotonic() + wait_s
        turn = self._join_queue()
        try:
            if not turn.wait(max(0.0, give_up_at - time.monotonic())):
                raise self._busy()
            self._acquire_file(max(0.0, give_up_at - time.monotonic()))
            try:
                yield
            finally:
                self._file_lock.release()
        finally:
            self._leave_queue(turn)

    def _acquire_file(self, wait_s: float) -> None:
        make_private_directory(os.path.dirname(self._layout.lock_file))
        try:
            self._file_lock.acquire(timeout=wait_s, poll_interval=_POLL_INTERVAL_S)
        except Timeout:
            raise self._busy() from None

    def _busy(self) -> StoreBusyError:
        return StoreBusyError(f"checkpoint store is busy: {self._layout.base}")

    def _join_queue(self) -> threading.Event:
        turn = threading.Event()
        with self._guard:
            self._waiting.append(turn)
            if self._waiting[0] is turn:
                turn.set()
        return turn

    def _leave_queue(self, turn: threading.Event) -> None:
        with self._guard:
            self._waiting.remove(turn)
            if self._waiting:
                self._waiting[0].set()
