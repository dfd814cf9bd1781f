"""The hook client: hand one payload to the service, and end as it says.

Owns the promise that a tool call is never failed by us: whatever happens, the exit code is 0, unless the user asked
for unprotected tools to be refused. It imports little, since an agent waits for it at every call; only without the
service does it do the work itself.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from config.paths import Paths

_MAX_PAYLOAD_BYTES = 48 * 1024 * 1024
"""A payload that grows to more than a line of the protocol when it is escaped can't be sent."""
_TIMEOUT_S = 120.0
"""The service answers within its own deadline; this is for a service that hangs."""


def main(agent: str, paths: Paths | None = None, *, use_service: bool = True, began: bytes = b"") -> int:
    """Handle the payload on standard input.

    Args:
        agent: Whose payload it is.
        paths: The home; found by the environment if not given.
        use_service: Whether the service is asked.
        began: What was read of the payload already.

    Returns:
        The exit code.
    """
    try:
        payload = _read_payload(began)
        if payload is None:
            return _explain(agent, "The hook's payload is larger than 48 MiB; this call is not protected.")
        if paths is None:
            from config.paths import resolve_paths  # noqa: PLC0415 - after the payload is read

            paths = resolve_paths(home=None, profile=None, environ=os.environ)
        answer = _ask(paths, agent, payload, use_service=use_service)
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - a tool call is never failed by us
        return _explain(agent, getattr(error, "message", None) or f"The hook failed: {error}")
    return _end(answer)


def conclude(agent: str, line: bytes) -> int:
    """End as the service's answer says.

    Args:
        agent: Whose payload it was.
        line: The answer, without its newline.
    """
    from watcher.protocol import parse_reply  # noqa: PLC0415 - most answers need no look at them

    try:
        answer = parse_reply(line)
    except Exception as error:  # noqa: BLE001 - a tool call is never failed by us
        return _explain(agent, getattr(error, "message", None) or f"The hook failed: {error}")
    return _end(answer if isinstance(answer, dict) else {})


def _end(answer: dict[str, object]) -> int:
    sys.stdout.write(str(answer.get("stdout", "")))
    sys.stderr.write(str(answer.get("stderr", "")))
    code = answer.get("exit_code")
    return code if isinstance(code, int) else 0


def _read_payload(began: bytes) -> str | None:
    """Return what the agent sent; nothing when it is too much."""
    raw = began + sys.stdin.buffer.read(_MAX_PAYLOAD_BYTES + 1 - len(began))
    return None if len(raw) > _MAX_PAYLOAD_BYTES else raw.decode("utf-8", "surrogateescape")


def _ask(paths: Paths, agent: str, payload: str, *, use_service: bool) -> dict[str, object]:
    """Ask the service, or do its work when it is not there."""
    request: dict[str, object] = {"agent": agent, "payload": payload}
    if (switch := os.environ.get("HERMES_CHECKPOINTS")) in ("on", "off"):
        request["checkpoints"] = switch == "on"
    if use_service:
        from watcher.client import Client  # noqa: PLC0415 - only where it is needed
        from watcher.errors import ServiceUnreachable  # noqa: PLC0415 - only where it is needed

        try:
            with Client(paths.socket, timeout_s=_TIMEOUT_S) as client:
                answer = client.call("hook", **request)
        except ServiceUnreachable:
            pass
        else:
            return answer if isinstance(answer, dict) else {}
    if sys.flags.no_site:
        import site  # noqa: PLC0415 - the client is started without packages, which its own work does need

        site.main()
    from watcher.direct import open_directly  # noqa: PLC0415 - slow to import, and seldom needed

    with open_directly(paths) as operations:
        return operations.dispatch("hook", request)


def _explain(agent: str, sentence: str) -> int:
    """Say what went wrong, in the form that the agent takes."""
    if agent == "generic":
        import json  # noqa: PLC0415 - only for this answer

        sys.stdout.write(json.dumps({"ok": False, "taken": False, "why": "error", "error": sentence}) + "\n")
    sys.stderr.write(f"hermes-checkpoints: {sentence}\n")
    return 0
