"""What the service believes of a project's files is what a look at the disk finds, whatever events there were."""

from __future__ import annotations

import mmap
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from store.errors import TooManyFilesError
from tests.support.steps import Following, InProcess
from tests.support.workdir import git, make_project, write
from watcher import inotify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(not inotify.is_available(), reason="this system has no inotify")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Following]:
    """Give an opted-in project that is followed by events."""
    product = Following(make_project(tmp_path / "project"))
    try:
        product.ask("watch", action="add", path=str(product.project))
        yield product
    finally:
        product.home.close()


def list_captured(product: InProcess, home: str) -> dict[str, str]:
    """Take a checkpoint and return the mode and content id of every path in it."""
    taken = product.ask("take")["checkpoint"]["hash"]
    store = product.project.parent / home / "checkpoints" / "store"
    lines = git(store, "ls-tree", "-r", "-z", taken).split("\0")
    return {path: facts for facts, _, path in (line.partition("\t") for line in lines if line)}


def check_truth(served: Following) -> dict[str, str]:
    """Compare the next checkpoint with one that somebody takes who sees the project for the first time."""
    stranger = InProcess(served.project, options=["--home", str(served.project.parent / "other")])
    shutil.rmtree(served.project.parent / "other", ignore_errors=True)
    captured = list_captured(served, "hermes")
    assert captured == list_captured(stranger, "other")
    return captured


def settle(served: Following) -> None:
    """Have the watch proven and every reason to scan used up, so that the next look rests on events."""
    for _ in range(3):
        check_truth(served)


def mark_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file that exists once git was started from now on, which every look at everything does."""
    real, marker = shutil.which("git"), tmp_path / "git-was-started"
    write(tmp_path / "bin" / "git", f'#!/bin/sh\necho started >> "{marker}"\nexec "{real}" "$@"\n')
    (tmp_path / "bin" / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return marker


# Ignore rules that change without an event of their own.


def swap(project: Path) -> None:
    (project / "a").rename(project / "old")
    (project / "b").rename(project / "a")


def swap_back_and_forth(project: Path) -> None:
    for _ in range(3):
        swap(project)
        (project / "old").rename(project / "b")


def move_out_and_another_in(project: Path) -> None:
    (project / "a").rename(project.parent / "outside")
    (project / "b").rename(project / "a")


def delete_and_make_anew(project: Path) -> None:
    shutil.rmtree(project / "a")
    write(project / "a" / "gen" / "x.txt", "anew\n")


def go_below(project: Path) -> None:
    (project / "b" / "deep").mkdir()
    (project / "a").rename(project / "b" / "deep" / "a")
    (project / "b").rename(project / "a")


@pytest.mark.parametrize("change", [swap, swap_back_and_forth, move_out_and_another_in, delete_and_make_anew, go_below])
def test_directories_that_count_after_a_folder_changed_places_are_watched(
    served: Following, change: Callable[[Path], None]
) -> None:
    project = served.project
    write(project / "a" / ".gitignore", "gen/\n")
    write(project / "a" / "gen" / "x.txt", "ignored\n")
    write(project / "b" / "gen" / "x.txt", "counts\n")
    settle(served)
    change(project)
    check_truth(served)
    for folder in ("a", "b", "old", "a/deep/a"):
        if (project / folder / "gen").is_dir():
            write(project / folder / "gen" / "x.txt", f"changed in {folder}\n")
            write(project / folder / "gen" / "new" / "y.txt", "new\n")
    assert "a/gen/x.txt" in check_truth(served) or change is swap_back_and_forth
    for folder in ("a", "b", "old", "a/deep/a"):
        if (project / folder / "gen").is_dir():
            write(project / folder / "gen" / "new" / "y.txt", "changed again\n")
    check_truth(served)


def test_a_folder_that_moves_under_other_rules_follows_them(served: Following) -> None:
    write(served.project / "strict" / ".gitignore", "gen/\n")
    write(served.project / "lax" / "sub" / "gen" / "x.txt", "one\n")
    settle(served)
    (served.project / "lax" / "sub").rename(served.project / "strict" / "sub")
    assert "strict/sub/gen/x.txt" not in check_truth(served)
    (served.project / "strict" / "sub").rename(served.project / "lax" / "sub")
    check_truth(served)
    write(served.project / "lax" / "sub" / "gen" / "x.txt", "two\n")
    assert "lax/sub/gen/x.txt" in check_truth(served)


def test_rules_that_changed_while_events_were_lost_are_followed(
    served: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(served.project / "a" / ".gitignore", "gen/\n")
    write(served.project / "a" / "gen" / "x.txt", "one\n")
    settle(served)
    real = inotify.read_events

    def lose(fd: int, limit_bytes: int) -> tuple[list[inotify.Event], int]:
        events, size = real(fd, limit_bytes)
        return ([inotify.Event(-1, inotify.Q_OVERFLOW, 0, b"")] if events else []), size

    monkeypatch.setattr(inotify, "read_events", lose)
    (served.project / "a" / ".gitignore").unlink()
    check_truth(served)
    monkeypatch.setattr(inotify, "read_events", real)
    settle(served)
    write(served.project / "a" / "gen" / "x.txt", "two\n")
    assert "a/gen/x.txt" in check_truth(served)


def test_an_ignored_file_is_told_by_the_rules_of_now(served: Following) -> None:
    write(served.project / "b" / ".gitignore", "*.txt\n")
    write(served.project / "a" / "x.txt", "one\n")
    settle(served)
    served.agent_writes("a/x.txt", "two\n", turn="t1")
    write(served.project / "b" / "x.txt", "mine\n")
    swap(served.project)
    answer = served.agent_writes("a/x.txt", "agent\n", turn="t2")
    assert answer["taken"]
    served.ask("rollback.restore", hash=answer["checkpoint"]["hash"])
    assert (served.project / "a" / "x.txt").read_text() == "mine\n"


def test_folders_come_and_go_without_a_look_at_everything(
    served: Following, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        write(served.project / "src" / f"d{number}" / "f.txt", "x\n")
    write(served.project / "src" / "d0" / ".gitignore", "gen/\n")
    settle(served)
    marker = mark_git(tmp_path, monkeypatch)
    (served.project / "src" / "new").mkdir()
    (served.project / "src" / "d1").rename(served.project / "src" / "moved")
    shutil.rmtree(served.project / "src" / "d2")
    (served.project / "src" / "d0").rename(served.project / "src" / "e0")
    list_captured(served, "hermes")
    assert not marker.exists()
    check_truth(served)
    served.engine().distrust("a look at everything")
    served.ask("take")
    assert marker.exists()


# What makes a directory a nested repository.


def make_empty_directory(git_entry: Path) -> None:
    git_entry.mkdir()


def make_garbage_file(git_entry: Path) -> None:
    git_entry.write_text("garbage\n")


def make_dangling_link(git_entry: Path) -> None:
    git_entry.symlink_to("nowhere")


def make_unfinished(git_entry: Path) -> None:
    (git_entry / "objects").mkdir(parents=True)
    (git_entry / "config").write_text("[core]\n")


@pytest.mark.parametrize("make", [make_empty_directory, make_garbage_file, make_dangling_link, make_unfinished])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_directory_whose_git_entry_is_no_repository_is_followed(
    served: Following, make: Callable[[Path], None], is_first: bool
) -> None:
    write(served.project / "lib" / "src" / "x.txt", "one\n")
    if is_first:
        make(served.project / "lib" / ".git")
    settle(served)
    if not is_first:
        make(served.project / "lib" / ".git")
        check_truth(served)
    write(served.project / "lib" / "src" / "x.txt", "two\n")
    write(served.project / "lib" / "src" / "new" / "y.txt", "two\n")
    assert {"lib/src/x.txt", "lib/src/new/y.txt"} <= check_truth(served).keys()
    write(served.project / "lib" / "src" / "new" / "y.txt", "three\n")
    check_truth(served)


def test_a_repository_that_is_made_in_steps_is_one_when_it_is(served: Following) -> None:
    lib = served.project / "lib"
    write(lib / "src" / "x.txt", "one\n")
    settle(served)
    (lib / ".git").mkdir()
    write(lib / "src" / "x.txt", "two\n")
    assert "lib/src/x.txt" in check_truth(served)
    git(lib, "init", "-q", "-b", "main")
    assert "lib/src/x.txt" not in check_truth(served)
    write(lib / "src" / "x.txt", "three\n")
    git(lib, "add", "-A")
    git(lib, "commit", "-q", "-m", "first")
    assert check_truth(served)["lib"].startswith("160000")


def test_a_repository_that_breaks_is_a_directory_again(served: Following) -> None:
    lib = served.project / "lib"
    write(lib / "src" / "x.txt", "one\n")
    git(lib, "init", "-q", "-b", "main")
    settle(served)
    (lib / ".git" / "HEAD").unlink()
    assert "lib/src/x.txt" in check_truth(served)
    write(lib / "src" / "x.txt", "two\n")
    check_truth(served)
    git(lib, "init", "-q", "-b", "main")
    check_truth(served)


def test_a_pointer_whose_repository_comes_and_goes_elsewhere_is_followed(served: Following) -> None:
    lib, elsewhere = served.project / "lib", served.project.parent / "elsewhere"
    write(lib / "x.txt", "one\n")
    write(lib / ".git", f"gitdir: {elsewhere}\n")
    elsewhere.mkdir()
    settle(served)
    write(lib / "x.txt", "two\n")
    assert "lib/x.txt" in check_truth(served)
    write(elsewhere / "HEAD", "ref: refs/heads/main\n")
    assert check_truth(served)["lib"].startswith("160000")
    (elsewhere / "HEAD").unlink()
    check_truth(served)
    write(lib / "x.txt", "three\n")
    assert "lib/x.txt" in check_truth(served)
    os.unlink(lib / ".git")
    check_truth(served)
    write(lib / "x.txt", "four\n")
    check_truth(served)


# Files with more than one name.


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("other", ["other.txt", "sub/other.txt", "../outside.txt"])
def test_a_write_through_another_name_is_seen(served: Following, other: str, is_first: bool) -> None:
    file, link = served.project / "a.py", served.project / other
    if is_first:
        os.link(file, link)
    settle(served)
    if not is_first:
        os.link(file, link)
        if other.startswith(".."):
            settle(served)
            write(file, "its own event\n")
            check_truth(served)
    for number in range(3):
        with link.open("w") as opened:
            opened.write(f"through the other name {number}\n")
        check_truth(served)
    link.unlink()
    check_truth(served)
    write(file, "alone again\n")
    check_truth(served)


def test_a_new_name_written_through_at_once_is_seen_at_the_old_one(served: Following) -> None:
    settle(served)
    os.link(served.project / "a.py", served.project / "new.py")
    with (served.project / "new.py").open("w") as opened:
        opened.write("changed\n")
    captured = check_truth(served)
    assert captured["a.py"] == captured["new.py"]


def test_a_large_file_that_shrinks_through_another_name_counts(served: Following, tmp_path: Path) -> None:
    write(tmp_path / "hermes" / "config.yaml", "checkpoints: {max_file_size_mb: 1}\n")
    write(tmp_path / "other" / "config.yaml", "checkpoints: {max_file_size_mb: 1}\n")
    write(served.project / "big.txt", b"x" * 1_100_000)
    os.link(served.project / "big.txt", tmp_path / "outside.txt")
    for _ in range(3):
        assert "big.txt" not in list_captured(served, "hermes")
    with (tmp_path / "outside.txt").open("w") as opened:
        opened.write("small\n")
    assert "big.txt" in list_captured(served, "hermes")


def test_rules_written_through_another_name_are_followed(served: Following) -> None:
    write(served.project.parent / "rules", "gen/\n")
    os.link(served.project.parent / "rules", served.project / ".gitignore")
    write(served.project / "gen" / "x.txt", "one\n")
    settle(served)
    with (served.project.parent / "rules").open("w") as opened:
        opened.write("nothing/\n")
    check_truth(served)
    write(served.project / "gen" / "x.txt", "two\n")
    assert "gen/x.txt" in check_truth(served)


def test_a_rollback_that_meets_a_change_without_an_event_looks_again_and_is_right(served: Following) -> None:
    served.agent_writes("a.py", "agent\n", turn="t1")
    settle(served)
    first = served.ask("rollback.list")["checkpoints"][-1]["hash"]
    with (served.project / "a.py").open("r+b") as opened, mmap.mmap(opened.fileno(), 0) as mapped:
        mapped[:5] = b"AGENT"
        done = served.ask("rollback.restore", hash=first, all=True)
        assert (done["restored_files"], done["left_in_place"]) == (["a.py"], [])
    assert (served.project / "a.py").read_text() == "one\n"


# More files than are allowed.


def allow(tmp_path: Path, max_files: int) -> None:
    write(tmp_path / "hermes" / "config.yaml", f"checkpoints: {{max_files: {max_files}}}\n")


def fill(project: Path, count: int) -> None:
    for number in range(count):
        write(project / "many" / f"f{number}", f"{number}\n")


@pytest.mark.parametrize("is_at_once", [True, False])
def test_a_project_that_grew_too_large_is_protected_as_soon_as_it_is_smaller(
    served: Following, tmp_path: Path, is_at_once: bool
) -> None:
    allow(tmp_path, 20)
    if not is_at_once:
        fill(served.project, 10)
    settle(served)
    fill(served.project, 30)
    for number in range(4):
        assert served.agent_writes("a.py", f"{number}\n", turn=f"t{number}")["why"] == "too-many-files"
    shutil.rmtree(served.project / "many")
    assert served.agent_writes("a.py", "agent\n", turn="t9")["taken"]
    check_truth(served)
    fill(served.project, 17)
    assert served.agent_writes("a.py", "agent\n", turn="t10")["why"] == "too-many-files"
    (served.project / "many" / "f3").unlink()
    assert served.agent_writes("a.py", "again\n", turn="t11")["taken"]
    check_truth(served)


def test_a_project_that_is_too_large_is_not_walked_for_each_call(
    served: Following, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(tmp_path, 20)
    (served.project / "many").mkdir()
    os.mkfifo(served.project / "many" / "pipe")
    fill(served.project, 60)
    for number in range(4):
        assert served.agent_writes("a.py", f"{number}\n", turn=f"t{number}")["why"] == "too-many-files"
    listed: list[str] = []
    real = os.scandir

    def record(path: bytes) -> object:
        listed.append(repr(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", record)
    assert served.agent_writes("a.py", "agent\n", turn="t9")["why"] == "too-many-files"
    seen = [path for path in listed if "many" in path]
    (served.project / ".gitignore").write_text("many/\n")
    assert served.agent_writes("a.py", "ours\n", turn="t10")["taken"]
    assert seen == []
    assert [path for path in listed if "project" in path]
    check_truth(served)


@pytest.mark.parametrize("words", [{}, {"all": True}, {"paths": ["a.py"]}])
def test_a_project_that_is_too_large_can_be_rolled_back_and_compared(
    served: Following, tmp_path: Path, words: dict[str, object]
) -> None:
    served.agent_writes("a.py", "agent\n", turn="t1")
    allow(tmp_path, 20)
    fill(served.project, 30)
    for product in (served, InProcess(served.project)):
        first = product.ask("rollback.list")["checkpoints"][-1]["hash"]
        assert "a.py" in product.ask("rollback.diff", hash=first)["diff"]
        done = product.ask("rollback.restore", hash=first, **words)
        assert (done["success"], (served.project / "a.py").read_text()) == (True, "one\n")
        assert (served.project / "many").exists() is not bool(words.get("all"))
        product.ask("rollback.restore", hash=done["pre_rollback"], all=True)
        assert (served.project / "a.py").read_text() == "agent\n"
        assert len(list((served.project / "many").iterdir())) == 30
        with pytest.raises(TooManyFilesError):
            product.ask("take")


# Out and in again.


def is_watched(served: Following) -> bool:
    (project,) = served.ask("status")["projects"]
    return project["watching"] is not None


def test_a_project_that_is_opted_in_again_is_watched_again(served: Following) -> None:
    for _ in range(2):
        served.ask("watch", action="remove", path=str(served.project))
        write(served.project / "a.py", "meanwhile\n")
        served.ask("take")
        assert not is_watched(served)
        write(served.project / "sub" / "b.py", "meanwhile, too\n")
        served.ask("watch", action="add", path=str(served.project))
        assert is_watched(served)
        settle(served)
        write(served.project / "a.py", "again\n")
        check_truth(served)


def test_a_project_that_is_in_effect_by_other_means_is_watched_though_opted_out(
    served: Following, tmp_path: Path
) -> None:
    served.ask("watch", action="remove", path=str(served.project))
    write(tmp_path / "hermes" / "config.yaml", "checkpoints: {enabled: true}\n")
    assert served.agent_writes("a.py", "agent\n", turn="t1")["why"] == "unchanged"
    assert is_watched(served)
