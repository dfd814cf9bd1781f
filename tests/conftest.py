"""Every test runs sealed from the real home, and leaves no thread, process or descriptor behind."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
import threading
from typing import TYPE_CHECKING

import psutil
import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

settings.register_profile("quick", derandomize=True, deadline=None, max_examples=60)
settings.register_profile("deep", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.fixture
def without_flushes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Don't wait for the disk: what is killed loses nothing that was written, flushed or not."""
    monkeypatch.setattr("os.fsync", lambda _: None)
    for module in ("watcher.home", "store.objects"):
        monkeypatch.setattr(f"{module}.flush_file_system", lambda _: None)


@pytest.fixture(autouse=True)
def sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give the test a home of its own and an environment without git's and the agents' variables."""
    for name in list(os.environ):
        if name.startswith(("GIT_", "CLAUDE", "HERMES", "XDG_", "TERMINAL_")):
            monkeypatch.delenv(name)
    runtime = tempfile.mkdtemp(prefix="hc-")
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "hermes"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    yield
    shutil.rmtree(runtime, ignore_errors=True)


@pytest.fixture(autouse=True)
def leaves_nothing_behind() -> Iterator[None]:
    """Fail a test that leaks a thread, a process or a descriptor."""
    process = psutil.Process()
    threads = set(threading.enumerate())
    children = {child.pid for child in process.children(recursive=True)}
    descriptors = process.num_fds()
    yield
    gc.collect()
    left = [thread.name for thread in threading.enumerate() if thread not in threads]
    assert not left, f"threads still running: {left}"
    running = [child for child in process.children(recursive=True) if child.pid not in children]
    assert not running, f"processes still running: {running}"
    assert process.num_fds() <= descriptors, "descriptors still open"
