"""Repositories from before the shared store: moved aside at the first start, readable with git, and removed later."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.steps import InProcess
from tests.support.workdir import write

pytestmark = pytest.mark.usefixtures("without_flushes")
_NAMES = ["0123456789abcdef", "fedcba9876543210"]


def git(*words: str, cwd: Path) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd), "GIT_CONFIG_NOSYSTEM": "1"}
    environment |= {f"GIT_{who}_{what}": "t@t" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    return subprocess.run(["git", *words], cwd=cwd, env=environment, capture_output=True, text=True, check=True).stdout


def make_older(base: Path, name: str, workdir: Path) -> None:
    """Make a repository as there was one for each directory."""
    write(workdir / "a.txt", f"{name}\n")
    (base / name).parent.mkdir(parents=True, exist_ok=True)
    git("init", "-q", "--bare", str(base / name), cwd=workdir)
    shadow = [f"--git-dir={base / name}", f"--work-tree={workdir}"]
    git(*shadow, "add", "-A", cwd=workdir)
    git(*shadow, "commit", "-qm", "before write_file", cwd=workdir)
    write(base / name / "HERMES_WORKDIR", f"{workdir}\n")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    base = Path(os.environ["HERMES_HOME"], "checkpoints")
    for name in _NAMES:
        make_older(base, name, tmp_path / name)
    return base


@pytest.fixture
def product(tmp_path: Path) -> InProcess:
    write(tmp_path / "project" / "a.txt", "now\n")
    return InProcess(tmp_path / "project")


def check_archives(base: Path, tmp_path: Path) -> None:
    """See that every older repository is in an archive, and git reads it."""
    for name in _NAMES:
        [found] = base.glob(f"legacy-*/{name}")
        assert git(f"--git-dir={found}", "show", "HEAD:a.txt", cwd=tmp_path) == f"{name}\n"
        assert git(f"--git-dir={found}", "fsck", cwd=tmp_path) == ""


def test_older_repositories_are_moved_aside_and_git_reads_them(base: Path, product: InProcess, tmp_path: Path) -> None:
    (base / _NAMES[0]).chmod(0o500)
    assert product.ask("status")["legacy_archives"] == []
    assert sorted(os.listdir(base)) == sorted(_NAMES), "looking changes nothing"
    product.ask("take")
    names = sorted(os.listdir(base))
    assert len(names) == 2
    assert re.fullmatch(r"legacy-\d{8}-\d{6}", names[0])
    assert names[1] == "store"
    check_archives(base, tmp_path)
    assert [each["name"] for each in product.ask("status")["legacy_archives"]] == [names[0]]
    product.ask("take")
    assert sorted(os.listdir(base)) == names


@pytest.mark.parametrize("done", [0, 1, 2])
def test_a_move_that_was_cut_off_goes_on_at_the_next_start(
    base: Path, product: InProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    real_rename, count = os.rename, 0

    def rename(old: str, new: str) -> None:
        nonlocal count
        if count == done:
            raise KeyboardInterrupt
        count += 1
        real_rename(old, new)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", rename)
        if done < 2:
            with pytest.raises(KeyboardInterrupt):
                product.ask("take")
        else:
            patched.setattr("store.layout.write_atomically", rename)
            with pytest.raises(KeyboardInterrupt):
                product.ask("take")
    assert product.ask("take")["taken"]
    check_archives(base, tmp_path)


def test_retention_and_clear_legacy_remove_them(base: Path, product: InProcess) -> None:
    product.ask("take")
    [archive] = base.glob("legacy-*")
    assert product.ask("prune")["legacy"] == []
    long_ago = time.time() - 8 * 86400
    os.utime(archive, (long_ago, long_ago))
    assert product.ask("prune", dry_run=True)["legacy"] == [archive.name]
    assert product.ask("prune")["deleted_stale"] == 1
    assert sorted(os.listdir(base)) == [".last_prune", "store"]
    assert len(product.ask("rollback.list")["checkpoints"]) == 1
