"""The file that agents' settings name: the hook client, as quick as Python starts.

It is run as `python -I -S hook_client.py AGENT`, so that neither the environment, nor the current directory, nor what
else is installed has a part in it. An agent waits for it at every tool call, and most calls need one question and one
silent answer. For these it imports next to nothing: on CPython 3.11 `typing` alone takes 10 ms, `json` and `socket` 2
and 3, where a bare start takes 9. Whatever is not that simple is left to `watcher.hook`.
"""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from config.paths import resolve_paths

SILENT = b'{"jsonrpc":"2.0","id":1,"result":{"stdout":"","stderr":"","exit_code":0}}'
"""The answer after which nothing is left to do."""
_QUICK_BYTES = 1 << 20
"""A longer payload is left to the other way, which knows the limits."""
_TIMEOUT_S = 120.0
_PIECE_BYTES = 1 << 16


def main(agent: str) -> int:
    """Handle the payload on standard input, and return the exit code."""
    payload, answer = sys.stdin.buffer.read(_QUICK_BYTES), None
    if len(payload) < _QUICK_BYTES:
        try:
            answer = _ask(agent, payload)
        except Exception:  # noqa: BLE001 - the other way knows what to do about it, and says so
            answer = None
    if answer == SILENT:
        return 0
    from watcher import hook  # noqa: PLC0415 - only for what is not simple

    return hook.main(agent, began=payload) if answer is None else hook.conclude(agent, answer)


def _ask(agent: str, payload: bytes) -> bytes | None:
    """Return the service's answer to a payload; nothing where it is not reached by a socket of this user's."""
    import _socket  # noqa: PLC0415 - the module below `socket`, which takes ten times as long
    from _json import encode_basestring_ascii as quote  # noqa: PLC0415 - the same of `json`

    path = resolve_paths(home=None, profile=None, environ=os.environ).socket
    if os.lstat(path).st_uid != os.geteuid():
        return None
    said = os.environ.get("HERMES_CHECKPOINTS", "")
    switch = {"on": ', "checkpoints": true', "off": ', "checkpoints": false'}.get(said, "")
    text = quote(payload.decode("utf-8", "surrogateescape"))
    params = f'{{"agent": {quote(agent)}, "payload": {text}{switch}}}'
    request = f'{{"jsonrpc": "2.0", "id": 1, "method": "hook", "params": {params}}}\n'
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.settimeout(_TIMEOUT_S)
        connection.connect(path)
        peer = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
        if int.from_bytes(peer[4:8], sys.byteorder) != os.geteuid():
            return None
        connection.sendall(request.encode("ascii"))
        received = b""
        while not received.endswith(b"\n"):
            piece = connection.recv(_PIECE_BYTES)
            if not piece:
                return None
            received += piece
    finally:
        connection.close()
    return received[:-1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
