"""The product as a user meets it: the real command, the real hook client, with and without the real service."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from config.paths import resolve_paths
from store.project import Project
from watcher.direct import open_directly
from watcher.home import Home
from watcher.operations import Operations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from watcher.engine import Engine

_MAIN = [sys.executable, "-m", "watcher.main"]
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_BYTECODE = tempfile.TemporaryDirectory(prefix="hc-bytecode-")
"""Compiled once for all the processes of a test run."""


def command_environment() -> dict[str, str]:
    """Return the environment that the product's processes are started with."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPATH": _ROOT, "PYTHONPYCACHEPREFIX": _BYTECODE.name}


@dataclass
class Done:
    """Hold what a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        answer = json.loads(self.out)
        assert isinstance(answer, dict)
        return answer


@dataclass
class Product:
    """Run commands on one project."""

    project: Path
    options: list[str] = field(default_factory=list)
    session: str = "s1"

    def run(self, *words: str, stdin: str = "", cwd: Path | None = None) -> Done:
        """Run one command to its end."""
        done = subprocess.run(
            [*_MAIN, *self.options, *words],
            cwd=cwd or self.project,
            input=stdin.encode("utf-8", "surrogateescape"),
            capture_output=True,
            env=command_environment() | {"PYTHONWARNINGS": "error"},
            check=False,
            timeout=100,
        )
        out, err = (text.decode("utf-8", "surrogateescape") for text in (done.stdout, done.stderr))
        assert "Traceback" not in err, err
        return Done(done.returncode, out, err)

    def run_on_terminal(self, *words: str, **variables: str) -> str:
        """Run one command whose output is a terminal, and return what the terminal showed."""
        controller, terminal = pty.openpty()
        process = subprocess.Popen(
            [*_MAIN, *self.options, *words],
            cwd=self.project, env=command_environment() | variables, stdin=terminal, stdout=terminal,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        os.close(terminal)
        shown = bytearray()
        with suppress(OSError):  # says that the other end was closed
            while chunk := os.read(controller, 1 << 16):
                shown += chunk
        os.close(controller)
        _, err = process.communicate(timeout=100)
        assert process.returncode == 0, err
        return shown.decode("utf-8", "surrogateescape").replace("\r\n", "\n")

    def event(self, kind: str, **fields: object) -> dict[str, Any]:
        """Send one generic event through the hook client."""
        raw = {"event": kind, "session": self.session, "cwd": str(self.project)} | fields
        done = self.run("hook", "generic", stdin=json.dumps(raw))
        assert done.code == 0, done.err
        return done.json

    def agent_writes(self, name: str, content: str | bytes, *, turn: str, tool: str = "write_file") -> dict[str, Any]:
        """Announce a write, do it, announce its end; return the answer to the first."""
        answer = self.event("before_tool", turn=turn, tool=tool, paths=[name])
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        self.event("after_tool", turn=turn, tool=tool, paths=[name], status="ok")
        return answer

    def agent_runs(self, command: str, *, turn: str, call: str = "c1") -> dict[str, Any]:
        """Announce a shell command, run it, announce its end; return the answer to the first."""
        answer = self.event("before_tool", turn=turn, tool="terminal", command=command, call=call)
        subprocess.run(["sh", "-c", command], cwd=self.project, check=True)
        self.event("after_tool", turn=turn, tool="terminal", command=command, call=call, status="ok")
        return answer


@dataclass
class InProcess(Product):
    """Do the same steps in this process, without the service: quicker where the command itself is not the point."""

    def ask(self, method: str, **arguments: object) -> dict[str, Any]:
        """Have one operation done."""
        home = self.options[self.options.index("--home") + 1] if "--home" in self.options else None
        with open_directly(resolve_paths(home=home, profile=None, environ=os.environ)) as operations:
            return operations.dispatch(method, {"workdir": str(self.project), "cwd": str(self.project)} | arguments)

    def event(self, kind: str, **fields: object) -> dict[str, Any]:
        """Handle one generic event."""
        return self.ask("event", event=kind, session=self.session, **fields)


@contextmanager
def serving(product: Product) -> Iterator[subprocess.Popen[bytes]]:
    """Run the service until the block ends; it must end cleanly within its time."""
    process = start_service(product)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        out, err = process.communicate(timeout=30)
        assert b"Traceback" not in err, err.decode()
        del out


def start_service(product: Product) -> subprocess.Popen[bytes]:
    """Start the service and wait until it answers."""
    process = subprocess.Popen(
        [*_MAIN, *product.options, "serve"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        env=command_environment(),
    )
    if product.run("ping", "--wait", "20").code:
        process.kill()
        raise AssertionError(process.communicate()[1].decode())
    return process


def wait_until(condition: Callable[[], object], *, within_s: float = 20.0) -> None:
    """Wait for a condition, and fail when it does not come true in time."""
    give_up_at = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < give_up_at, "it did not come true in time"
        time.sleep(0.02)


@dataclass
class Following(InProcess):
    """Do the same steps in this process, on one home that follows events as the service does."""

    def __post_init__(self) -> None:
        """Open the home."""
        paths = resolve_paths(home=None, profile=None, environ=os.environ)
        self.home = Home(paths, user_home=os.path.expanduser("~"), follow_events=True)
        self.operations = Operations(self.home, serving=True)

    def ask(self, method: str, **arguments: object) -> dict[str, Any]:
        """Have one operation done."""
        return self.operations.dispatch(method, {"workdir": str(self.project), "cwd": str(self.project)} | arguments)

    def engine(self) -> Engine:
        """Return the project's engine."""
        engine = self.home.find_engine(Project.of(str(self.project)).hash)
        assert engine is not None
        return engine
