"""Real git, as the other side of a measurement."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_GIT_ENVIRONMENT = {
    "PATH": os.environ.get("PATH", os.defpath),
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}


def run_git(directory: Path, *arguments: str, **environment: str) -> str:
    """Run one git command and return what it prints."""
    return time_git(directory, environment, *arguments)[1]


def time_git(directory: Path, environment: dict[str, str], *arguments: str, stdin: bytes = b"") -> tuple[float, str]:
    """Run one git command; return the milliseconds that its process took, and what it prints."""
    complete = _GIT_ENVIRONMENT | environment
    started = time.perf_counter()
    done = subprocess.run(
        ["git", *arguments], cwd=directory, env=complete, input=stdin, capture_output=True, check=True
    )
    return (time.perf_counter() - started) * 1000, done.stdout.decode().strip()


def start_repository(work_tree: Path) -> tuple[dict[str, str], str]:
    """Commit a tree to a repository beside it; return the variables that name the two, and the commit."""
    repository = work_tree.with_name(f"{work_tree.name}.git")
    run_git(work_tree, "init", "-q", "--bare", str(repository))
    environment = {
        "GIT_DIR": str(repository),
        "GIT_WORK_TREE": str(work_tree),
        "GIT_INDEX_FILE": str(repository / "index"),
    }
    run_git(work_tree, "add", "-A", ".", **environment)
    commit = run_git(
        work_tree, "commit-tree", run_git(work_tree, "write-tree", **environment), "-m", "1", **environment
    )
    run_git(work_tree, "update-ref", "HEAD", commit, **environment)
    return environment, commit
