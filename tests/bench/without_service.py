"""Checkpoints without the service: beside many ignored files, and with nothing changed."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.bench.serving import seal, settle
from tests.bench.trees import make_tree
from tests.support.steps import InProcess

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Hold what a first checkpoint took, and a second one with nothing changed."""

    content_bytes: int
    first_ms: list[float]
    second_ms: list[float]
    first_read_bytes: list[int]
    second_read_bytes: list[int]
    """What was read by this process and the processes it started, the ones of git included."""


def measure_beside_ignored(folder: Path, ignored_count: int, *, rounds: int) -> list[float]:
    """Measure checkpoints of one source file, changed each time, beside a folder that is not captured."""
    seal(folder)
    project = folder / "project"
    make_tree(project / "node_modules", ignored_count, mean_bytes=256)
    source = project / "main.py"
    source.write_text("print(0)\n")
    product = InProcess(project)
    assert product.ask("take")["files"] == 1
    settle()
    took = []
    for number in range(rounds):
        source.write_text(f"print({number}, 'changed')\n")
        took_ms, answer = _take(product)
        assert answer["taken"] is True, answer
        took.append(took_ms)
    return took


def measure_unchanged(folder: Path, file_count: int, mean_bytes: int, *, rounds: int) -> Unchanged:
    """Measure first and second checkpoints, each pair in a home of its own."""
    project = folder / "project"
    files = make_tree(project, file_count, mean_bytes=mean_bytes)
    measured = Unchanged(sum(path.stat().st_size for path in files), [], [], [], [])
    for number in range(rounds):
        seal(folder / f"home{number}")
        product = InProcess(project)
        settle()
        before = _count_read_bytes()
        measured.first_ms.append(_take(product)[0])
        measured.first_read_bytes.append(_count_read_bytes() - before)
        settle()
        before = _count_read_bytes()
        took_ms, answer = _take(product)
        assert answer["why"] == "unchanged", answer
        measured.second_ms.append(took_ms)
        measured.second_read_bytes.append(_count_read_bytes() - before)
    return measured


def _take(product: InProcess) -> tuple[float, dict[str, object]]:
    started = time.perf_counter()
    answer = product.ask("take")
    return (time.perf_counter() - started) * 1000, answer


def _count_read_bytes() -> int:
    """Return how much this process and those it waited for have read. Source: proc_pid_io(5), `rchar`."""
    with open(f"/proc/{os.getpid()}/io", encoding="ascii") as file:
        return int(next(line for line in file if line.startswith("rchar:")).split()[1])
