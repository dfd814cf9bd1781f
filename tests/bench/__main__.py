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

from tests.bench.capture import Pair, measure_scan
from tests.bench.first import measure_first
from tests.bench.hot_path import HotPath, measure_git, measure_service
from tests.bench.rollback import measure_many, measure_one
from tests.bench.scattered import measure_scattered
from tests.bench.serving import seal, watching
from tests.bench.trees import make_tree
from tests.bench.without_service import measure_beside_ignored, measure_unchanged

_ROUNDS = 100
_GIT_ROUNDS = 3
_SCAN_ROUNDS = 9
_FIRST_ROUNDS = 3
_MANY = 400_000
_MANY_ROUNDS = 40
_ROLLBACK_ROUNDS = 20
_MANY_ROLLBACKS = 3
_SCATTERED_ROUNDS = 5
_IGNORED_ROUNDS = 9
_UNCHANGED_ROUNDS = 3


def main() -> None:
    """Run the rows that are named, or all."""
    rows = {
        "hot-path": _hot_path,
        "first": _first,
        "many-files": _many_files,
        "rollback": _rollback,
        "scattered": _scattered,
        "node-modules": _node_modules,
        "unchanged": _unchanged,
    }
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


def _many_files(folder: Path) -> None:
    """One file changed of 100 times as many."""
    small, large = (_measure_many(folder / str(count), count) for count in (_MANY // 100, _MANY))
    _show(f"hook, 1 of {small.file_count:,} small files changed", small)
    _show(f"hook, 1 of {large.file_count:,} small files changed", large)
    times = large.median_ms / small.median_ms
    print(f"{large.file_count:,} files against {small.file_count:,}: {times:.2f} times (to reach: 1.5 at most)")


def _measure_many(folder: Path, file_count: int) -> HotPath:
    socket_path = seal(folder)
    (folder / "hermes").mkdir()
    (folder / "hermes" / "config.yaml").write_text("checkpoints: {max_files: 1000000}\n")
    files = make_tree(folder / "project", file_count, mean_bytes=64, in_a_folder=100)
    return measure_service(files, folder / "project", rounds=_MANY_ROUNDS, socket_path=socket_path)


def _rollback(folder: Path) -> None:
    """One file by its name, and 10,000 files against git."""
    socket_path, project, twin = seal(folder), folder / "project", folder / "twin"
    files = make_tree(project, 40_000)
    make_tree(twin, 40_000)
    with watching(project, socket_path) as client:
        one = measure_one(client, project, files, rounds=_ROLLBACK_ROUNDS)
        many = measure_many(client, project, files[::4], twin, rounds=_MANY_ROLLBACKS)
    print(
        f"rollback by name, 1 of 40,000 files: median {statistics.median(one):.1f} ms, most {max(one):.1f} ms "
        f"of {len(one)} (to reach: 20 at most)"
    )
    _compare("rollback --all, 10,000 of 40,000 files, against git checkout", many, "1.5 times at most")


def _scattered(folder: Path) -> None:
    """1,000 files changed, each in a directory of its own."""
    socket_path, project, twin = seal(folder), folder / "project", folder / "twin"
    files = make_tree(project, 40_000)
    make_tree(twin, 40_000)
    with watching(project, socket_path) as client:
        found = measure_scattered(client, project, files[::40], twin, rounds=_SCATTERED_ROUNDS)
    update, write = statistics.median(found.update_index_ms), statistics.median(found.write_tree_ms)
    by_git = [sum(each) for each in zip(found.update_index_ms, found.write_tree_ms, strict=True)]
    _compare(
        f"hook, 1,000 files changed in 1,000 directories of 40,000 files, against git update-index ({update:.0f} ms) "
        f"and write-tree ({write:.0f} ms)",
        Pair(found.ours_ms, by_git),
        "2 times at most",
    )


def _node_modules(folder: Path) -> None:
    """One source file beside 60,000 files that are not captured."""
    took = measure_beside_ignored(folder, 60_000, rounds=_IGNORED_ROUNDS)
    print(
        f"no service, 1 file changed beside 60,000 in node_modules: median {statistics.median(took):.0f} ms "
        f"of {len(took)} (to reach: 50 at most)"
    )


def _unchanged(folder: Path) -> None:
    """A second checkpoint without changes."""
    found = measure_unchanged(folder, 20_000, 4_200, rounds=_UNCHANGED_ROUNDS)
    first, second = statistics.median(found.first_ms), statistics.median(found.second_ms)
    all_read, read = statistics.median(found.first_read_bytes), statistics.median(found.second_read_bytes)
    print(
        f"no service, nothing changed in 20,000 files, {found.content_bytes / 1e6:.0f} MB: reads {read / 1e6:.1f} MB, "
        f"{read / found.content_bytes:.1%} of the content (to reach: below 5%); the first {all_read / 1e6:.0f} MB; "
        f"git's and the readers' reads are counted, mapped files are not"
    )
    print(
        f"its time: {second:.0f} ms against {first:.0f} ms of the first, {second / first:.2f} times "
        f"(to reach: below 0.25); median of {len(found.first_ms)}"
    )


def _seal_and_measure(folder: Path, file_count: int) -> HotPath:
    """Measure with a home of its own."""
    socket_path = seal(folder)
    files = make_tree(folder / "project", file_count)
    return measure_service(files, folder / "project", rounds=_ROUNDS, socket_path=socket_path)


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
