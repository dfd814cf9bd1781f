"""A service to measure, in a home of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from config.paths import resolve_paths
from tests.support.steps import Product, command_environment, serving
from watcher.client import Client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_OPT_IN_S = 900
_ANSWER_S = 600
_SETTLE_S = 0.5


def seal(folder: Path) -> str:
    """Let this process and those it starts have a home in a new folder; return the address of its service."""
    folder.mkdir(exist_ok=True)
    runtime = folder / "run"
    runtime.mkdir(mode=0o700)
    (folder / "home").mkdir()
    os.environ |= {
        "HOME": str(folder / "home"),
        "HERMES_HOME": str(folder / "hermes"),
        "XDG_RUNTIME_DIR": str(runtime),
    }
    return resolve_paths(home=None, profile=None, environ=os.environ).socket


@contextmanager
def watching(project: Path, socket_path: str) -> Iterator[Client]:
    """Serve the sealed home with one project opted in, until the block ends."""
    with serving(Product(project)):
        add = [sys.executable, "-m", "watcher.main", "watch", "add"]
        done = subprocess.run(
            add, cwd=project, env=command_environment(), capture_output=True, check=False, timeout=_OPT_IN_S
        )
        assert done.returncode == 0, done.stderr
        os.sync()  # what making the tree left to write is not part of what is measured
        with Client(socket_path, timeout_s=_ANSWER_S) as client:
            yield client


def call_hook(client: Client, project: Path, turn: str) -> tuple[float, dict[str, object]]:
    """Announce a write; return the milliseconds from the client's send to the answer, and the answer."""
    event = {"event": "before_tool", "session": "bench", "tool": "write_file", "paths": ["x"], "cwd": str(project)}
    return ask(client, "event", **event, turn=turn)


def ask(client: Client, method: str, **arguments: object) -> tuple[float, dict[str, object]]:
    """Ask the service; return the milliseconds that it took, and the answer."""
    started = time.perf_counter()
    answer = client.call(method, **arguments)
    took_ms = (time.perf_counter() - started) * 1000
    assert isinstance(answer, dict)
    return took_ms, answer


def settle() -> None:
    """Wait until what was done before no longer disturbs what is measured next."""
    os.sync()
    time.sleep(_SETTLE_S)
