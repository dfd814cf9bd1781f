"""The service's socket: who may connect, and one answer for every line.

Owns the socket file, the threads, and that no client can hurt another. What a request means belongs to the dispatch
function; how a line looks belongs to `watcher.protocol`.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import selectors
import socket
import stat
import tempfile
import threading
import time
from typing import TYPE_CHECKING, Final

from config.errors import CheckpointError
from store.files import make_private_directory
from watcher.client import is_own_peer
from watcher.errors import ProtocolError, ServiceBusy, ServiceRunning, WatcherError
from watcher.protocol import (
    INTERNAL_ERROR,
    MAX_LINE_BYTES,
    LineBuffer,
    format_error,
    format_failure,
    format_progress,
    format_result,
    parse_request,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from watcher.progress import Progress

_log = logging.getLogger(__name__)

MAX_CONNECTIONS: Final = 64
SEND_TIMEOUT_S = 10.0
"""How long a client may take nothing of its answer before it is given up."""
_QUEUE_LENGTH: Final = 128
_PIECE_BYTES: Final = 64 * 1024
_NO_DESCRIPTORS_WAIT_S: Final = 0.1
_LAST_WAIT_S: Final = 1.0
"""For threads that only have to notice that their connection is closed."""
_UNEXPECTED: Final = "hermes-checkpoints failed unexpectedly; see the log."
_SHARED_DIRECTORIES: Final = ("/tmp", "/var/tmp")  # noqa: S108 - named to be mistrusted


class Server:
    """Answer the requests of this user's processes at one socket."""

    def __init__(
        self,
        socket_path: str,
        dispatch: Callable[[str, dict[str, object], Progress | None], object],
        *,
        max_line_bytes: int = MAX_LINE_BYTES,
    ) -> None:
        """Prepare; nothing is touched before `start`.

        Args:
            socket_path: Where to listen.
            dispatch: Carries a request out and returns what JSON can hold. Called by many threads at once. Its third
                argument sends how far the work is, where the request asked for that.
            max_line_bytes: The longest request.
        """
        self._socket_path = socket_path
        self._dispatch = dispatch
        self._max_line_bytes = max_line_bytes
        self._identity: tuple[int, int] | None = None
        self._waker: socket.socket | None = None
        self._accept_thread = threading.Thread()
        self._stopping = threading.Event()
        self._guard = threading.Lock()
        self._connections: dict[socket.socket, threading.Thread] = {}

    def start(self) -> None:
        """Listen, and answer from now on.

        The socket can be used by this user alone. A socket file that a killed service left is replaced.

        Raises:
            ServiceRunning: Somebody answers at the socket.
            WatcherError: The directory is not safe, or the socket can't be made there.
        """
        directory = os.path.dirname(self._socket_path)
        try:
            make_private_directory(directory)
            _refuse_unsafe_directory(directory)
            with _locked(directory):
                listener = _listen(self._socket_path)
                self._identity = _read_identity(self._socket_path)
            receiver, self._waker = socket.socketpair()
        except OSError as error:
            reason = error.strerror or str(error)
            raise WatcherError(f"The service can't listen at {self._socket_path}: {reason}.") from error
        self._accept_thread = threading.Thread(target=self._accept_all, args=(listener, receiver), name="accept")
        self._accept_thread.start()

    def stop(self, timeout_s: float) -> None:
        """Take no more requests, let those that run end, and go. Not to be called by the dispatch function.

        Args:
            timeout_s: How long running requests may take to end; after that their connections are closed, and what
                still runs is left to itself and named in the log.
        """
        self._stopping.set()
        self._stop_accepting()
        threads = self._shut_down(socket.SHUT_RD)  # nothing more is read; answers still go out
        _join_all(threads, timeout_s)
        _join_all(self._shut_down(socket.SHUT_RDWR), _LAST_WAIT_S)
        left_count = sum(thread.is_alive() for thread in threads)
        if left_count:
            _log.warning("%d requests did not end within %g seconds", left_count, timeout_s)

    def _stop_accepting(self) -> None:
        """Remove the socket file, then close the listener: while that is open, its inode can't be another's."""
        if self._waker is None:
            return
        with contextlib.suppress(OSError), _locked(os.path.dirname(self._socket_path)):
            if _read_identity(self._socket_path) == self._identity:
                os.unlink(self._socket_path)
        self._waker.close()
        self._waker = None
        self._accept_thread.join()

    def _shut_down(self, how: int) -> list[threading.Thread]:
        """Shut every connection down, and return the threads that serve them."""
        with self._guard:
            for connection in self._connections:
                with contextlib.suppress(OSError):  # the client is gone
                    connection.shutdown(how)
            return list(self._connections.values())

    def _accept_all(self, listener: socket.socket, receiver: socket.socket) -> None:
        """Accept until the other end of the receiver is closed."""
        with listener, receiver, selectors.DefaultSelector() as selector:
            selector.register(listener, selectors.EVENT_READ)
            selector.register(receiver, selectors.EVENT_READ)
            while not self._stopping.is_set():
                selector.select()
                try:
                    connection, _ = listener.accept()
                except (BlockingIOError, ConnectionAbortedError):
                    continue
                except OSError as error:  # no descriptors or no memory left: it may pass
                    _log.warning("a client could not be accepted: %s", error)
                    self._stopping.wait(_NO_DESCRIPTORS_WAIT_S)
                else:
                    self._admit(connection)

    def _admit(self, connection: socket.socket) -> None:
        """Give a client a thread of its own, if it may have one."""
        try:
            connection.setblocking(True)
            is_own = is_own_peer(connection)
        except OSError:
            is_own = False
        if not is_own:
            connection.close()
            return
        thread = threading.Thread(target=self._serve, args=(connection,), name="connection", daemon=True)
        with self._guard:
            is_full = len(self._connections) >= MAX_CONNECTIONS
            if not is_full:
                self._connections[connection] = thread
        if is_full:
            _refuse_busy(connection)
            return
        try:
            thread.start()
        except RuntimeError as error:
            _log.warning("a client could not be given a thread: %s", error)
            self._hang_up(connection)

    def _serve(self, connection: socket.socket) -> None:
        """Answer one client, line by line, until it hangs up."""
        lines = LineBuffer(self._max_line_bytes)
        try:
            while not self._stopping.is_set() and (piece := connection.recv(_PIECE_BYTES)):
                lines.feed(piece)
                self._answer_complete(connection, lines)
        except OSError as error:
            _log.debug("a client went away: %s", error)
        finally:
            self._hang_up(connection)

    def _answer_complete(self, connection: socket.socket, lines: LineBuffer) -> None:
        """Answer the lines that are complete."""
        while not self._stopping.is_set():
            try:
                line = lines.take_line()
            except ProtocolError as error:
                _send(connection, format_failure(None, error))
                continue
            if line is None:
                return
            _send(connection, self._answer(connection, line))

    def _answer(self, connection: socket.socket, line: bytes) -> bytes:
        """Return the answer to one line, whatever happens."""
        request_id = None
        try:
            try:
                request = parse_request(line)
                request_id = request.id
                on_progress = _reporter(connection) if request.params.get("progress") is True else None
                return format_result(request_id, self._dispatch(request.method, request.params, on_progress))
            except ProtocolError as error:
                return format_failure(request_id if error.request_id is None else error.request_id, error)
            except CheckpointError as error:
                return format_failure(request_id, error)
        except Exception:  # noqa: BLE001 - one bad request must not end the connection
            _log.exception("a request failed unexpectedly")
            return format_error(request_id, INTERNAL_ERROR, _UNEXPECTED, {"kind": "internal", "exit_code": 1})

    def _hang_up(self, connection: socket.socket) -> None:
        # Closed under the guard, so that `stop` never shuts down a descriptor that has become another file's.
        with self._guard:
            del self._connections[connection]
            connection.close()


def _reporter(connection: socket.socket) -> Progress:
    """Return what tells a client how far the work is; one that has gone away is told nothing, and the work goes on."""

    def report(done_count: int, total_count: int) -> None:
        with contextlib.suppress(OSError):
            _send(connection, format_progress(done_count, total_count))

    return report


def _refuse_unsafe_directory(directory: str) -> None:
    """Refuse a directory in which somebody else could put a socket in place of ours.

    Raises:
        WatcherError: It belongs to another user, or is open to others below a directory that all users share.
    """
    user = os.geteuid()
    if os.lstat(directory).st_uid != user or os.stat(directory).st_uid != user:
        raise WatcherError(
            f"The service can't listen in {directory}: it belongs to another user.",
            hint="Set XDG_RUNTIME_DIR to a directory of your own.",
        )
    if os.stat(directory).st_mode & 0o077 and _is_shared(directory):
        raise WatcherError(
            f"The service can't listen in {directory}: other users can enter it.",
            hint=f"Close it with: chmod 700 {directory}",
        )


def _is_shared(directory: str) -> bool:
    """Say whether a directory is, or is below, one in which every user may write."""
    resolved = os.path.realpath(directory)
    shared = {os.path.realpath(each) for each in (*_SHARED_DIRECTORIES, tempfile.gettempdir())}
    return any(resolved == each or resolved.startswith(each + "/") for each in shared)


@contextlib.contextmanager
def _locked(directory: str) -> Iterator[None]:
    """Keep other services out while a socket file in a directory is looked at and changed."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _listen(path: str) -> socket.socket:
    """Make the socket file and listen at it."""
    _remove_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(path)
        # Before it listens nobody can connect, so there is no moment at which others could; and unlike a umask, this
        # does not reach the files that other threads make meanwhile.
        os.chmod(path, 0o600)
        listener.listen(_QUEUE_LENGTH)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def _remove_stale(path: str) -> None:
    """Remove a socket file that nobody listens at.

    Raises:
        ServiceRunning: Somebody does.
        WatcherError: It is no socket, so it is not ours to remove.
    """
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise WatcherError(f"{path} is in the way: it is not a socket.", hint="Move it away.")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except BlockingIOError:
            pass  # its queue is full: somebody is there
    raise ServiceRunning(f"A service listens at {path} already.")


def _read_identity(path: str) -> tuple[int, int]:
    status = os.lstat(path)
    return status.st_dev, status.st_ino


def _refuse_busy(connection: socket.socket) -> None:
    """Tell a client that there are too many, without waiting for it."""
    error = ServiceBusy(
        f"The service has {MAX_CONNECTIONS} clients, which is as many as it takes.", hint="Try again in a moment."
    )
    with connection, contextlib.suppress(OSError):
        connection.setblocking(False)
        connection.send(format_failure(None, error))


def _send(connection: socket.socket, answer: bytes) -> None:
    """Send an answer; a client may be slow, but not take nothing at all.

    Raises:
        OSError: The client is gone, or took nothing for too long.
    """
    connection.settimeout(SEND_TIMEOUT_S)
    rest = memoryview(answer)
    while rest:
        rest = rest[connection.send(rest) :]
    connection.settimeout(None)


def _join_all(threads: list[threading.Thread], timeout_s: float) -> None:
    deadline_s = time.monotonic() + timeout_s
    for thread in threads:
        thread.join(max(0.0, deadline_s - time.monotonic()))
