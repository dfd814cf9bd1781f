"""Many files changed, each in a directory of its own: the service's hook against what git takes for the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.bench.git_steps import start_repository, time_git
from tests.bench.serving import call_hook, settle
from tests.bench.trees import change

if TYPE_CHECKING:
    from pathlib import Path

    from watcher.client import Client


@dataclass(frozen=True, slots=True)
class Scattered:
    """Hold what the two sides took, in milliseconds."""

    ours_ms: list[float]
    update_index_ms: list[float]
    write_tree_ms: list[float]


def measure_scattered(client: Client, project: Path, files: list[Path], twin: Path, *, rounds: int) -> Scattered:
    """Measure a hook that finds some files changed, and git told of the same ones with its index up to date.

    Args:
        client: Of the service.
        project: What it watches.
        files: Those that are changed.
        twin: A tree of the same files that nobody watches, for git.
        rounds: How often, after one that is not counted; the two sides in turn.
    """
    environment, _ = start_repository(twin)
    names = [path.relative_to(project) for path in files]
    told = b"".join(bytes(name) + b"\0" for name in names)
    measured = Scattered([], [], [])
    for number in range(rounds + 1):
        change(files, f"round {number}")
        settle()
        took_ms, answer = call_hook(client, project, f"scattered {number}")
        assert answer["taken"] is True, answer
        change([twin / name for name in names], f"round {number}")
        settle()
        update_ms, _ = time_git(twin, environment, "update-index", "-z", "--stdin", stdin=told)
        write_ms, _ = time_git(twin, environment, "write-tree")
        if number:
            measured.ours_ms.append(took_ms)
            measured.update_index_ms.append(update_ms)
            measured.write_tree_ms.append(write_ms)
    return measured
