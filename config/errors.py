"""The root of every error this project raises on purpose.

```
CheckpointError                 kind "error", exit code 1
├── ConfigError                 kind "config", exit code 2         (here)
├── UsageError                  kind "usage", exit code 2          (here)
├── StoreError                  kind "store", exit code 1          (store.errors draws its own tree)
└── WatcherError                kind "watcher", exit code 1        (watcher.errors draws its own tree)
```

The exit code lives on the class. `kind` travels over the socket, so that a client raises the same class again.
"""

from __future__ import annotations

from typing import ClassVar


class CheckpointError(Exception):
    """Report a failure that a user can understand and act on."""

    kind: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        """One whole sentence."""
        self.hint = hint
        """What the user can do, or nothing."""


class UsageError(CheckpointError):
    """Report input that can't be understood or is not allowed."""

    kind = "usage"
    exit_code = 2


class ConfigError(CheckpointError):
    """Report settings that can't be used, every problem in one message."""

    kind = "config"
    exit_code = 2
