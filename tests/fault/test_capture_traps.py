"""Failures of the field in capturing: rules that changed since, stat data that lies, locks that are held, silence."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from config.errors import CheckpointError
from store.layout import tip_ref
from store.project import Project
from tests.support.steps import InProcess, Product, serving
from tests.support.workdir import git, make_project, photograph, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def product(tmp_path: Path) -> InProcess:
    return InProcess(make_project(tmp_path / "project"))


def store_of(tmp_path: Path) -> Path:
    return tmp_path / "hermes" / "checkpoints" / "store"


@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.parametrize("agent_edits_rules", [False, True])
def test_what_an_uncommitted_rule_protects_survives_a_rollback(
    product: InProcess, *, everything: bool, agent_edits_rules: bool
) -> None:
    write(product.project / ".gitignore", "")
    product.ask("watch", action="add", path=str(product.project))
    write(product.project / ".gitignore", "data/\n")
    write(product.project / "data" / "keep.bin", b"\0only copy")
    product.agent_writes("a.py", "by the agent\n", turn="t1")
    if agent_edits_rules:
        product.agent_writes(".gitignore", "data/\n*.log\n", turn="t1")
    oldest = product.ask("rollback.list")["checkpoints"][-1]["hash"]
    for checkpoint in ("1", oldest):
        done = product.ask("rollback.restore", hash=checkpoint, all=everything)
        assert "data/keep.bin" not in done["deleted_files"]
        assert (product.project / "data" / "keep.bin").read_bytes() == b"\0only copy"
    assert (product.project / "a.py").read_text() == "one\n"


@pytest.mark.parametrize("wait_s", [0.0, 1.1], ids=["within the second", "later"])
def test_a_change_that_keeps_size_and_time_is_seen_without_a_service(product: InProcess, wait_s: float) -> None:
    path = product.project / "a.py"
    product.ask("take")
    product.ask("take")
    time.sleep(wait_s)
    before = path.lstat()
    path.write_bytes(b"two\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.lstat().st_size, path.lstat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    taken = product.ask("take")
    assert taken["taken"]
    write(path, "three\n")
    product.ask("rollback.restore", hash=taken["checkpoint"]["hash"], all=True)
    assert path.read_bytes() == b"two\n"


@pytest.mark.parametrize("wait_s", [0.0, 1.1], ids=["within the second", "later"])
@pytest.mark.parametrize("name", ["a.py", "empty.txt", "sub", "bare"])
def test_a_change_of_bits_alone_is_seen_without_a_service(product: InProcess, name: str, wait_s: float) -> None:
    (product.project / "empty.txt").touch()
    (product.project / "bare").mkdir()
    product.ask("take")
    product.ask("take")
    time.sleep(wait_s)
    (product.project / name).chmod(0o700)
    assert product.ask("take")["taken"]
    assert not product.ask("take")["taken"]


@pytest.mark.parametrize("rule", ["*\n", "*.txt\n.gitignore\n"])
def test_a_rule_file_that_ignores_itself_counts_without_a_service(product: InProcess, rule: str) -> None:
    write(product.project / "sub" / "b.txt", "x\n")
    product.ask("take")
    write(product.project / "sub" / ".gitignore", rule)
    product.ask("take")
    assert "sub/b.txt" not in files_of(product)
    write(product.project / "sub" / ".gitignore", ".gitignore\n")
    product.ask("take")
    assert "sub/b.txt" in files_of(product)
    write(product.project / "sub" / ".gitignore", rule)
    product.ask("take")
    (product.project / "sub" / ".gitignore").unlink()
    product.ask("take")
    assert "sub/b.txt" in files_of(product)


def files_of(product: InProcess) -> list[str]:
    tip = product.ask("rollback.list")["checkpoints"][0]["hash"]
    return git(store_of(product.project.parent), "ls-tree", "-r", "--name-only", tip).split()


def test_a_lock_of_a_ref_that_a_living_git_holds_is_respected(product: InProcess, tmp_path: Path) -> None:
    product.ask("take")
    ref = tip_ref(Project.of(str(product.project)).hash)
    store = store_of(tmp_path)
    tip = git(store, "rev-parse", ref).strip()
    write(product.project / "a.py", "changed\n")
    with holding_ref(store, ref, tip):
        lock = store / f"{ref}.lock"
        assert lock.exists()
        with pytest.raises(CheckpointError):
            product.ask("take")
        assert lock.exists()
        assert product.ask("rollback.list")["health"]["last_failure"] is not None
    assert not lock.exists()
    assert product.ask("take")["taken"]
    git(store, "fsck", "--full", "--strict", "--no-dangling")


@contextmanager
def holding_ref(store: Path, ref: str, tip: str) -> Iterator[None]:
    """Have real git hold the lock of a ref until the block ends."""
    command = ["git", f"--git-dir={store}", "update-ref", "--stdin"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"start\nupdate {ref} {tip} {tip}\nprepare\n")
        process.stdin.flush()
        assert [process.stdout.readline() for _ in range(2)] == ["start: ok\n", "prepare: ok\n"]
        try:
            yield
        finally:
            process.communicate("abort\n", timeout=10)


def test_what_only_hooks_left_out_is_told_afterwards(tmp_path: Path) -> None:
    product = Product(make_project(tmp_path / "project"))
    write(tmp_path / "hermes" / "config.yaml", "checkpoints: {max_file_size_mb: 1}\n")
    with serving(product):
        assert product.run("watch", "add").code == 0
        write(product.project / "big.csv", b"x" * 1_100_000)
        answer = product.agent_writes("a.py", "by the agent\n", turn="t1")
        expected = [{"path": "big.csv", "reason": "too-large"}]
        assert answer["checkpoint"]["skipped"] == expected
        assert product.run("--json", "rollback").json["checkpoints"][0]["skipped"] == expected
        assert "big.csv" in product.run("rollback").out
        (project,) = product.run("--json", "status").json["projects"]
        assert project["skipped"] == expected
        assert "big.csv" in product.run("status").out


def test_a_plain_directory_without_git_is_protected_in_full(tmp_path: Path) -> None:
    product = InProcess(tmp_path / "plain")
    write(product.project / "a.txt", "one\n")
    product.ask("watch", action="add", path=str(product.project))
    product.agent_writes("a.txt", "by the agent\n", turn="t1")
    assert product.ask("rollback.restore", hash="1")["restored_files"] == ["a.txt"]
    assert photograph(product.project) == {b"a.txt": ("file", b"one\n")}
