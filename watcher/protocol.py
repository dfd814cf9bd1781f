"""JSON-RPC 2.0, one line each way: what a request and a reply look like.

Owns the form of a line; moving lines belongs to `watcher.server` and `watcher.client`. The lines are ASCII, so that
names that are not UTF-8 travel as surrogate escapes. Source: JSON-RPC 2.0 specification.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from watcher.errors import ProtocolError, RemoteError

if TYPE_CHECKING:
    from config.errors import CheckpointError

MAX_LINE_BYTES = 64 * 1024 * 1024
"""A payload carries the whole content of a write, so megabytes are ordinary."""

NOT_JSON = -32700
NOT_A_REQUEST = -32600
BAD_ARGUMENTS = -32602
FAILED_UNEXPECTEDLY = -32603
REFUSED = -32000
"""An error that a user can understand; its kind is in `data`."""

RequestId = str | int | float | None


@dataclass(frozen=True, slots=True)
class Request:
    """Hold one request."""

    id: RequestId
    method: str
    arguments: dict[str, object]


def parse_request(line: bytes) -> Request:
    """Return the request in a line.

    Raises:
        ProtocolError: It is none; the error carries the code to answer with.
    """
    raw = _parse(line)
    method, arguments, request_id = raw.get("method"), raw.get("params", {}), raw.get("id")
    if not isinstance(method, str):
        raise ProtocolError("The request has no method.", code=NOT_A_REQUEST)
    if not isinstance(arguments, dict):
        raise ProtocolError("The request's params are not an object.", code=BAD_ARGUMENTS)
    if not isinstance(request_id, (str, int, float)) and request_id is not None:
        raise ProtocolError("The request's id is neither text nor a number.", code=NOT_A_REQUEST)
    return Request(request_id, method, arguments)


def format_request(request: Request) -> bytes:
    """Return the line of a request."""
    raw = {"jsonrpc": "2.0", "id": request.id, "method": request.method, "params": request.arguments}
    return json.dumps(raw).encode() + b"\n"


def format_result(request_id: RequestId, result: object) -> bytes:
    """Return the line that answers a request."""
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "result": result}).encode() + b"\n"


def format_error(request_id: RequestId, code: int, message: str, data: dict[str, object] | None = None) -> bytes:
    """Return the line that says why a request was not done."""
    error: dict[str, object] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}).encode() + b"\n"


def format_refusal(request_id: RequestId, error: CheckpointError) -> bytes:
    """Return the line for an error that a user can understand."""
    data: dict[str, object] = {"kind": error.kind, "hint": error.hint, "exit_code": error.exit_code}
    data["fields"] = getattr(error, "fields", {})
    return format_error(request_id, REFUSED, error.message, data)


def parse_reply(line: bytes) -> object:
    """Return the result in a reply.

    Raises:
        RemoteError: The service refused or failed; the error has the kind, hint and exit code that it sent.
        ProtocolError: The line is no reply.
    """
    raw = _parse(line)
    error = raw.get("error")
    if error is None:
        return raw.get("result")
    if not isinstance(error, dict):
        raise ProtocolError("The service's answer can't be understood.")
    data = error.get("data")
    data = data if isinstance(data, dict) else {}
    code, fields = data.get("exit_code"), data.get("fields")
    refused = RemoteError(
        str(error.get("message")),
        kind=str(data.get("kind", "protocol")),
        exit_code=code if isinstance(code, int) else 1,
        hint=str(data.get("hint", "")),
    )
    refused.fields = fields if isinstance(fields, dict) else {}
    raise refused


def _parse(line: bytes) -> dict[str, object]:
    try:
        raw = json.loads(line)
    except (ValueError, RecursionError):
        raise ProtocolError("The line is not JSON.", code=NOT_JSON) from None
    if not isinstance(raw, dict):
        raise ProtocolError("The line is not a JSON object.", code=NOT_A_REQUEST)
    return raw
