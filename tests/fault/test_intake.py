"""Many files at once: read by other processes, kept when interrupted, and exact whatever happens to a reader."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from store import intake
from store.capture import Limits
from store.errors import DeadlinePassedError, PackFailedError, TooManyFilesError
from store.index import load_index
from store.pack import PackWriter
from store.scan import scan
from store.tree import flatten
from tests.support.stores import make_scope, open_store
from tests.support.workdir import git, write

if TYPE_CHECKING:
    import subprocess

    from store.capture import Scope
    from store.entries import Oid
    from store.project_store import ProjectStore

_COUNT = 600


@pytest.fixture(autouse=True)
def with_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start readers for few files, on any machine."""
    monkeypatch.setattr(intake, "_SHARED_FILES", 250)
    monkeypatch.setattr(intake, "_count_cores", lambda: 2)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    for number in range(_COUNT):
        write(project / f"d{number % 7}" / f"f{number}.txt", f"content {number}\n" * (number % 50))
    return project


def scope_of(store: ProjectStore, limits: Limits | None = None) -> Scope:
    return make_scope(Path(store.project.workdir), limits=limits)


def contents_of(store: ProjectStore, tree: Oid) -> dict[bytes, bytes]:
    return {path: store.objects.read_blob(entry.oid) for path, entry in flatten(store.objects, tree).items()}


def on_disk(store: ProjectStore) -> dict[bytes, bytes]:
    found = {}
    for folder, _, names in os.walk(store.project.root):
        for name in names:
            full = os.path.join(folder, name)
            with open(full, "rb") as file:
                found[os.path.relpath(full, store.project.root)] = file.read()
    return found


def reader_ids() -> list[int]:
    return [child.pid for child in psutil.Process().children() if "store.reader" in " ".join(child.cmdline())]


def test_what_readers_read_is_what_is_on_disk_in_one_pack(project: Path) -> None:
    store = open_store(project.parent, project)
    seen: list[tuple[int, int]] = []
    baseline = scan(store, scope_of(store, Limits(on_progress=lambda done, total: seen.append((done, total)))))
    assert contents_of(store, baseline.tree) == on_disk(store)
    assert baseline.file_count == _COUNT
    assert seen[-1] == (_COUNT, _COUNT)
    assert len([name for name in os.listdir(f"{store.layout.store}/objects/pack") if name.endswith(".pack")]) == 1
    git(Path(store.layout.store), "fsck", "--full", "--strict", "--no-dangling")


def test_files_that_readers_leave_out_are_named(project: Path) -> None:
    store = open_store(project.parent, project)
    root = store.project.root
    os.symlink(b"nowhere", os.path.join(root, b"link"))
    os.mkfifo(os.path.join(root, b"pipe"))
    with open(os.path.join(root, b"large"), "wb") as file:
        file.truncate(11 << 20)
    baseline = scan(store, scope_of(store))
    assert {path: reason.value for path, reason in baseline.left_out.items()} == {
        b"pipe": "special-file",
        b"large": "too-large",
    }
    assert contents_of(store, baseline.tree)[b"link"] == b"nowhere"


@pytest.mark.parametrize("how_many", [1, 2])
def test_a_lost_reader_costs_nothing(project: Path, monkeypatch: pytest.MonkeyPatch, how_many: int) -> None:
    store = open_store(project.parent, project)
    original = intake._start_reader
    started: list[subprocess.Popen[bytes] | None] = []

    def start_and_kill() -> subprocess.Popen[bytes] | None:
        process = original()
        started.append(process)
        if process is not None and len(started) <= how_many:
            process.send_signal(signal.SIGKILL)
        return process

    monkeypatch.setattr(intake, "_start_reader", start_and_kill)
    baseline = scan(store, scope_of(store))
    assert len(started) == 2
    assert contents_of(store, baseline.tree) == on_disk(store)


def test_readers_that_do_not_start_cost_nothing(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(project.parent, project)
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    assert contents_of(store, scan(store, scope_of(store)).tree) == on_disk(store)


@pytest.mark.parametrize("error", [KeyboardInterrupt, DeadlinePassedError])
def test_an_interrupted_scan_keeps_what_was_read(project: Path, error: type[BaseException]) -> None:
    store = open_store(project.parent, project)

    def interrupt(done: int, _: int) -> None:
        if done:
            raise error("over")

    with pytest.raises(error):
        scan(store, scope_of(store, Limits(on_progress=interrupt)))
    assert reader_ids() == []
    cache = load_index(store.layout.index_file(store.project.hash))
    assert cache is not None
    assert cache.entries
    kept = contents_of(store, cache.tree)
    assert kept.items() <= on_disk(store).items()
    assert contents_of(store, scan(store, scope_of(store)).tree) == on_disk(store)


def test_a_file_deleted_after_an_interruption_is_not_in_the_next_checkpoint(project: Path) -> None:
    store = open_store(project.parent, project)
    scan(store, scope_of(store))
    paths = sorted(on_disk(store))
    for path in paths:
        with open(os.path.join(store.project.root, path), "ab") as file:
            file.write(b"more\n")

    def interrupt(*_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scan(store, scope_of(store, Limits(on_progress=interrupt)))
    for path in paths[::2]:
        os.unlink(os.path.join(store.project.root, path))
    assert contents_of(store, scan(store, scope_of(store)).tree) == on_disk(store)


def test_too_many_files_leave_nothing_in_the_store(project: Path) -> None:
    store = open_store(project.parent, project)
    with pytest.raises(TooManyFilesError):
        scan(store, scope_of(store, Limits(max_files=500)))
    assert os.listdir(f"{store.layout.store}/objects/pack") == []


def test_a_pack_that_cannot_be_written_is_reported(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(project.parent, project)

    def fail(*_: object) -> None:
        raise PackFailedError("The pack can't be written: no space.")

    monkeypatch.setattr(PackWriter, "_append", fail)
    with pytest.raises(PackFailedError):
        scan(store, scope_of(store))
    assert os.listdir(f"{store.layout.store}/objects/pack") == []
