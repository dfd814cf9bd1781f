"""Rollbacks in the service: one file by its name, and many at once against git."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bench.capture import Pair
from tests.bench.git_steps import run_git, start_repository, time_git
from tests.bench.serving import ask, call_hook, settle
from tests.bench.trees import change

if TYPE_CHECKING:
    from pathlib import Path

    from watcher.client import Client


def measure_one(client: Client, project: Path, files: list[Path], *, rounds: int) -> list[float]:
    """Measure a rollback of one changed file by its name, in milliseconds."""
    took = []
    for number in range(rounds + 1):
        path = files[number * 7919 % len(files)]
        path.write_text(f"before round {number}\n")
        call_hook(client, project, f"one {number}")
        path.write_text(f"after round {number}\n")
        where = {"workdir": str(project), "cwd": str(project), "hash": "1"}
        took_ms, answer = ask(client, "rollback.restore", **where, paths=[str(path.relative_to(project))])
        assert answer["success"] is True, answer
        assert path.read_text() == f"before round {number}\n"
        took.append(took_ms)
    return took[1:]


def measure_many(client: Client, project: Path, files: list[Path], twin: Path, *, rounds: int) -> Pair:
    """Measure a rollback of some of a project's files, all of them changed, and git's checkout of the same ones.

    Args:
        client: Of the service.
        project: What it watches.
        files: Those that are changed.
        twin: A tree of the same files that nobody watches, for git.
        rounds: How often; the two sides in turn.
    """
    environment, commit = start_repository(twin)
    twins = [twin / path.relative_to(project) for path in files]
    ours, git = [], []
    for number in range(rounds):
        _, taken = ask(client, "take", workdir=str(project), reason=f"many {number}")
        checkpoint = taken["checkpoint"]
        assert isinstance(checkpoint, dict)
        change(files, f"ours {number}")
        settle()
        took_ms, answer = ask(client, "rollback.restore", workdir=str(project), hash=checkpoint["hash"], all=True)
        assert answer["success"] is True, answer
        restored = answer["restored_files"]
        assert isinstance(restored, list)
        assert len(restored) == len(files)
        ours.append(took_ms)
        change(twins, f"git {number}")
        settle()
        git.append(time_git(twin, environment, "checkout", commit, "--", ".")[0])
        assert run_git(twin, "status", "--porcelain", **environment) == ""
    return Pair(ours, git)
