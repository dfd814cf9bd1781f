"""The client's end of the socket: one request, one reply."""

from __future__ import annotations

import os
import socket
import stat
import struct
import time
from typing import TYPE_CHECKING

from watcher.errors import ServiceTimeout, ServiceUnreachable
from watcher.protocol import Request, format_request, parse_reply

if TYPE_CHECKING:
    from types import TracebackType

_CHUNK_BYTES = 1 << 18


def read_peer_user(connection: socket.socket) -> int | None:
    """Return the user at the other end of a socket; nothing where the system does not tell. Source: unix(7)."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    user: int = struct.unpack("3i", raw)[1]
    return user


class Client:
    """Talk to the service of one home."""

    def __init__(self, socket_path: str, *, timeout_s: float) -> None:
        self._path = socket_path
        self._timeout_s = timeout_s
        self._socket: socket.socket | None = None
        self._received = bytearray()

    def __enter__(self) -> Client:
        """Connect.

        Raises:
            ServiceUnreachable: Nobody answers, or somebody else than the user would.
        """
        self._refuse_foreign_socket()
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(self._timeout_s)
        try:
            connection.connect(self._path)
        except OSError as error:
            connection.close()
            raise _unreachable() from error
        if read_peer_user(connection) not in (None, os.getuid()):
            connection.close()
            raise _unreachable()
        self._socket = connection
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Hang up."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def call(self, method: str, **arguments: object) -> object:
        """Return what the service answers.

        Raises:
            CheckpointError: The service refused or failed, with the kind that it sent.
            ServiceTimeout: It took too long.
            ServiceUnreachable: It went away before it answered.
        """
        if self._socket is None:
            raise _unreachable()
        try:
            self._socket.sendall(format_request(Request(1, method, arguments)))
            line = self._read_line(time.monotonic() + self._timeout_s)
        except TimeoutError:
            raise ServiceTimeout(f"The service did not answer within {self._timeout_s:.0f} s.") from None
        except OSError as error:
            raise _unreachable() from error
        return parse_reply(line)

    def _read_line(self, give_up_at: float) -> bytes:
        assert self._socket is not None  # noqa: S101 - the caller checked
        while (end := self._received.find(b"\n")) < 0:
            self._socket.settimeout(max(0.001, give_up_at - time.monotonic()))
            chunk = self._socket.recv(_CHUNK_BYTES)
            if not chunk:
                raise _unreachable()
            self._received += chunk
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line

    def _refuse_foreign_socket(self) -> None:
        try:
            status = os.lstat(self._path)
        except OSError as error:
            raise _unreachable() from error
        if not stat.S_ISSOCK(status.st_mode) or status.st_uid != os.getuid():
            raise _unreachable()


def _unreachable() -> ServiceUnreachable:
    return ServiceUnreachable("The service does not answer.", hint="Start it with: hermes-checkpoints serve")
