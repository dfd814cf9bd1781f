"""One of many files changed: the service's hook against the same checkpoint made of git's own steps."""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.bench.git_steps import run_git
from tests.bench.serving import call_hook, watching

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class HotPath:
    """Hold what was measured on one tree."""

    file_count: int
    changed_ms: list[float]
    """Each hook call that found one file changed, from the client's send to the answer."""
    unchanged_ms: list[float]
    """Each hook call that found nothing changed."""

    @property
    def median_ms(self) -> float:
        return statistics.median(self.changed_ms)

    @property
    def p99_ms(self) -> float:
        return sorted(self.changed_ms)[int(len(self.changed_ms) * 0.99)]


def measure_service(files: list[Path], project: Path, *, rounds: int, socket_path: str) -> HotPath:
    """Measure hook calls on a project of some files, in a service of its own."""
    changed, unchanged = [], []
    with watching(project, socket_path) as client:
        for number in range(rounds + 5):
            files[(number * 7919) % len(files)].write_text(f"changed in round {number}\n")
            took_ms, answer = call_hook(client, project, f"changed {number}")
            assert answer["taken"] is True, answer
            changed.append(took_ms)
            took_ms, answer = call_hook(client, project, f"unchanged {number}")
            assert answer["why"] == "unchanged", answer
            unchanged.append(took_ms)
    return HotPath(len(files), changed[5:], unchanged[5:])


def measure_git(folder: Path, *, rounds: int) -> list[float]:
    """Measure the same checkpoint done with git's own steps, on a fresh `read-tree`, as the built-in manager does."""
    project, store = folder / "project", folder / "shadow.git"
    files = sorted(path for path in project.rglob("*.txt"))
    run_git(folder, "init", "-q", "--bare", str(store))
    environment = {"GIT_DIR": str(store), "GIT_WORK_TREE": str(project), "GIT_INDEX_FILE": str(folder / "index")}
    tip = _snapshot(project, environment, None)
    os.sync()
    took = []
    for number in range(rounds):
        files[(number * 7919) % len(files)].write_text(f"changed for git in round {number}\n")
        started = time.perf_counter()
        tip = _snapshot(project, environment, tip)
        took.append((time.perf_counter() - started) * 1000)
    return took


def _snapshot(project: Path, environment: dict[str, str], tip: str | None) -> str:
    if tip is not None:
        run_git(project, "read-tree", tip, **environment)
    run_git(project, "add", "-A", ".", **environment)
    tree = run_git(project, "write-tree", **environment)
    parent = ["-p", tip] if tip is not None else []
    commit = run_git(project, "commit-tree", tree, *parent, "-m", "checkpoint", **environment)
    run_git(project, "update-ref", "refs/hermes/bench", commit, **environment)
    return commit
