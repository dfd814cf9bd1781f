"""JSON-RPC 2.0, one line each way.

Owns how a request, a result and an error look on the wire, and how bytes are cut into lines. Touches no socket.

The wire is ASCII: file names that are not UTF-8 are strings with lone surrogates, which JSON's escapes carry and UTF-8
can't. A request without an id is answered too, with the id null: whoever sends a line gets a line.

Source: JSON-RPC 2.0 Specification, sections 4 and 5.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

from watcher.errors import ProtocolError, error_from_reply

if TYPE_CHECKING:
    from collections.abc import Mapping

    from config.errors import CheckpointError

MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""The longest request, without its newline. A payload carries the whole content of a write."""

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
DOMAIN_ERROR: Final = -32000
"""A `CheckpointError`: what the user can understand and act on."""


@dataclass(frozen=True, slots=True)
class Request:
    """One call."""

    id: str | int | None
    """The caller's own mark, which the reply repeats."""
    method: str
    """What is to be done."""
    params: dict[str, object]
    """The named arguments."""


class LineBuffer:
    """Cut bytes that come in pieces into lines, in linear time and bounded memory."""

    def __init__(self, max_line_bytes: int | None = None) -> None:
        """Start empty.

        Args:
            max_line_bytes: The longest line that is kept, without its newline; none for no limit.
        """
        self._max_line_bytes = max_line_bytes
        self._held = bytearray()
        self._searched_bytes = 0
        self._is_discarding = False

    def feed(self, piece: bytes) -> None:
        """Add what came; the rest of a line that was too long is dropped."""
        if self._is_discarding:
            end = piece.find(b"\n")
            if end < 0:
                return
            self._is_discarding = False
            piece = piece[end + 1 :]
        self._held += piece

    def take_line(self) -> bytes | None:
        """Remove and return the next line without its newline, or return nothing while it is not complete.

        Raises:
            ProtocolError: The line is too long. That is said once, as soon as it is known; the line is dropped, and
                those after it are not affected.
        """
        end = self._held.find(b"\n", self._searched_bytes)
        length = end if end >= 0 else len(self._held)
        if self._max_line_bytes is not None and length > self._max_line_bytes:
            self._is_discarding = end < 0
            self._drop(length + 1)
            raise ProtocolError(f"A line is longer than {self._max_line_bytes} bytes.", code=INVALID_REQUEST)
        if end < 0:
            self._searched_bytes = length
            return None
        with memoryview(self._held) as view:
            line = bytes(view[:end])
        self._drop(end + 1)
        return line

    def _drop(self, count: int) -> None:
        del self._held[:count]
        self._searched_bytes = 0


def parse_request(line: bytes) -> Request:
    """Return the request in a line.

    Raises:
        ProtocolError: It is not JSON, or not a request; its code and, where it could be read, its id are set.
    """
    message = _parse_object(line)
    request_id = message.get("id")
    if isinstance(request_id, bool) or not isinstance(request_id, str | int | None):
        raise ProtocolError("A request's id must be a string, a whole number or null.", code=INVALID_REQUEST)
    method = message.get("method")
    if not isinstance(method, str):
        raise ProtocolError("A request must name its method.", code=INVALID_REQUEST, request_id=request_id)
    params = message.get("params", {})
    if not isinstance(params, dict):
        raise ProtocolError("A request's params must be an object.", code=INVALID_PARAMS, request_id=request_id)
    return Request(request_id, method, params)


def parse_reply(line: bytes) -> object:
    """Return the result in a reply.

    Raises:
        ProtocolError: The line is no reply, or the service could not take the request as one.
        CheckpointError: The error that the service answered, as the same class.
    """
    message = _parse_object(line)
    failure = message.get("error")
    if failure is None:
        if "result" not in message:
            raise ProtocolError("A reply must hold a result or an error.", code=INVALID_REQUEST)
        return message["result"]
    if not isinstance(failure, dict):
        raise ProtocolError("A reply's error must be an object.", code=INVALID_REQUEST)
    error = error_from_reply(str(failure.get("message", "")), failure.get("data"))
    code = failure.get("code")
    if isinstance(error, ProtocolError) and isinstance(code, int):
        error.code = code
    raise error


def format_request(request_id: str | int | None, method: str, params: Mapping[str, object]) -> bytes:
    """Return a request as a line with its newline."""
    return _format({"jsonrpc": "2.0", "id": request_id, "method": method, "params": dict(params)})


def format_result(request_id: str | int | None, result: object) -> bytes:
    """Return a result as a line with its newline."""
    return _format({"jsonrpc": "2.0", "id": request_id, "result": result})


def format_progress(done_count: int, total_count: int) -> bytes:
    """Return a notification of how far the work is, as a line with its newline."""
    params = {"done": done_count, "total": total_count}
    return _format({"jsonrpc": "2.0", "method": "progress", "params": params})


def parse_progress(line: bytes) -> tuple[int, int] | None:
    """Return how many of how many are done, if a line tells that; nothing for a reply."""
    if b'"method":"progress"' not in line[:64]:
        return None
    params = _parse_object(line).get("params")
    counts = (params.get("done"), params.get("total")) if isinstance(params, dict) else (None, None)
    return (counts[0], counts[1]) if isinstance(counts[0], int) and isinstance(counts[1], int) else None


def format_error(request_id: str | int | None, code: int, message: str, data: Mapping[str, object]) -> bytes:
    """Return an error as a line with its newline."""
    error = {"code": code, "message": message, "data": dict(data)}
    return _format({"jsonrpc": "2.0", "id": request_id, "error": error})


def format_failure(request_id: str | int | None, error: CheckpointError) -> bytes:
    """Return an error of ours as a line with its newline, with what the client needs to raise it again."""
    data: dict[str, object] = {"kind": error.kind, "hint": error.hint, "exit_code": error.exit_code}
    fields = getattr(error, "fields", None)
    if fields is not None:
        data["fields"] = dict(fields)
    code = error.code if isinstance(error, ProtocolError) else DOMAIN_ERROR
    return format_error(request_id, code, error.message, data)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_ENCODER = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def _parse_object(line: bytes) -> dict[str, object]:
    """Return the JSON object in a line.

    Raises:
        ProtocolError: There is none.
    """
    try:
        message = _DECODER.decode(line.decode())
    except ValueError:  # not UTF-8, not JSON, NaN, a number of thousands of digits
        raise ProtocolError("The line is not JSON.", code=PARSE_ERROR) from None
    except RecursionError:
        raise ProtocolError("The line is nested too deeply.", code=PARSE_ERROR) from None
    if not isinstance(message, dict):
        raise ProtocolError("The line is not a JSON object.", code=INVALID_REQUEST)
    return message


def _format(message: dict[str, object]) -> bytes:
    return _ENCODER.encode(message).encode("ascii") + b"\n"
