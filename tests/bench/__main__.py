"""`make bench`: print each figure as a ratio, both sides measured in this run."""

from __future__ import annotations

import os
import platform
import statistics
import tempfile
from pathlib import Path

from config.paths import resolve_paths
from tests.bench.capture import Pair, measure_first, measure_scan
from tests.bench.hot_path import HotPath, measure_git, measure_service

_ROUNDS = 100
_GIT_ROUNDS = 3
_SCAN_ROUNDS = 9


def main() -> None:
    """Run every scenario."""
    print(f"{platform.platform()}, {os.cpu_count()} cores, CPython {platform.python_version()}")
    with tempfile.TemporaryDirectory(prefix="hc-bench-") as name:
        folder = Path(name)
        small = _seal_and_measure(folder / "small", 4_000)
        large = _seal_and_measure(folder / "large", 40_000)
        git_ms = measure_git(folder / "large", rounds=_GIT_ROUNDS)
        scan = measure_scan(folder / "large", rounds=_SCAN_ROUNDS)
        first = measure_first(folder / "large")
    by_git = statistics.median(git_ms)
    _show("hook, 1 of 4,000 files changed", small)
    _show("hook, 1 of 40,000 files changed", large)
    print(f"git read-tree, add -A, write-tree, commit-tree, update-ref: median {by_git:.0f} ms of {len(git_ms)}")
    print(f"40,000 files against 4,000: {large.median_ms / small.median_ms:.2f} times (to reach: 1.5 at most)")
    _compare("no service, 1 of 40,000 files changed, against git status", scan, "2 times at most")
    _compare("first checkpoint of 40,000 files, against add -A, write-tree, commit-tree", first, "a quarter")
    print(f"against git: {by_git / large.median_ms:.0f} times faster (to reach: 300)")


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
