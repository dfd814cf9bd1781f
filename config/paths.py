"""Where things live: the home, and every path that follows from it.

The hook client imports this module at every tool call, so it imports nothing that costs time. Measured with
`python -I -S -X importtime` on CPython 3.11: dataclasses 22 ms, typing 13 ms, pathlib 13 ms, tempfile 6 ms, hashlib
3 ms, where a bare start takes 10 ms. Hence paths are `str`, `Paths` is a plain class without setters, and what is
needed for an error or a hash is imported there. Creating what the paths name belongs to whoever writes to it.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from config.errors import UsageError as _UsageError

_MAX_SOCKET_BYTES = 103
"""The address of a unix socket holds 104 bytes on macOS and 108 on Linux, a closing NUL included. Source: unix(4)."""


class Paths:
    """Name everything that belongs to one home. All paths are absolute; an instance does not change.

    Args:
        home: The home, absolute and resolved.
        socket: The service's socket.
    """

    __slots__ = ("_home", "_socket")

    def __init__(self, home: str, socket: str) -> None:
        self._home = home
        self._socket = socket

    @property
    def home(self) -> str:
        """Return the directory that holds all the others."""
        return self._home

    @property
    def socket(self) -> str:
        """Return the socket on which the service of this home listens."""
        return self._socket

    @property
    def config_file(self) -> str:
        """Return the file with the user's settings."""
        return os.path.join(self._home, "config.yaml")

    @property
    def watched_file(self) -> str:
        """Return the file with the opted-in projects."""
        return os.path.join(self._home, "watched.yaml")

    @property
    def lock_file(self) -> str:
        """Return the lock of the store. It stands beside the base, so that removing the base does not remove it."""
        return os.path.join(self._home, ".checkpoints.lock")

    @property
    def base(self) -> str:
        """Return the directory of the store and the legacy archives."""
        return os.path.join(self._home, "checkpoints")

    @property
    def store(self) -> str:
        """Return the bare git repository shared by all projects."""
        return os.path.join(self.base, "store")

    @property
    def last_prune(self) -> str:
        """Return the file that says when the last sweep was."""
        return os.path.join(self.base, ".last_prune")

    @property
    def logs_dir(self) -> str:
        """Return the directory of the logs."""
        return os.path.join(self._home, "logs")

    @property
    def log_file(self) -> str:
        """Return the service's log."""
        return os.path.join(self.logs_dir, "checkpoints.log")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Paths):
            return NotImplemented
        return (self._home, self._socket) == (other._home, other._socket)

    def __hash__(self) -> int:
        return hash((self._home, self._socket))

    def __repr__(self) -> str:
        return f"Paths(home={self._home!r}, socket={self._socket!r})"


def resolve_paths(*, home: str | None, profile: str | None, environ: Mapping[str, str]) -> Paths:
    """Find the home, and name what is in it.

    Args:
        home: The home that was asked for; else `HERMES_HOME`, else `~/.hermes`.
        profile: A named profile, which is the home's `profiles/<name>`.
        environ: The environment.

    Returns:
        The paths. Nothing is created, and the home need not exist.

    Raises:
        UsageError: The home or the profile can't be the name of a directory.
    """
    if home is not None and (not home or "\0" in home):
        raise _usage_error(f"A home can't be named {home!r}.")
    directory = _expand(home or environ.get("HERMES_HOME") or "~/.hermes", environ)
    if profile is not None:
        _check_profile(profile)
        directory = os.path.join(directory, "profiles", profile)
    try:
        resolved = os.path.realpath(directory)
    except OSError as error:
        raise _usage_error(f"The home {directory!r} can't be resolved: {error.strerror}.") from error
    return Paths(resolved, _find_socket(resolved, environ))


def _expand(directory: str, environ: Mapping[str, str]) -> str:
    """Replace a leading `~` as a shell does, by the given environment."""
    user_home = environ.get("HOME")
    if user_home and (directory == "~" or directory.startswith("~/")):
        return user_home + directory[1:]
    return os.path.expanduser(directory)


def _check_profile(profile: str) -> None:
    """Refuse a name that is not the name of one directory, or that reads like an option."""
    if profile in {"", ".", ".."} or profile.startswith("-") or "/" in profile or "\0" in profile:
        raise _usage_error(
            f"A profile can't be named {profile!r}.",
            hint="A profile is the name of a directory in <home>/profiles: without /, and not beginning with -.",
        )


def _find_socket(home: str, environ: Mapping[str, str]) -> str:
    """Choose the socket's path: the user's runtime directory, else a private directory among the temporary files.

    The server creates that private directory, mode 0700.
    """
    name = _hash16(os.fsencode(home)) + ".sock"
    uid = os.getuid()
    candidates = []
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime) and _is_own_directory(runtime, uid):
        candidates.append(os.path.join(runtime, f"hermes-checkpoints-{name}"))
    temporary = environ.get("TMPDIR", "")
    if os.path.isabs(temporary) and os.path.isdir(temporary):
        candidates.append(os.path.join(temporary, f"hermes-checkpoints-{uid}", name))
    for candidate in candidates:
        if len(os.fsencode(candidate)) <= _MAX_SOCKET_BYTES:
            return candidate
    return os.path.join("/tmp", f"hermes-checkpoints-{uid}", name)  # noqa: S108 - the server makes the directory private


def _is_own_directory(directory: str, uid: int) -> bool:
    """Say whether this is a directory that belongs to the user."""
    try:
        status = os.stat(directory)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == uid


def _hash16(data: bytes) -> str:
    """Return the first 16 hex digits of the SHA-256, by the quickest module to import (`_sha2` since Python 3.12)."""
    for module in ("_sha2", "_sha256", "hashlib"):
        try:
            sha256 = __import__(module).sha256
        except ImportError:
            continue
        return str(sha256(data).hexdigest()[:16])
    raise AssertionError("hashlib is part of every Python")


def _usage_error(message: str, *, hint: str = "") -> _UsageError:
    """Make the error; its module is imported only now."""
    from config.errors import UsageError  # noqa: PLC0415 - it imports typing

    return UsageError(message, hint=hint)
