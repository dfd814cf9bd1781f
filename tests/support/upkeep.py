"""Stores that need maintenance: several projects with histories, and what is to be true of them afterwards."""

from __future__ import annotations

import os
import random
import subprocess
from typing import TYPE_CHECKING

from store.history import list_history
from store.lock import StoreLock
from store.project import Project, save_record, touch
from store.project_store import open_project_store
from store.tree import flatten
from tests.support.stores import take

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from store.layout import Layout
    from store.objects import Commit


def noise(size_bytes: int, seed: object) -> bytes:
    """Return bytes that can't be compressed, the same for the same seed."""
    return random.Random(str(seed)).randbytes(size_bytes)


def grow_project(
    layout: Layout, root: Path, *, count: int, size_bytes: int = 20_000, now: float = 1000.0, keep_count: int = 100
) -> Project:
    """Give a project some checkpoints, each with one file of its own content beside one that stays."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "same.txt").write_text(f"{root.name}\n")
    project = Project.of(str(root))
    store = open_project_store(layout, project)
    for number in range(count):
        (root / "big.bin").write_bytes(noise(size_bytes, (root.name, number, now)))
        take(store, f"step {number}", now=now + number, keep_count=keep_count)
    save_record(layout, project.hash, touch(None, project, now=now + count))
    return project


def holder(layout: Layout) -> Callable[[], AbstractContextManager[None]]:
    """Return what takes the lock of a store."""
    lock = StoreLock(layout)
    return lambda: lock.hold(wait_s=60)


def history(layout: Layout, project: Project) -> list[Commit]:
    """Return the checkpoints of a project."""
    return list_history(open_project_store(layout, project))


def read_all(layout: Layout, project: Project) -> dict[str, dict[bytes, bytes]]:
    """Return the content of every file of every checkpoint, by id."""
    objects = open_project_store(layout, project).objects
    return {
        commit.oid.hex(): {path: objects.read_blob(entry.oid) for path, entry in flatten(objects, commit.tree).items()}
        for commit in history(layout, project)
    }


def check_with_git(layout: Layout) -> None:
    """Have git check the store."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", f"--git-dir={layout.store}", "fsck", "--full", "--strict", "--no-dangling"],
        capture_output=True, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    assert b"missing" not in done.stdout, done.stdout.decode()
    assert b"broken" not in done.stdout, done.stdout.decode()
