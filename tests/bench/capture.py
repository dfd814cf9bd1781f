"""Capturing without the service: a scan against `git status`, a first checkpoint against `git add`."""

from __future__ import annotations

import shutil
import subprocess
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


def measure_first(folder: Path) -> Pair:
    """Measure the first checkpoint of a project, and the same with git's own steps."""
    project, home, shadow = folder / "project", folder / "first-home", folder / "first.git"
    product = InProcess(project, options=["--home", str(home)])
    subprocess.run(["sync"], check=False)
    ours = _time(lambda: product.ask("take"))
    run_git(folder, "init", "-q", "--bare", str(shadow))
    where = {"GIT_DIR": str(shadow), "GIT_WORK_TREE": str(project), "GIT_INDEX_FILE": str(folder / "first-index")}

    def by_git() -> None:
        run_git(project, "add", "-A", ".", **where)
        run_git(project, "commit-tree", run_git(project, "write-tree", **where), "-m", "first", **where)

    return Pair([ours], [_time(by_git)])


def _time(work: object) -> float:
    assert callable(work)
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000
