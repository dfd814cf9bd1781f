"""What can go wrong around the service.

```
WatcherError                    kind "watcher", exit code 1
├── ServiceUnreachable          kind "unreachable": nobody answers on the socket
├── ServiceRunning              kind "running": another service holds this home
├── ServiceTimeout              kind "timeout": the service took longer than the caller could wait
├── ProtocolError               kind "protocol": a line that is no request or no reply
└── RemoteError                 kind as sent: an error of the service that has no class here
```
"""

from __future__ import annotations

from config.errors import CheckpointError


class WatcherError(CheckpointError):
    """Report a failure around the service."""

    kind = "watcher"


class ServiceUnreachable(WatcherError):  # noqa: N818 - named as the state it reports
    """Report that nobody answers on the socket."""

    kind = "unreachable"


class ServiceRunning(WatcherError):  # noqa: N818 - named as the state it reports
    """Report that another service holds this home."""

    kind = "running"


class ServiceTimeout(WatcherError):  # noqa: N818 - named as the state it reports
    """Report that the service took longer than the caller could wait."""

    kind = "timeout"


class ProtocolError(WatcherError):
    """Report a line that is no request or no reply."""

    kind = "protocol"

    def __init__(self, message: str, *, code: int = -32600, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code
        """The JSON-RPC error code. Source: JSON-RPC 2.0, section 5.1."""


class RemoteError(WatcherError):
    """Report an error of the service, under the kind it was sent with."""

    def __init__(self, message: str, *, kind: str, exit_code: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.kind = kind  # type: ignore[misc] # this class stands for every kind
        self.exit_code = exit_code  # type: ignore[misc] # as above
        self.fields: dict[str, object] = {}
        """What the error carried beside its message."""
