"""`make bench`: print each figure as a ratio, both sides measured in this run.

`python -m tests.bench NAME…` runs the rows of these names alone.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
import tempfile
from pathlib import Path

from config.paths import resolve_paths
from tests.bench.capture import Pair, measure_scan
from tests.bench.first import measure_first
from tests.bench.hot_path import HotPath, measure_git, measure_service

_ROUNDS = 100
_GIT_ROUNDS = 3
_SCAN_ROUNDS = 9
_FIRST_ROUNDS = 3


def main() -> None:
    """Run the rows that are named, or all."""
    rows = {"hot-path": _hot_path, "first": _first}
    named = sys.argv[1:] or list(rows)
    if unknown := [name for name in named if name not in rows]:
        sys.exit(f"No such row: {', '.join(unknown)}. There are: {', '.join(rows)}")
    print(f"{platform.platform()}, {os.cpu_count()} cores, CPython {platform.python_version()}")
    for name in named:
        with tempfile.TemporaryDirectory(prefix="hc-bench-") as folder:
            rows[name](Path(folder))


def _hot_path(folder: Path) -> None:
    """One of many files changed, in the service and without it."""
    small = _seal_and_measure(folder / "small", 4_000)
    large = _seal_and_measure(folder / "large", 40_000)
    git_ms = measure_git(folder / "large", rounds=_GIT_ROUNDS)
    scan = measure_scan(folder / "large", rounds=_SCAN_ROUNDS)
    by_git = statistics.median(git_ms)
    _show("hook, 1 of 4,000 files changed", small)
    _show("hook, 1 of 40,000 files changed", large)
    print(f"git read-tree, add -A, write-tree, commit-tree, update-ref: median {by_git:.0f} ms of {len(git_ms)}")
    print(f"40,000 files against 4,000: {large.median_ms / small.median_ms:.2f} times (to reach: 1.5 at most)")
    _compare("no service, 1 of 40,000 files changed, against git status", scan, "2 times at most")
    print(f"against git: {by_git / large.median_ms:.0f} times faster (to reach: 300)")


def _first(folder: Path) -> None:
    """The first checkpoint of 50,000 files."""
    os.environ |= {"HOME": str(folder)}
    first = measure_first(folder, 50_000, rounds=_FIRST_ROUNDS)
    ours, git = statistics.median(first.ours_s), statistics.median(first.git_s)
    print(
        f"first checkpoint of 50,000 files, the whole command: {ours:.2f} s against {git:.2f} s of git add -A, "
        f"write-tree, commit-tree, {git / ours:.2f} times faster (to reach: 4); median of {len(first.ours_s)}"
    )
    print(
        f"its peak memory: {first.peak_bytes / 1e6:.0f} MB, {first.peak_with_readers_bytes / 1e6:.0f} MB with the "
        f"readers it starts (to reach: 300 at most)"
    )
    ours_mb, git_mb = first.ours_store_bytes / 1e6, first.git_store_bytes / 1e6
    print(f"the objects after git gc: {ours_mb:.1f} MB against {git_mb:.1f} MB (to reach: no larger)")


def _seal_and_measure(folder: Path, file_count: int) -> HotPath:
    """Measure with a home of its own."""
    folder.mkdir()
    runtime = folder / "run"
    runtime.mkdir(mode=0o700)
    home = {"HOME": str(folder / "home"), "HERMES_HOME": str(folder / "hermes"), "XDG_RUNTIME_DIR": str(runtime)}
    (folder / "home").mkdir()
    os.environ |= home
    socket_path = resolve_paths(home=None, profile=None, environ=os.environ).socket
    return measure_service(folder, file_count, rounds=_ROUNDS, socket_path=socket_path)


def _compare(what: str, pair: Pair, to_reach: str) -> None:
    ours, git = statistics.median(pair.ours_ms), statistics.median(pair.git_ms)
    print(f"{what}: {ours:.0f} ms against {git:.0f} ms, {ours / git:.2f} times (to reach: {to_reach})")


def _show(what: str, measured: HotPath) -> None:
    print(
        f"{what}: median {measured.median_ms:.2f} ms, p99 {measured.p99_ms:.2f} ms of {len(measured.changed_ms)}; "
        f"nothing changed: median {statistics.median(measured.unchanged_ms):.2f} ms"
    )


if __name__ == "__main__":
    main()
