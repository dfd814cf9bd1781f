"""A rollback that is killed at any moment is finished or taken back, byte for byte."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from config.errors import CheckpointError
from store import carry_out
from tests.fault.dying import is_change
from tests.support.steps import InProcess
from tests.support.workdir import git, list_permissions, photograph, write

if TYPE_CHECKING:
    from collections.abc import Callable

_FILES = 50


def make_project(tmp_path: Path) -> InProcess:
    """Make a project in which some eighty paths of every kind differ from its first checkpoint."""
    product = InProcess(tmp_path / "project")
    root = product.project
    for number in range(48):
        write(root / f"d{number % 4}" / f"changed{number}", f"old {number}\n")
        write(root / "gone" / f"g{number % 3}" / f"gone{number}", f"gone {number}\n")
    (root / "gone" / "g1" / "gone1").chmod(0o600)
    (root / "empty").mkdir(mode=0o700)
    (root / "secret").mkdir()
    (root / "secret").chmod(0o700)
    write(root / "secret" / "key", "key\n")
    write(root / "place", "a file\n")
    write(root / "folder" / "inside", "inside\n")
    (root / "link").symlink_to("place")
    product.ask("take")
    for number in range(48):
        write(root / f"d{number % 4}" / f"changed{number}", f"new {number}\n")
    for name in ("gone", "empty", "secret", "folder"):
        shutil.rmtree(root / name)
    (root / "place").unlink()
    write(root / "place" / "new", "new\n")
    write(root / "folder", "a file now\n")
    (root / "link").unlink()
    (root / "link").symlink_to("elsewhere")
    (root / "d0" / "changed0").chmod(0o755)
    (root / "d1").chmod(0o750)
    for number in range(5):
        write(root / "made" / f"m{number}", "made\n")
    (root / "made" / "bare").mkdir()
    return product


Photo = tuple[dict[bytes, tuple[str, bytes]], dict[bytes, int]]


def photo_of(root: Path) -> Photo:
    return photograph(root), list_permissions(root)


def die_in_child(number: int, work: Callable[[], object]) -> bool:
    """Run work in a child that dies before its n-th change, and tell whether it died."""
    child = os.fork()
    if child == 0:
        left = number

        def die_in_time(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal left
            if is_change(event, arguments):
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(die_in_time)
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def copy(source: Path, target: Path) -> None:
    """Copy a project and its home. Files of the home are replaced whole, so that a link is as good as a copy."""
    for name in ("project", "hermes"):
        shutil.rmtree(target / name, ignore_errors=True)
    shutil.copytree(source / "project", target / "project", symlinks=True)
    shutil.copytree(source / "hermes", target / "hermes", copy_function=os.link)


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("without_flushes")
@pytest.mark.parametrize(
    ("together_from", "first", "step", "least"),
    [(1000, 1, 3, 100), (1000, 2, 3, 100), (1000, 3, 3, 100), (1, 1, 7, 40)],
    ids=["first-third", "second-third", "third-third", "many-files-together"],
)
def test_at_every_kill_point_resume_gives_the_target_and_abort_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together_from: int, first: int, step: int, least: int
) -> None:
    monkeypatch.setattr(carry_out, "_TOGETHER_FILES", together_from)
    product = make_project(tmp_path)
    home = tmp_path / "hermes"
    start = photo_of(product.project)
    git(home / "checkpoints" / "store", "gc", "-q", "--prune=now")  # fewer files to copy
    copy(tmp_path, tmp_path / "kept")
    done = product.ask("rollback.restore", hash="1", all=True)
    assert len(done["restored_files"]) + len(done["deleted_files"]) >= _FILES
    target = photo_of(product.project)
    journals = 0
    for number in count(first, step):
        copy(tmp_path / "kept", tmp_path)
        died = die_in_child(number, lambda: product.ask("rollback.restore", hash="1", all=True))
        if not died:
            break
        assert product.ask("rollback.list")["checkpoints"]
        if product.ask("rollback.list")["cut_off"] is None:
            assert photo_of(product.project) in (start, target)
            continue
        journals += 1
        copy(tmp_path, tmp_path / "middle")
        with pytest.raises(CheckpointError, match="cut off"):
            product.ask("rollback.restore", hash="1", all=True)
        finished = product.ask("rollback.settle", action="resume")
        assert finished["success"], finished
        assert photo_of(product.project) == target
        assert product.ask("rollback.list")["cut_off"] is None
        if number % 7 == 0:
            assert product.ask("rollback.restore", hash=finished["pre_rollback"], all=True)["success"]
            assert photo_of(product.project) == start
        copy(tmp_path / "middle", tmp_path)
        taken_back = product.ask("rollback.settle", action="abort")
        assert taken_back["success"], taken_back
        assert photo_of(product.project) == start
        assert not list(product.project.rglob(".hermes-restore-*"))
    assert photo_of(product.project) == target
    assert journals >= least
    git(home / "checkpoints" / "store", "fsck", "--full", "--strict", "--no-dangling")
