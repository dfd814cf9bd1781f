"""Take in the content of many files: into one pack, and on all cores where that is worth its start.

Owns the choice between reading here and reading by `store.reader` processes, and their life. Threads don't do: a small
file costs a dozen short calls, each of which has to get Python's one lock back. Files are read while the walk still
finds others. What is read stands in the pack, which becomes part of the store when the block ends without an error.
"""

from __future__ import annotations

import os
import queue
import stat
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from enum import Enum, auto
from typing import IO, TYPE_CHECKING, Self

from store.capture import capture_path
from store.pack import PACKED_FILES
from store.reader import COMMAND, receive, send, take_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from store.capture import LeftOut, Scope
    from store.entries import Node
    from store.objects import ObjectStore
    from store.pack import PackWriter

_SHARED_FILES = 2_000
_SHARED_BYTES = 32 << 20
"""From so much on, readers save more than the tenth of a second that each one takes to start."""
_MOST_READERS = 8
_FILES_AT_ONCE = 64
"""How many files are read between two looks at the clock."""
_BYTES_AT_ONCE = 2 << 20
_LARGE_BYTES = 16 << 20
"""A larger file is read here, so that no more than a few of them are in memory at once."""
_PIPE_BYTES = 1 << 20
"""An answer fits in, so that a reader goes on at once."""
_LOOK_AGAIN_S = 0.05
_REPORT_S = 0.05

File = tuple[bytes, os.stat_result]
"""The path of a file and its stat data when it was met."""


class Intake:
    """Read files, some while others are still being found. A failure leaves nothing in the store."""

    def __init__(self, objects: ObjectStore, scope: Scope) -> None:
        self.count = 0
        """How many files were given."""
        self._objects = objects
        self._scope = scope
        self._stack = ExitStack()
        self._pack: PackWriter | None = None
        self._readers: _Readers | None = None
        self._here: list[File] = []
        """What is to be read in this process."""
        self._bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._readers is not None:
            self._readers.stop()
        self._stack.__exit__(kind, error, traceback)

    def add(self, path: bytes, status: os.stat_result) -> None:
        """Have one file read, now or later."""
        self.count += 1
        self._bytes += status.st_size
        if self._readers is None:
            self._here.append((path, status))
            if self.count >= PACKED_FILES and self._pack is None:
                self._pack = self._stack.enter_context(self._objects.in_one_pack())
            if self._pack is not None and (self.count == _SHARED_FILES or self._bytes >= _SHARED_BYTES):
                self._share(self._pack)
        elif _is_for_readers(status):
            self._readers.add(path, status)
        else:
            self._here.append((path, status))

    def results(self) -> Iterator[tuple[File, Node | LeftOut | None]]:
        """Yield every file with what became of it, as `capture_path` says it; to be called when all were given.

        Raises:
            DeadlinePassedError: The time is over.
            PackFailedError: The pack can't be written.
        """
        reported_s, on_progress = 0.0, self._scope.limits.on_progress
        for done_count, (file, found) in enumerate(self._read_all(), 1):
            yield file, found
            if done_count % _FILES_AT_ONCE == 0 and time.monotonic() - reported_s >= _REPORT_S:
                on_progress(done_count, self.count)
                reported_s = time.monotonic()
        on_progress(self.count, self.count)

    def finished(self) -> Iterator[tuple[File, Node | LeftOut | None]]:
        """Read no more, and yield what was read and not yielded yet."""
        if self._readers is not None:
            self._readers.stop()
            yield from ((file, found) for file, found in self._readers.finished() if not isinstance(found, _Mark))

    def _read_all(self) -> Iterator[tuple[File, Node | LeftOut | None]]:
        if self._readers is not None:
            for file, found in self._readers.results(self._scope.limits.check_deadline):
                if isinstance(found, _Mark):
                    self._here.append(file)
                else:
                    yield file, found
        for done_count, file in enumerate(self._here):
            if done_count % _FILES_AT_ONCE == 0:
                self._scope.limits.check_deadline()
            yield file, capture_path(self._objects, self._scope.root, file[0], self._scope.limits)

    def _share(self, pack: PackWriter) -> None:
        """Leave what is to be read to other processes, if there are cores for them."""
        count = min(_count_cores(), _MOST_READERS)
        if count < 2 or not sys.executable or getattr(sys, "frozen", False):
            return
        self._readers = _Readers(pack, self._scope, count)
        waiting, self._here = self._here, []
        for path, status in waiting:
            if _is_for_readers(status):
                self._readers.add(path, status)
            else:
                self._here.append((path, status))


class _Mark(Enum):
    UNREAD = auto()
    """Says that all readers were lost before they had read a file."""


_Result = tuple[File, "Node | LeftOut | _Mark | None"]


class _Readers:
    """Some processes that read, and a thread for each that feeds it and puts what comes back into the pack."""

    def __init__(self, pack: PackWriter, scope: Scope, count: int) -> None:
        self._pack = pack
        self._scope = scope
        self._chunk: list[File] = []
        self._chunk_bytes = 0
        self._chunk_count = 0
        self._finished_count = 0
        self._is_stopped = False
        self._waiting: queue.SimpleQueue[list[File] | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[list[_Result] | Exception] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run, name=f"reader-{number}", daemon=True) for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def add(self, path: bytes, status: os.stat_result) -> None:
        self._chunk.append((path, status))
        self._chunk_bytes += status.st_size
        if len(self._chunk) >= _FILES_AT_ONCE or self._chunk_bytes >= _BYTES_AT_ONCE:
            self._hand_out()

    def results(self, check_deadline: Callable[[], None]) -> Iterator[_Result]:
        """Yield everything that was added, in the order in which it was read."""
        self._hand_out()
        while self._finished_count < self._chunk_count:
            check_deadline()
            is_lost = not any(thread.is_alive() for thread in self._threads)
            try:
                yield from self._next(0 if is_lost else _LOOK_AGAIN_S)
            except queue.Empty:
                if is_lost:
                    yield from ((file, _Mark.UNREAD) for file in self._take_back())
                    return

    def finished(self) -> Iterator[_Result]:
        """Yield what was read so far and not yielded yet."""
        with suppress(queue.Empty):
            while True:
                yield from self._next(0)

    def stop(self) -> None:
        """Let what is being read be the last."""
        self._is_stopped = True
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()

    def _take_back(self) -> Iterator[File]:
        """Remove and return what no process has read."""
        with suppress(queue.Empty):
            while True:
                yield from self._waiting.get_nowait() or ()

    def _hand_out(self) -> None:
        if self._chunk:
            self._chunk_count += 1
            self._waiting.put(self._chunk)
            self._chunk, self._chunk_bytes = [], 0

    def _next(self, timeout_s: float) -> list[_Result]:
        finished = self._results.get(timeout=timeout_s) if timeout_s else self._results.get_nowait()
        if isinstance(finished, Exception):
            raise finished
        self._finished_count += 1
        return finished

    def _run(self) -> None:
        """Feed one process until nothing more is to be read, or it is lost."""
        process = _start_reader()
        if process is None:
            return
        try:
            self._feed(process)
        finally:
            _end_reader(process)

    def _feed(self, process: subprocess.Popen[bytes]) -> None:
        greeting: object = (self._scope.root, self._scope.limits.max_file_bytes)
        while (chunk := self._waiting.get()) is not None and not self._is_stopped:
            try:
                if greeting is not None:
                    send(_pipe(process.stdin), greeting)
                    greeting = None
                send(_pipe(process.stdin), [path for path, _ in chunk])
                answers = receive(_pipe(process.stdout))
            except (OSError, EOFError, ValueError):
                self._waiting.put(chunk)
                return
            try:
                pairs = zip(chunk, answers, strict=True)
                self._results.put([(file, take_in(self._pack, file[0], answer)) for file, answer in pairs])
            except Exception as error:  # noqa: BLE001 - raised again where the results are taken
                self._results.put(error)
                return


def _start_reader() -> subprocess.Popen[bytes] | None:
    """Start a reader; nothing when the system has no process left.

    It is in a process group of its own, since a Ctrl-C is for this process to handle, and ends when its pipe does.
    """
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    options = ["-I", "-S", "-B"]
    if sys.pycache_prefix is not None:
        options += ["-X", f"pycache_prefix={sys.pycache_prefix}"]
    places = [place for place in sys.path if os.path.isabs(place)]
    try:
        return subprocess.Popen(
            [sys.executable, *options, "-c", COMMAND, here, *places],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pipesize=_PIPE_BYTES,
            cwd="/",
            process_group=0,
        )
    except OSError:
        return None


def _end_reader(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):  # it died with something unread
            _pipe(pipe).close()
    process.wait()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None  # noqa: S101 - readers are started with pipes
    return pipe


def _is_for_readers(status: os.stat_result) -> bool:
    """Tell whether a file is an ordinary one; all else is looked at here."""
    return stat.S_ISREG(status.st_mode) and status.st_size <= _LARGE_BYTES


def _count_cores() -> int:
    """Return how many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
