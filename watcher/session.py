"""`run`: any program as a session of its own: a checkpoint before it, and what it changes is its work.

Owns the program's process and its announcements. The terminal is the program's: signals that a terminal sends reach it
by themselves, those sent to us are passed on. Agents that it starts find the session's switch in the environment.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

from config.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

SWITCH = "HERMES_CHECKPOINTS"
"""The environment variable by which a hook knows whether its session has checkpoints: `on` or `off`."""
_FROM_THE_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_KILLED = 128


def run_session(
    command: Sequence[str], cwd: str, announce: Callable[[dict[str, object]], None], *, checkpoints: bool
) -> int:
    """Run a program to its end, and return its exit code, or 128 and the signal that ended it, as a shell does.

    Args:
        command: The program and its arguments.
        cwd: Where it runs, absolute.
        announce: Told each generic event of the session.
        checkpoints: Whether the session has checkpoints.
    """
    if not command:
        raise UsageError("Name a program: run -- PROGRAM [ARGUMENT…]")
    session = f"run-{os.getpid()}-{os.urandom(4).hex()}"
    call: dict[str, object] = {
        "session": session,
        "turn": "t1",
        "tool": "run",
        "call": "run",
        "command": shlex.join(command),
        "cwd": cwd,
        "pid": os.getpid(),
        "checkpoints": checkpoints,
    }
    announce(call | {"event": "before_tool"})
    try:
        return _run(command, cwd, os.environ | {SWITCH: "on" if checkpoints else "off"})
    finally:
        announce(call | {"event": "after_tool", "status": "ok"})
        announce({"event": "session_end", "session": session, "cwd": cwd})


def _run(command: Sequence[str], cwd: str, environment: dict[str, str]) -> int:
    with _signals_for_the_program() as started:
        try:
            process = subprocess.Popen(command, cwd=cwd, env=environment)
        except OSError as error:
            kind = CanNotExecuteError if isinstance(error, PermissionError) else CanNotRunError
            raise kind(f"{command[0]} can't be run: {error.strerror}.") from error
        started.append(process)
        code = process.wait()
    return code if code >= 0 else _KILLED - code


class CanNotRunError(UsageError):
    """Say that a program was not found; the exit code is a shell's."""

    exit_code = 127


class CanNotExecuteError(UsageError):
    """Say that a program can't be executed; the exit code is a shell's."""

    exit_code = 126


@contextmanager
def _signals_for_the_program() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Leave signals to the program, once it is in the list."""
    started: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature is Python's
        for process in started:
            process.send_signal(number)

    def leave(number: int, frame: FrameType | None) -> None:
        """Do nothing; unlike an ignored signal, one with a handler is as usual again in the program."""

    before = {number: signal.signal(number, leave) for number in _FROM_THE_TERMINAL}
    before |= {number: signal.signal(number, pass_on) for number in _PASSED_ON}
    try:
        yield started
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
