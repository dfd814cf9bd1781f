"""Capturing without the service: a scan against `git status`."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.bench.git_steps import run_git
from tests.support.steps import InProcess

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Pair:
    """Hold what we took and what git took for the same work, in milliseconds."""

    ours_ms: list[float]
    git_ms: list[float]


def measure_scan(folder: Path, *, rounds: int) -> Pair:
    """Measure a checkpoint of a known project with one file changed, and `git status` of the same tree."""
    project = folder / "project"
    product = InProcess(project)
    product.ask("take")
    run_git(project, "init", "-q", ".")
    run_git(project, "add", "-A")
    files = sorted(project.rglob("*.txt"))
    ours, git = [], []
    for number in range(rounds):
        files[number * 31 % len(files)].write_text(f"scan round {number}\n")
        ours.append(_time(lambda: product.ask("take")))
        git.append(_time(lambda: run_git(project, "status", "--porcelain")))
    shutil.rmtree(project / ".git")
    return Pair(ours, git)


def _time(work: object) -> float:
    assert callable(work)
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000
