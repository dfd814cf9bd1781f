"""The first checkpoint of a project: the real command without the service, against git's own steps."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from store.files import measure_bytes
from tests.bench.git_steps import run_git
from tests.bench.trees import make_tree
from tests.support.steps import command_environment

if TYPE_CHECKING:
    from pathlib import Path

_LOOK_AGAIN_S = 0.01


@dataclass(frozen=True, slots=True)
class First:
    """Hold what both sides took for the same first checkpoint."""

    ours_s: list[float]
    """Each command, from its start to its exit."""
    git_s: list[float]
    """Each `add -A`, `write-tree` and `commit-tree`, their processes included."""
    peak_bytes: int
    """The most memory of the command's own process, as the kernel counted it."""
    peak_with_readers_bytes: int
    """The most memory of it and the processes it started together; shared pages count twice.

    Looked at every 10 ms in one more round, which is not timed, since looking costs a good part of a core.
    """
    ours_store_bytes: int
    """Our objects after `git gc`."""
    git_store_bytes: int
    """git's objects after `git gc`."""


def measure_first(folder: Path, file_count: int, *, rounds: int) -> First:
    """Measure first checkpoints, each in a home of its own, the two sides in turn."""
    project = folder / "project"
    make_tree(project, file_count)
    ours, git, peaks = [], [], []
    for number in range(rounds):
        home, shadow = folder / f"home{number}", folder / f"shadow{number}.git"
        os.sync()
        took_s, peak = _take(project, home)
        ours.append(took_s)
        peaks.append(peak)
        os.sync()
        git.append(_by_git(project, shadow))
    with_readers = _measure_with_readers(project, folder / "home")
    stores = home / "checkpoints" / "store", shadow
    for store in stores:
        run_git(store, "-c", "gc.auto=0", "gc", "--quiet", "--prune=now")
    sizes = [measure_bytes(str(store / "objects")) for store in stores]
    return First(ours, git, max(peaks), with_readers, sizes[0], sizes[1])


def _take(project: Path, home: Path) -> tuple[float, int]:
    """Run the command; return its seconds and its own peak in bytes."""
    started = time.perf_counter()
    process = _start(project, home)
    _, status, usage = os.wait4(process.pid, 0)
    took_s = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return took_s, usage.ru_maxrss * 1024


def _measure_with_readers(project: Path, home: Path) -> int:
    """Run the command; return the most memory of it and what it started together, in bytes."""
    process = _start(project, home)
    seen, most = psutil.Process(process.pid), 0
    while process.poll() is None:
        most = max(most, _measure_memory(seen))
        time.sleep(_LOOK_AGAIN_S)
    assert process.returncode == 0
    return most


def _start(project: Path, home: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "watcher.main", "--home", str(home), "--no-service", "take"]
    return subprocess.Popen(
        command, cwd=project, env=command_environment(), stdout=subprocess.DEVNULL, start_new_session=True
    )


def _measure_memory(process: psutil.Process) -> int:
    try:
        return sum(each.memory_info().rss for each in (process, *process.children()))
    except psutil.Error:
        return 0


def _by_git(project: Path, shadow: Path) -> float:
    run_git(project, "init", "-q", "--bare", str(shadow))
    where = {"GIT_DIR": str(shadow), "GIT_WORK_TREE": str(project), "GIT_INDEX_FILE": str(shadow / "index")}
    started = time.perf_counter()
    run_git(project, "add", "-A", ".", **where)
    commit = run_git(project, "commit-tree", run_git(project, "write-tree", **where), "-m", "first", **where)
    took_s = time.perf_counter() - started
    run_git(project, "update-ref", "refs/heads/first", commit, **where)
    return took_s
