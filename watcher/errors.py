"""What can go wrong between a client and the service.

```
WatcherError                    kind "watcher", exit code 1
├── ProtocolError               kind "protocol": a line that is no request or no reply, with its JSON-RPC code
├── ServiceUnreachable          kind "unreachable": nobody answers, or somebody that is not to be trusted
├── ServiceTimeout              kind "timeout": no answer came in the time that the caller gave
├── ServiceBusy                 kind "service-busy", exit code 75: too many clients at once
├── ServiceRunning              kind "running": another service holds the home
└── RemoteError                 the service's own kind: an error that has no class here
```

Errors travel by their `kind`: `error_from_reply` finds the class again on the client's side.
"""

# ruff: noqa: N818 - a state of the service reads better than one more "Error"

from __future__ import annotations

from typing import TYPE_CHECKING

from config.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class WatcherError(CheckpointError):
    """Report a failure of the always-on part."""

    kind = "watcher"


class ProtocolError(WatcherError):
    """Report a line that can't be taken as a request or as a reply."""

    kind = "protocol"
    code: int = -32600
    """The JSON-RPC code; "invalid request" unless said otherwise."""
    request_id: str | int | None = None
    """The id of the request, as far as it could be read."""

    def __init__(self, message: str, *, code: int, request_id: str | int | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.request_id = request_id


class ServiceUnreachable(WatcherError):
    """Report that no service of this user answers at the socket."""

    kind = "unreachable"


class ServiceTimeout(WatcherError):
    """Report that the service took longer than the caller could wait; whether it did the work is not known."""

    kind = "timeout"


class ServiceBusy(WatcherError):
    """Report that the service has as many clients as it takes; it did nothing."""

    kind = "service-busy"
    exit_code = 75


class ServiceRunning(WatcherError):
    """Report that another service holds the home."""

    kind = "running"


class RemoteError(WatcherError):
    """Report an error of the service that has no class here; it keeps the kind and exit code that it came with."""

    kind = "remote"

    def __init__(self, message: str, *, kind: str = "remote", exit_code: int = 1, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        # Both are set on the class everywhere else; here they are known only now.
        vars(self).update(kind=kind, exit_code=exit_code)


def error_from_reply(message: str, data: object) -> CheckpointError:
    """Return the error that the service raised, as an instance of the same class.

    Args:
        message: The sentence.
        data: What came with it: kind, hint, exit_code, and fields if the error had any. Nothing in it is relied on.
    """
    import store.errors  # noqa: F401, PLC0415 - its classes are to be known; only errors pay for the import

    facts: Mapping[str, object] = data if isinstance(data, dict) else {}
    hint, kind, exit_code, fields = (facts.get(name) for name in ("hint", "kind", "exit_code", "fields"))
    known_hint = hint if isinstance(hint, str) else ""
    found = next((each for each in _classes(CheckpointError) if vars(each).get("kind") == kind), None)
    error: CheckpointError
    if found is None or found is RemoteError:
        error = RemoteError(
            message,
            kind=kind if isinstance(kind, str) else RemoteError.kind,
            exit_code=exit_code if isinstance(exit_code, int) else RemoteError.exit_code,
            hint=known_hint,
        )
    else:
        # A class may build its message from arguments that did not travel, so its own constructor is passed over.
        error = found.__new__(found)
        CheckpointError.__init__(error, message, hint=known_hint)
    if isinstance(fields, dict):
        vars(error)["fields"] = fields
    return error


def _classes(root: type[CheckpointError]) -> Iterator[type[CheckpointError]]:
    """List a class and all below it, those nearer to the root first."""
    level = [root]
    while level:
        yield from level
        level = [below for each in level for below in each.__subclasses__()]
