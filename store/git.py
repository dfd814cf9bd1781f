"""The only door to the git program.

Owns how git is started: an environment built from nothing, so that no setting of the user, of the system or of a
project, no hook, no filter, no prompt and no variable of the agent reaches it. The objects themselves are read and
written through `store.objects`, without a process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from store.errors import GitFailedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SEALED_OPTIONS = (
    "--no-pager",
    "-c", "core.hooksPath=/dev/null",
    "-c", "core.fsmonitor=false",
    "-c", "core.attributesFile=/dev/null",
    "-c", "core.excludesFile=/dev/null",
    "-c", "core.quotePath=true",
    "-c", "gc.auto=0",
    "-c", "maintenance.auto=false",
    "-c", "safe.directory=*",
    "-c", "core.ignoreStat=false",
    "-c", "core.trustctime=true",
    "-c", "core.checkStat=default",
    "-c", "core.fileMode=true",
    "-c", "core.symlinks=true",
    "-c", "core.ignoreCase=false",
    "-c", "core.precomposeUnicode=false",
    "-c", "core.untrackedCache=false",
    "-c", "protocol.allow=never",
)  # fmt: skip


_LOOK_UP_S = 0.2


@cache
def find_git(search_path: str | None = None) -> str | None:
    """Return the git program's path, or nothing when it is not installed."""
    return shutil.which("git", path=search_path)


@dataclass(frozen=True, slots=True)
class WorkTree:
    """Say which files a git command looks at, and by which index."""

    root: bytes
    """The project."""
    index_file: str
    """An index of the store's own; never the project's."""


def run_git(  # noqa: PLR0913 - each is a term of one command
    store: str,
    arguments: Sequence[str | bytes],
    *,
    stdin: bytes = b"",
    work_tree: WorkTree | None = None,
    are_pathspecs_literal: bool = True,
    timeout_s: float = 60,
    is_given_up: Callable[[], bool] | None = None,
) -> bytes:
    """Run one git command on the bare store and return what it printed.

    Args:
        store: The bare repository.
        arguments: The command and its arguments; the caller puts `--` before anything that comes from outside.
        stdin: What the command reads.
        work_tree: The files that the command looks at, if it looks at any.
        are_pathspecs_literal: Whether paths are names and no patterns.
        timeout_s: After this the command is killed.
        is_given_up: Asked now and then; once it says so, the command is killed.

    Raises:
        GitFailedError: git is missing, failed or took too long.
    """
    program = find_git(os.environ.get("PATH"))
    if program is None:
        raise GitFailedError("The git program was not found on PATH.", hint="Install git.")
    environment = {os.fsencode(name): os.fsencode(value) for name, value in _sealed_environment(program).items()}
    options = ["--literal-pathspecs"] if are_pathspecs_literal else []
    if work_tree is not None:
        environment |= {b"GIT_WORK_TREE": work_tree.root, b"GIT_INDEX_FILE": os.fsencode(work_tree.index_file)}
        options += ["-c", "core.bare=false"]
    command = [program, *_SEALED_OPTIONS, *options, f"--git-dir={store}", *arguments]
    try:
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=store,
        ) as process:
            try:
                out, err = _communicate(process, stdin, timeout_s, is_given_up)
            except BaseException:
                process.kill()
                raise
    except subprocess.TimeoutExpired:
        raise GitFailedError(f"git {_name(arguments)} took longer than {timeout_s:.0f} s and was stopped.") from None
    except OSError as error:
        raise GitFailedError(f"git could not be started: {error.strerror}.") from error
    if process.returncode != 0:
        lines = err.decode("utf-8", "replace").strip().splitlines()
        raise GitFailedError(
            f"git {_name(arguments)} failed: {lines[-1] if lines else f'exit code {process.returncode}'}"
        )
    return out


def _communicate(
    process: subprocess.Popen[bytes], stdin: bytes, timeout_s: float, is_given_up: Callable[[], bool] | None
) -> tuple[bytes, bytes]:
    """Feed a process and return what it printed, looking up now and then where somebody may give up on it.

    Raises:
        subprocess.TimeoutExpired: It took too long, or was given up.
    """
    if is_given_up is None:
        return process.communicate(stdin, timeout=timeout_s)
    give_up_at = time.monotonic() + timeout_s
    given: bytes | None = stdin
    while True:
        try:
            return process.communicate(given, timeout=_LOOK_UP_S)
        except subprocess.TimeoutExpired:
            given = None  # it has been taken over, and goes on to be written
            if is_given_up() or time.monotonic() >= give_up_at:
                raise


def _name(arguments: Sequence[str | bytes]) -> str:
    return os.fsdecode(arguments[0])


def _sealed_environment(program: str) -> dict[str, str]:
    """Build git's environment from nothing. Source: git(1), "Environment Variables"."""
    return {
        "PATH": os.pathsep.join([os.path.dirname(program), "/usr/bin", "/bin"]),
        "HOME": "/nonexistent",
        "XDG_CONFIG_HOME": "/nonexistent",
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
    }
