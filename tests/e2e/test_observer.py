"""The watch against a real disk: every change is covered by the dirty set once a barrier holds."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from store.nested import is_nested_repository
from watcher import inotify, observer
from watcher.dirty import Dirty, DirtySet
from watcher.observer import ProjectWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.skipif(not inotify.is_available(), reason="this system has no inotify")

DEADLINE_S = 20.0
QUEUE_LIMIT = Path("/proc/sys/fs/inotify/max_queued_events")


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.005)


def is_covered(dirty: Dirty, path: bytes) -> bool:
    if dirty.scan_reason is not None or path in dirty.paths or path in dirty.trees:
        return True
    above = os.path.dirname(path)
    while above:
        if above in dirty.trees:
            return True
        above = os.path.dirname(above)
    return False


class Project:
    """A directory with a watch on it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.dirty = DirtySet()
        self.watch = ProjectWatch(os.fsencode(root), self.is_excluded, self.dirty)
        self.on_question: Callable[[bytes], None] = lambda _: None

    def is_excluded(self, path: bytes) -> bool:
        self.on_question(path)
        return os.path.basename(path) == b"node_modules"

    def begin(self) -> None:
        self.watch.start()
        self.settle()

    def settle(self) -> None:
        """Forget what was noted so far."""
        assert self.watch.barrier(DEADLINE_S), self.watch.state
        self.dirty.take()

    def changes(self) -> Dirty:
        assert self.watch.barrier(DEADLINE_S), self.watch.state
        return self.dirty.take()

    def watch_count(self) -> int:
        """Count the watches that the tree as it is now calls for, those above the root included."""
        count = len(self.root.resolve().parts) - 2
        pending = [os.fsencode(self.root)]
        while pending:
            directory = pending.pop()
            count += 1
            entries = list(os.scandir(directory))
            if is_nested_repository(directory) and directory != os.fsencode(self.root):
                continue
            pending += [
                entry.path
                for entry in entries
                if entry.is_dir(follow_symlinks=False) and entry.name not in {b"node_modules", b".git"}
            ]
        return count


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    root = tmp_path / "project"
    root.mkdir()
    made = Project(root)
    yield made
    made.watch.stop()


class Stall:
    """Hold the watching thread still: it asks whether a new directory is excluded, and gets no answer yet."""

    def __init__(self, project: Project) -> None:
        self._reached, self._released = threading.Event(), threading.Event()
        self._path = b""
        self._root = project.root
        project.on_question = self._hold

    def _hold(self, path: bytes) -> None:
        if path == self._path:
            self._reached.set()
            self._released.wait(DEADLINE_S)

    @contextlib.contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        self._reached.clear()
        self._released.clear()
        self._path = os.fsencode(name)
        (self._root / name).mkdir()
        try:
            assert self._reached.wait(DEADLINE_S)
            yield
        finally:
            self._released.set()


@contextlib.contextmanager
def queue_limit(count: int) -> Iterator[None]:
    """Lower the length of queues that are opened inside; the kernel fixes it when a queue is opened."""
    if os.geteuid() != 0 or not os.access(QUEUE_LIMIT, os.W_OK):
        pytest.skip("only root may lower the queue limit")
    before = QUEUE_LIMIT.read_text()
    try:
        QUEUE_LIMIT.write_text(str(count))
    except OSError as error:
        pytest.skip(f"the queue limit can't be lowered: {error}")
    try:
        yield
    finally:
        QUEUE_LIMIT.write_text(before)


# Files.


def test_a_file_that_is_created_changed_renamed_and_deleted_is_noted(project: Project) -> None:
    project.begin()
    file = project.root / "a.txt"
    file.write_text("one")
    assert project.changes() == Dirty(frozenset({b"a.txt"}), frozenset(), None)
    file.write_text("two")
    assert project.changes().paths == {b"a.txt"}
    file.chmod(0o600)
    assert project.changes().paths == {b"a.txt"}
    os.utime(file, (1, 1))
    assert project.changes().paths == {b"a.txt"}
    file.rename(project.root / "b.txt")
    assert project.changes().paths == {b"a.txt", b"b.txt"}
    (project.root / "b.txt").unlink()
    assert project.changes().paths == {b"b.txt"}
    assert project.changes().is_empty


def test_a_file_that_is_written_and_kept_open_is_noted(project: Project) -> None:
    (project.root / "log").touch()
    project.begin()
    with (project.root / "log").open("ab", buffering=0) as file:
        file.write(b"line\n")
        assert project.changes().paths == {b"log"}


def test_an_atomic_replacement_is_noted(project: Project) -> None:
    (project.root / "src").mkdir()
    (project.root / "src" / "a.py").write_text("old")
    project.begin()
    (project.root / "src" / "a.py.tmp").write_text("new")
    (project.root / "src" / "a.py.tmp").replace(project.root / "src" / "a.py")
    assert project.changes().paths == {b"src/a.py", b"src/a.py.tmp"}


def test_reading_notes_nothing(project: Project) -> None:
    for number in range(20):
        (project.root / f"d{number}").mkdir()
        (project.root / f"d{number}" / "file").write_text("x")
    project.begin()
    for top, _, files in os.walk(project.root):
        for name in files:
            (Path(top) / name).read_bytes()
            os.lstat(Path(top) / name)
    assert project.changes().is_empty


@pytest.mark.parametrize("name", [b"new\nline\ttab", b"\xff\xfe bytes", b"-rf", b"trailing ", b"n" * 255, b'"quoted"'])
def test_an_odd_name_is_noted_as_it_is(project: Project, name: bytes) -> None:
    project.begin()
    root = os.fsencode(project.root)
    os.mkdir(os.path.join(root, name))
    assert project.changes().trees == {name}
    Path(os.fsdecode(os.path.join(root, name, name))).write_text("x")
    assert project.changes().paths == {name + b"/" + name}


# Directories.


def test_deep_directories_filled_at_once_by_another_process_are_noted_and_watched(project: Project) -> None:
    project.begin()
    script = "import os\nfor n in range(60):\n os.makedirs(f'n{n}/a/b/c')\n open(f'n{n}/a/b/c/file', 'w').write('x')"
    subprocess.run([sys.executable, "-I", "-S", "-c", script], cwd=project.root, check=True)
    taken = project.changes()
    assert all(is_covered(taken, b"n%d/a/b/c/file" % number) for number in range(60))
    for number in range(60):
        (project.root / f"n{number}/a/b/c/file").write_text("y")
    assert project.changes().paths == {b"n%d/a/b/c/file" % number for number in range(60)}
    assert project.watch.state.watch_count == project.watch_count()


def test_a_directory_moved_in_is_noted_and_watched_to_its_depth(project: Project, tmp_path: Path) -> None:
    project.begin()
    (tmp_path / "outside/x/y").mkdir(parents=True)
    assert project.changes().is_empty
    (tmp_path / "outside").rename(project.root / "inside")
    assert project.changes() == Dirty(frozenset(), frozenset({b"inside"}), None)
    (project.root / "inside/x/y/file").write_text("x")
    assert project.changes().paths == {b"inside/x/y/file"}


def test_a_directory_moved_out_is_noted_and_what_happens_there_later_is_not(project: Project, tmp_path: Path) -> None:
    (project.root / "inside/x").mkdir(parents=True)
    project.begin()
    (project.root / "inside").rename(tmp_path / "outside")
    (tmp_path / "outside/x/at once").write_text("x")
    assert project.changes() == Dirty(frozenset(), frozenset({b"inside"}), None)
    (tmp_path / "outside/x/later").write_text("x")
    (tmp_path / "outside/new").mkdir()
    assert project.changes().is_empty
    (project.root / "inside").mkdir()
    assert project.changes().trees == {b"inside"}
    assert project.watch.state.watch_count == project.watch_count()


def test_a_directory_renamed_inside_is_noted_under_its_new_name_from_then_on(project: Project) -> None:
    (project.root / "old/x").mkdir(parents=True)
    project.begin()
    (project.root / "old").rename(project.root / "new")
    assert project.changes().trees == {b"old", b"new"}
    (project.root / "new/x/file").write_text("x")
    assert project.changes().paths == {b"new/x/file"}


def test_two_directories_that_swap_names_are_told_apart(project: Project) -> None:
    for name in ("a", "b"):
        (project.root / name / f"only-{name}").mkdir(parents=True)
    project.begin()
    (project.root / "a").rename(project.root / "swap")
    (project.root / "b").rename(project.root / "a")
    (project.root / "swap").rename(project.root / "b")
    assert project.changes().trees >= {b"a", b"b"}
    (project.root / "a/only-b/file").write_text("x")
    (project.root / "b/only-a/file").write_text("x")
    assert project.changes().paths == {b"a/only-b/file", b"b/only-a/file"}
    assert project.watch.state.watch_count == project.watch_count()


def test_a_directory_moved_over_an_empty_one_takes_its_place(project: Project) -> None:
    (project.root / "a/x").mkdir(parents=True)
    (project.root / "b").mkdir()
    project.begin()
    (project.root / "a").rename(project.root / "b")
    assert project.changes().trees >= {b"a", b"b"}
    (project.root / "b/x/file").write_text("x")
    assert project.changes().paths == {b"b/x/file"}
    assert project.watch.state.watch_count == project.watch_count()


def test_a_deleted_tree_is_noted(project: Project) -> None:
    (project.root / "a/b/c").mkdir(parents=True)
    (project.root / "a/b/c/file").touch()
    project.begin()
    shutil.rmtree(project.root / "a")
    assert b"a" in project.changes().trees
    assert project.watch.state.watch_count == project.watch_count()


def test_an_excluded_directory_is_not_watched_until_it_has_another_name(project: Project) -> None:
    (project.root / "node_modules/pkg").mkdir(parents=True)
    project.begin()
    (project.root / "node_modules/pkg/file").write_text("x")
    (project.root / "node_modules/other").mkdir()
    assert project.changes().is_empty
    (project.root / "node_modules").rename(project.root / "kept")
    assert project.changes().trees == {b"kept"}
    (project.root / "kept/pkg/file").write_text("y")
    assert project.changes().paths == {b"kept/pkg/file"}
    (project.root / "kept").rename(project.root / "node_modules")
    assert project.changes().trees == {b"kept"}
    (project.root / "node_modules/pkg/file").write_text("z")
    assert project.changes().is_empty


def test_refreshing_asks_again_what_is_excluded(tmp_path: Path) -> None:
    (tmp_path / "build/x").mkdir(parents=True)
    excluded = {b"build"}
    dirty = DirtySet()
    watch = ProjectWatch(os.fsencode(tmp_path), excluded.__contains__, dirty)
    watch.start()
    try:
        assert watch.barrier(DEADLINE_S)
        count = watch.state.watch_count
        excluded.clear()
        dirty.take()
        watch.refresh("the ignore rules changed")
        assert watch.barrier(DEADLINE_S)
        assert dirty.take().scan_reason == "the ignore rules changed"
        assert watch.state.watch_count == count + 2
        (tmp_path / "build/x/file").touch()
        assert watch.barrier(DEADLINE_S)
        assert dirty.take().paths == {b"build/x/file"}
        excluded.add(b"build")
        watch.refresh("the ignore rules changed")
        assert watch.barrier(DEADLINE_S)
        assert watch.state.watch_count == count
    finally:
        watch.stop()


def test_a_directory_that_comes_is_asked_about_anew_and_no_other_one_is(project: Project) -> None:
    for number in range(5):
        (project.root / f"d{number}/x").mkdir(parents=True)
    project.begin()
    asked: set[bytes] = set()
    project.on_question = asked.add
    (project.root / "d0").rename(project.root / "moved")
    (project.root / "d1/new").mkdir()
    shutil.rmtree(project.root / "d2")
    project.changes()
    assert {b"moved", b"moved/x", b"d1/new"} <= asked
    assert not {b"d3", b"d3/x", b"d4", b"d4/x"} & asked


def test_a_changed_gitignore_has_every_directory_asked_about_anew(project: Project) -> None:
    (project.root / "d/x").mkdir(parents=True)
    project.begin()
    asked: set[bytes] = set()
    project.on_question = asked.add
    (project.root / "d/.gitignore").write_text("x\n")
    assert project.changes().scan_reason is not None
    assert asked == {b"d", b"d/x"}


def test_a_directory_with_a_git_entry_that_is_no_repository_is_watched(project: Project) -> None:
    (project.root / "sub/.git").mkdir(parents=True)
    project.begin()
    (project.root / "sub/file").write_text("x")
    assert project.changes().paths == {b"sub/file"}
    (project.root / "sub/.git/HEAD").write_text("ref: refs/heads/main\n")
    assert project.changes().trees == {b"sub"}
    (project.root / "sub/file").write_text("y")
    assert project.changes().is_empty
    (project.root / "sub/.git/HEAD").unlink()
    assert project.changes().trees == {b"sub"}
    (project.root / "sub/file").write_text("z")
    assert project.changes().paths == {b"sub/file"}


def test_a_link_to_a_directory_is_noted_and_not_followed(project: Project, tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    project.begin()
    (project.root / "link").symlink_to(tmp_path / "target")
    (project.root / "loop").symlink_to(project.root)
    assert project.changes().paths == {b"link", b"loop"}
    (tmp_path / "target/file").write_text("x")
    assert project.changes().is_empty
    assert project.watch.state.watch_count == project.watch_count()


def test_a_project_behind_a_link_is_watched(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    project = Project(tmp_path / "link")
    try:
        project.begin()
        (tmp_path / "real/file").write_text("x")
        assert project.changes().paths == {b"file"}
        (tmp_path / "other").mkdir()
        (tmp_path / "link").unlink()
        (tmp_path / "link").symlink_to("other")
        assert not project.watch.barrier(DEADLINE_S)
        assert project.watch.state.why == "another directory is in its place"
    finally:
        project.watch.stop()


# Repositories.


def test_the_projects_own_repository_is_not_watched(project: Project) -> None:
    (project.root / ".git/refs").mkdir(parents=True)
    project.begin()
    (project.root / ".git/index").write_text("x")
    (project.root / ".git/refs/new").mkdir()
    assert project.changes().is_empty


def make_repository(directory: Path) -> None:
    """Make the least that git takes for a repository."""
    (directory / ".git").mkdir(parents=True)
    (directory / ".git/HEAD").write_text("ref: refs/heads/main\n")


def test_a_nested_repository_is_noted_as_a_whole_and_not_watched_below(project: Project) -> None:
    (project.root / "sub/src").mkdir(parents=True)
    make_repository(project.root / "sub")
    project.begin()
    (project.root / "sub/file").write_text("x")
    (project.root / "sub/src/file").write_text("x")
    (project.root / "sub/.git/index").write_text("x")
    assert project.changes().is_empty
    assert project.watch.state.watch_count == project.watch_count()
    (project.root / "sub").rename(project.root / "moved")
    assert project.changes().trees == {b"sub", b"moved"}
    shutil.rmtree(project.root / "moved")
    assert b"moved" in project.changes().trees
    assert project.watch.state.watch_count == project.watch_count()


@pytest.mark.parametrize("kind", ["directory", "file"])
def test_a_directory_that_becomes_a_repository_and_ceases_to_be_one_is_noted(project: Project, kind: str) -> None:
    (project.root / "sub/src").mkdir(parents=True)
    git = project.root / "sub/.git"
    project.begin()
    make_repository(git.parent) if kind == "directory" else git.write_text("gitdir: elsewhere\n")
    assert project.changes().trees == {b"sub"}
    (project.root / "sub/src/file").write_text("x")
    assert project.changes().is_empty
    shutil.rmtree(git) if kind == "directory" else git.unlink()
    assert project.changes().trees == {b"sub"}
    (project.root / "sub/src/file").write_text("y")
    assert project.changes().paths == {b"sub/src/file"}
    assert project.watch.state.watch_count == project.watch_count()


def test_a_nested_repository_is_watched_when_that_is_asked_for(tmp_path: Path) -> None:
    make_repository(tmp_path / "sub")
    dirty = DirtySet()
    watch = ProjectWatch(os.fsencode(tmp_path), lambda _: False, dirty, watch_nested=True)
    watch.start()
    try:
        assert watch.barrier(DEADLINE_S)
        dirty.take()
        (tmp_path / "sub/file").write_text("x")
        (tmp_path / "sub/.git/index").write_text("x")
        assert watch.barrier(DEADLINE_S)
        assert dirty.take() == Dirty(frozenset({b"sub/file"}), frozenset(), None)
    finally:
        watch.stop()


# Lost events and missing watches.


def test_lost_events_are_told_and_what_was_born_meanwhile_is_watched(project: Project) -> None:
    stall = Stall(project)
    with queue_limit(64):
        project.begin()
    for burst in range(10):
        with stall(f"stall{burst}"):
            for number in range(300):
                (project.root / f"burst{burst}-{number}").touch()
            (project.root / f"born{burst}/deep").mkdir(parents=True)
        assert project.changes().scan_reason is not None
        (project.root / f"born{burst}/deep/file").touch()
        assert is_covered(project.changes(), b"born%d/deep/file" % burst)
    assert project.watch.state.overflow_count >= 10
    assert project.watch.state.mode == "events"
    assert project.watch.state.watch_count == project.watch_count()


def test_lost_events_with_more_directories_than_the_queue_holds_come_to_rest(project: Project, tmp_path: Path) -> None:
    for number in range(1_500):
        (project.root / f"d{number}").mkdir()
    with queue_limit(256):
        project.begin()
    for number in range(0, 1_500, 2):
        (project.root / f"d{number}").rename(tmp_path / f"gone{number}")
    project.settle()
    project.settle()
    count = project.watch.state.overflow_count
    assert project.changes().is_empty
    assert project.changes().is_empty
    assert project.watch.state.overflow_count == count
    assert project.watch.state.watch_count == project.watch_count()


def test_directories_beyond_the_watch_limit_are_counted_and_watched_when_there_is_room(tmp_path: Path) -> None:
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("there is no unshare program")
    limit = "/proc/sys/user/max_inotify_watches"
    if subprocess.run([unshare, "-Ur", "sh", "-c", f"echo 40 > {limit}"], capture_output=True, check=False).returncode:
        pytest.skip("no user namespace can be made here")
    for number in range(60):
        (tmp_path / f"d{number}").mkdir()
    script = f"""
import sys, time
from watcher.dirty import DirtySet
from watcher.observer import ProjectWatch
dirty = DirtySet()
watch = ProjectWatch(sys.argv[1].encode(), lambda path: False, dirty)
open({limit!r}, "w").write("40")
watch.start()
print(watch.barrier(10), watch.state.mode, "can't be watched: No space" in watch.state.why, dirty.take().scan_reason)
open({limit!r}, "w").write("1000")
deadline = time.monotonic() + 10
while not watch.barrier(1) and time.monotonic() < deadline:
    time.sleep(0.05)
print(watch.state.mode, dirty.take().scan_reason is not None)
watch.stop()
"""
    command = [unshare, "-Ur", sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(observer.__file__).parents[1])
    first, second = done.stdout.splitlines()
    assert first.startswith("False scan True ")
    assert "directories can't be watched" in first
    assert second == "events True"


def test_an_exception_on_the_way_is_told_and_recovered_from(tmp_path: Path) -> None:
    faults = [RuntimeError("broken rule")]

    def is_excluded(path: bytes) -> bool:
        if path == b"trap" and faults:
            raise faults.pop()
        return False

    dirty = DirtySet()
    watch = ProjectWatch(os.fsencode(tmp_path), is_excluded, dirty)
    watch.start()
    try:
        assert watch.barrier(DEADLINE_S)
        dirty.take()
        (tmp_path / "trap").mkdir()
        assert not watch.barrier(DEADLINE_S)
        assert "broken rule" in watch.state.why
        assert "broken rule" in (dirty.take().scan_reason or "")
        until(lambda: watch.state.mode == "events")
        assert dirty.take().scan_reason is not None
        (tmp_path / "trap/file").touch()
        assert watch.barrier(DEADLINE_S)
        assert dirty.take().paths == {b"trap/file"}
    finally:
        watch.stop()


# The root.


@pytest.mark.parametrize("change", ["renamed", "deleted", "parent renamed", "grandparent renamed", "replaced"])
def test_a_root_that_goes_away_is_told_and_one_that_comes_back_is_watched(tmp_path: Path, change: str) -> None:
    root = tmp_path / "grandparent/parent/root"
    root.mkdir(parents=True)
    project = Project(root)
    moved = {
        "renamed": root,
        "parent renamed": root.parent,
        "grandparent renamed": root.parent.parent,
        "replaced": root,
    }.get(change)
    try:
        project.begin()
        if moved is None:
            root.rmdir()
        else:
            moved.rename(tmp_path / "away")
        if change == "replaced":
            root.mkdir()
        # Told without being asked.
        until(lambda: project.dirty.peek().scan_reason is not None)
        if change != "replaced":
            assert not project.watch.barrier(DEADLINE_S)
            assert project.watch.state.mode == "scan"
            assert project.watch.state.why
            assert project.watch.state.watch_count == 0
            root.mkdir(parents=True)
        project.watch.start()
        project.settle()
        (root / "file").touch()
        assert project.changes().paths == {b"file"}
    finally:
        project.watch.stop()


@pytest.mark.parametrize("kind", ["missing", "file"])
def test_a_root_that_is_not_a_directory_is_told_and_watched_when_it_is_one(tmp_path: Path, kind: str) -> None:
    root = tmp_path / "root"
    if kind == "file":
        root.touch()
    project = Project(root)
    try:
        project.watch.start()
        assert not project.watch.barrier(DEADLINE_S)
        assert project.watch.state.mode == "scan"
        if kind == "file":
            root.unlink()
        root.mkdir()
        until(lambda: project.watch.barrier(DEADLINE_S))
    finally:
        project.watch.stop()


def test_a_pseudo_file_system_is_scanned() -> None:
    dirty = DirtySet()
    watch = ProjectWatch(b"/proc/sys", lambda _: True, dirty)
    watch.start()
    try:
        assert not watch.barrier(DEADLINE_S)
        assert watch.state.why == "its file system (proc) does not announce changes"
        assert dirty.take().scan_reason == watch.state.why
    finally:
        watch.stop()


def test_a_system_without_inotify_is_scanned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inotify, "is_available", lambda: False)
    watch = ProjectWatch(os.fsencode(tmp_path), lambda _: False, DirtySet())
    watch.start()
    assert not watch.barrier(1.0)
    assert watch.state.mode == "scan"
    assert watch.state.why == "this system has no inotify"
    watch.stop()


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    point = tmp_path / "volume"
    point.mkdir()
    mount = shutil.which("mount")
    done = mount and subprocess.run([mount, "-t", "tmpfs", "none", point], capture_output=True, check=False)
    if not done or done.returncode:
        pytest.skip("no volume can be mounted here")
    yield point
    subprocess.run(["umount", "-l", point], capture_output=True, check=False)


def test_an_unmounted_root_is_told_and_the_watch_does_not_keep_it_busy(mounted: Path) -> None:
    project = Project(mounted)
    try:
        project.begin()
        (mounted / "file").touch()
        assert project.changes().paths == {b"file"}
        subprocess.run(["umount", mounted], check=True)
        until(lambda: project.watch.state.mode == "scan" or project.dirty.peek().scan_reason is not None)
        assert project.dirty.take().scan_reason == "its volume was unmounted"
    finally:
        project.watch.stop()


def test_another_volume_inside_the_project_is_not_entered(mounted: Path) -> None:
    (mounted / "x").mkdir()
    project = Project(mounted.parent)
    try:
        project.begin()
        (mounted / "x/file").touch()
        (mounted / "file").touch()
        assert project.changes().is_empty
    finally:
        project.watch.stop()


def test_a_directory_under_two_names_is_told_until_one_is_gone(project: Project) -> None:
    for name in ("a", "b"):
        (project.root / name).mkdir()
    command = ["mount", "--bind", str(project.root / "a"), str(project.root / "b")]
    if not shutil.which("mount") or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no directory can be mounted here")
    try:
        project.watch.start()
        assert not project.watch.barrier(DEADLINE_S)
        assert "under two names" in project.watch.state.why
    finally:
        subprocess.run(["umount", project.root / "b"], check=True)
    until(lambda: project.watch.barrier(DEADLINE_S))
    project.settle()
    (project.root / "a/file").touch()
    (project.root / "b/file").touch()
    assert project.changes().paths == {b"a/file", b"b/file"}


# The barrier, start and stop.

_WRITER = """
import os, sys
for number, line in enumerate(sys.stdin):
    name = f"t{number}"
    if number % 3 == 0:
        open(name, "w").write("x")
    elif number % 3 == 1:
        open("scratch", "w").write("x")
        os.rename("scratch", name)
    else:
        os.makedirs(f"{name}/a/b")
        open(f"{name}/a/b/file", "w").write("x")
        name += "/a/b/file"
    print(name, flush=True)
"""


@pytest.mark.parametrize("is_busy", [False, True], ids=["idle", "busy"])
def test_a_barrier_misses_nothing_that_another_process_did(project: Project, is_busy: bool) -> None:
    project.begin()
    (project.root / "noise").mkdir()
    noise = threading.Event()

    def make_noise() -> None:
        while not noise.is_set():
            (project.root / "noise/file").write_text("x")

    maker = threading.Thread(target=make_noise)
    if is_busy:
        maker.start()
    command = [sys.executable, "-I", "-S", "-c", _WRITER]
    try:
        with subprocess.Popen(
            command, cwd=project.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdin is not None
            assert writer.stdout is not None
            missed = []
            for _ in range(500):
                writer.stdin.write("\n")
                writer.stdin.flush()
                name = writer.stdout.readline().strip().encode()
                if not is_covered(project.changes(), name):
                    missed.append(name)
            writer.stdin.close()
        assert missed == []
    finally:
        noise.set()
        if is_busy:
            maker.join()


def test_a_barrier_needs_a_watch_that_runs(project: Project) -> None:
    assert not project.watch.barrier(1.0)
    assert project.watch.state.why == "the watch is not started"
    project.begin()
    project.watch.stop()
    assert not project.watch.barrier(1.0)
    assert project.watch.state.why == "the watch is stopped"
    project.begin()
    (project.root / "file").touch()
    assert project.changes().paths == {b"file"}


def test_a_barrier_reads_a_long_queue_to_its_end_and_keeps_its_deadline(project: Project) -> None:
    stall = Stall(project)
    project.begin()
    with stall("stall"):
        for number in range(8_000):
            (project.root / f"{number:0150}").symlink_to("nowhere")
        assert not project.watch.barrier(0.01)
    assert project.changes() == Dirty(frozenset(b"%0150d" % n for n in range(8_000)), frozenset({b"stall"}), None)


def test_setting_up_is_a_reason_to_scan(project: Project) -> None:
    project.watch.start()
    assert project.watch.barrier(DEADLINE_S)
    assert project.dirty.take().scan_reason == "the watch began"


def test_a_listener_hears_that_something_changed_and_nothing_while_it_is_quiet(tmp_path: Path) -> None:
    heard = threading.Event()
    dirty = DirtySet()
    watch = ProjectWatch(os.fsencode(tmp_path), lambda _: False, dirty, on_dirty=heard.set)
    watch.start()
    try:
        assert watch.barrier(DEADLINE_S)
        assert heard.wait(DEADLINE_S)
        heard.clear()
        (tmp_path / "file").touch()
        assert heard.wait(DEADLINE_S)
        assert b"file" in dirty.take().paths
        assert watch.barrier(DEADLINE_S)
        heard.clear()
        for _ in range(10):
            assert watch.barrier(DEADLINE_S)
        assert not heard.is_set()
    finally:
        watch.stop()


def test_stopping_leaves_no_thread_and_no_descriptor(project: Project) -> None:
    project.begin()
    project.watch.stop()
    threads, descriptors = set(threading.enumerate()), set(os.listdir("/proc/self/fd"))
    for _ in range(10):
        project.begin()
        (project.root / "file").touch()
        project.watch.stop()
    assert set(threading.enumerate()) == threads
    assert len(os.listdir("/proc/self/fd")) == len(descriptors)


def test_an_idle_watch_uses_no_processor_time(project: Project) -> None:
    project.begin()
    until(lambda: not project.dirty.take().paths)
    (thread,) = [thread for thread in threading.enumerate() if isinstance(thread, observer.ProjectEmitter)]
    switches = Path(f"/proc/self/task/{thread.native_id}/status")

    def sleeps() -> str:
        return next(line for line in switches.read_text().splitlines() if line.startswith("voluntary"))

    until(lambda: "S (sleeping)" in switches.read_text())
    before = sleeps()
    threading.Event().wait(0.3)
    assert sleeps() == before


# Random operations.

_FUZZER = """
import os, random, shutil, sys
choice = random.Random(int(sys.argv[1]))
names = ["a", "b", "c", "d", "node_modules", "e\\n"]
outside = sys.argv[2]

def path(depth=4):
    return os.path.join(*[choice.choice(names) for _ in range(choice.randint(1, depth))])

def write(): open(path(), "w").write(str(choice.random()))
def append(): open(path(), "a").write("+")
def make(): os.makedirs(path())
def fill():
    top = path(3)
    os.makedirs(top + "/a/b")
    open(top + "/a/b/c", "w").write(str(choice.random()))
def rename(): os.rename(path(), path())
def replace():
    open("tmp" + sys.argv[1], "w").write(str(choice.random()))
    os.rename("tmp" + sys.argv[1], path())
def remove(): os.unlink(path())
def remove_tree(): shutil.rmtree(path(3))
def link(): os.symlink(choice.choice(names), path())
def mode(): os.chmod(path(), choice.choice([0o700, 0o755, 0o711]))
def out(): os.rename(path(3), os.path.join(outside, choice.choice(names)))
def back(): os.rename(os.path.join(outside, choice.choice(names)), path(3))
def touch_outside(): open(os.path.join(outside, path(3)), "w").write("x")
def git():
    if choice.random() < 0.5: os.makedirs(path(3) + "/.git")
    else: shutil.rmtree(path(3) + "/.git")

kinds = [write] * 5 + [append, make, make, fill, fill, rename, rename, rename, replace, replace, remove,
         remove_tree, link, mode, out, back, back, touch_outside, git]
for line in sys.stdin:
    left = int(line)
    while left:
        try:
            choice.choice(kinds)()
            left -= 1
        except (OSError, shutil.Error):
            pass
    print("done", flush=True)
"""

Entry = tuple[int, int, bytes]


def snapshot(root: bytes) -> dict[bytes, Entry]:
    """Describe every entry that is to be covered: not what is excluded or in a nested repository."""
    found: dict[bytes, Entry] = {}
    pending = [b""]
    while pending:
        directory = pending.pop()
        names = os.listdir(os.path.join(root, directory))
        if directory and b".git" in names:
            found[directory] = (0, 0, b"repository")
            continue
        for name in names:
            path = os.path.join(directory, name)
            absolute = os.path.join(root, path)
            status = os.lstat(absolute)
            if stat.S_ISDIR(status.st_mode):
                if name not in {b"node_modules", b".git"}:
                    found[path] = (status.st_mode, 0, b"")
                    pending.append(path)
            elif stat.S_ISLNK(status.st_mode):
                found[path] = (status.st_mode, status.st_mtime_ns, os.readlink(absolute))
            else:
                found[path] = (status.st_mode, status.st_mtime_ns, Path(os.fsdecode(absolute)).read_bytes())
    return found


@pytest.mark.parametrize("limit", [None, 128], ids=["whole queue", "short queue"])
@pytest.mark.parametrize("seed", range(4))
def test_random_operations_of_two_processes_are_all_covered(
    project: Project, tmp_path: Path, seed: int, limit: int | None
) -> None:
    rounds = random.Random(seed)
    outside = tmp_path / "outside"
    outside.mkdir()
    with contextlib.nullcontext() if limit is None else queue_limit(limit):
        project.begin()
    root = os.fsencode(project.root)
    before = snapshot(root)
    change_count = 0
    with contextlib.ExitStack() as stack:
        workers = []
        for number in (2 * seed, 2 * seed + 1):
            command = [sys.executable, "-I", "-S", "-c", _FUZZER, str(number), str(outside)]
            worker = subprocess.Popen(
                command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
            )
            stack.enter_context(worker)
            workers.append(worker)
        done = 0
        while done < 2_000:
            count = rounds.randint(1, 80)
            done += 2 * count
            for worker in workers:
                assert worker.stdin is not None
                worker.stdin.write(f"{count}\n")
            for worker in workers:
                assert worker.stdout is not None
                assert worker.stdout.readline() == "done\n"
            taken = project.changes()
            assert limit is not None or taken.scan_reason is None
            after = snapshot(root)
            changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
            assert {path for path in changed if not is_covered(taken, path)} == set()
            assert project.watch.state.watch_count == project.watch_count()
            change_count += len(changed)
            before = after
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.close()
    assert change_count > 500
