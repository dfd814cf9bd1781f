"""The service's client: one call, one answer.

Owns how the service is reached, and who is believed to be it: only a process of the same user is talked to. It imports
little, since an agent waits for it at every tool call.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from typing import TYPE_CHECKING, Final, Self

from watcher.errors import ProtocolError, ServiceTimeout, ServiceUnreachable
from watcher.protocol import INVALID_REQUEST, MAX_LINE_BYTES, LineBuffer, format_request, parse_progress, parse_reply

if TYPE_CHECKING:
    from types import TracebackType

    from watcher.progress import Progress

_PIECE_BYTES: Final = 64 * 1024
_FULL_QUEUE_WAIT_S: Final = 0.005
_START_HINT: Final = "Start it with: hermes-checkpoints serve"


class Client:
    """Talk to the service at one socket. Not to be shared between threads."""

    def __init__(self, socket_path: str, *, timeout_s: float) -> None:
        """Prepare; nothing is connected before the first call.

        Args:
            socket_path: Where the service listens.
            timeout_s: The longest that one call may take, from connecting to the last byte of the answer.
        """
        self._socket_path = socket_path
        self._timeout_s = timeout_s
        self._socket: socket.socket | None = None
        self._lines = LineBuffer()
        self._next_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up; the next call connects again."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._lines = LineBuffer()

    def call(self, method: str, on_progress: Progress | None = None, /, **params: object) -> object:
        """Ask the service and return its result.

        Args:
            method: What is asked for.
            on_progress: Called with how many of how many are done, each time that the service tells.
            params: About what.

        Raises:
            ServiceUnreachable: Nobody answers, the service went away before it answered, or the socket is not ours.
            ServiceTimeout: The answer did not come in time.
            ProtocolError: The request is too long, or the service could not understand it.
            CheckpointError: What the service raised, as the same class.
        """
        self._next_id += 1
        asked = params if on_progress is None else {**params, "progress": True}
        line = format_request(self._next_id, method, asked)
        if len(line) > MAX_LINE_BYTES + 1:
            raise ProtocolError(f"The request is longer than {MAX_LINE_BYTES} bytes.", code=INVALID_REQUEST)
        deadline_s = time.monotonic() + self._timeout_s
        try:
            if self._socket is None:
                self._socket = self._connect(deadline_s)
            reply = self._exchange(self._socket, line, deadline_s)
            while (counts := parse_progress(reply)) is not None:
                if on_progress is not None:
                    on_progress(*counts)
                reply = self._receive(self._socket, deadline_s)
        except TimeoutError:
            self.close()  # the answer may still come, and is not the next call's
            raise ServiceTimeout(f"The service did not answer within {self._timeout_s:g} seconds.") from None
        except OSError as error:
            self.close()
            reason = error.strerror or str(error)
            raise ServiceUnreachable(
                f"The service can't be reached at {self._socket_path}: {reason}.", hint=_START_HINT
            ) from error
        except BaseException:
            self.close()
            raise
        return parse_reply(reply)

    def _connect(self, deadline_s: float) -> socket.socket:
        """Connect, and make sure that the other end is ours.

        Raises:
            ServiceUnreachable: It belongs to another user.
            TimeoutError: The queue of the service stayed full.
            OSError: Nobody answers.
        """
        self._refuse_foreign(is_own=os.lstat(self._socket_path).st_uid == os.geteuid())
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            while True:
                connection.settimeout(_remaining_s(deadline_s))
                try:
                    connection.connect(self._socket_path)
                    break
                except BlockingIOError:  # the queue of connections is full: connect(2), EAGAIN
                    time.sleep(_FULL_QUEUE_WAIT_S)
            self._refuse_foreign(is_own=is_own_peer(connection))
        except BaseException:
            connection.close()
            raise
        return connection

    def _exchange(self, connection: socket.socket, line: bytes, deadline_s: float) -> bytes:
        """Send a line and return the next one that comes."""
        try:
            connection.settimeout(_remaining_s(deadline_s))
            connection.sendall(line)
        except (BrokenPipeError, ConnectionResetError):
            pass  # a service that is too busy says so and hangs up without reading: the answer may be there
        return self._receive(connection, deadline_s)

    def _receive(self, connection: socket.socket, deadline_s: float) -> bytes:
        """Return the next line that comes."""
        while (reply := self._lines.take_line()) is None:
            connection.settimeout(_remaining_s(deadline_s))
            piece = connection.recv(_PIECE_BYTES)
            if not piece:
                raise ConnectionResetError("it went away before it answered")
            self._lines.feed(piece)
        return reply

    def _refuse_foreign(self, *, is_own: bool) -> None:
        if not is_own:
            raise ServiceUnreachable(
                f"The socket {self._socket_path} belongs to another user, so nothing was sent to it.",
                hint="Find out who made it, and remove it.",
            )


def is_own_peer(connection: socket.socket) -> bool:
    """Say whether the process at the other end of a unix socket runs as this user.

    Source: unix(7), SO_PEERCRED; getpeereid(3) on macOS and the BSDs.
    """
    if hasattr(socket, "SO_PEERCRED"):
        form = struct.Struct("3i")
        _, user, _ = form.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, form.size))
        return bool(user == os.geteuid())
    return _find_peer_user(connection) == os.geteuid()


def _find_peer_user(connection: socket.socket) -> int | None:
    """Ask getpeereid(3), which Python does not offer."""
    import ctypes  # noqa: PLC0415 - not needed on Linux

    user, group = ctypes.c_uint32(), ctypes.c_uint32()
    if ctypes.CDLL(None).getpeereid(connection.fileno(), ctypes.byref(user), ctypes.byref(group)) != 0:
        return None
    return user.value


def _remaining_s(deadline_s: float) -> float:
    """Return how long may still be waited.

    Raises:
        TimeoutError: The time is over.
    """
    remaining_s = deadline_s - time.monotonic()
    if remaining_s <= 0:
        raise TimeoutError
    return remaining_s
