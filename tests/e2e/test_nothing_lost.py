"""Content that is in no checkpoint is never lost: what was out of scope, what comes meanwhile, what can't be stored."""

from __future__ import annotations

import random
import resource
import threading
from typing import TYPE_CHECKING

import pytest

from config.errors import CheckpointError
from store.apply import ProjectFiles
from store.entries import MODE_FILE
from tests.support.steps import InProcess, Product
from tests.support.workdir import git, photograph, write

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_that_was_ignored_when_the_checkpoint_was_taken_stays(product: Product) -> None:
    write(product.project / ".gitignore", "data/\n")
    write(product.project / "data" / "only-copy.txt", "mine\n")
    product.agent_runs("rm .gitignore", turn="t1")
    for words in (["1"], ["1", "--all"]):
        done = product.run("--json", "rollback", *words).json
        assert "data/only-copy.txt" not in done["deleted_files"]
        assert (product.project / "data" / "only-copy.txt").read_text() == "mine\n"
        product.agent_runs("rm -f .gitignore", turn=f"again {words}")


def test_a_file_that_was_too_large_when_the_checkpoint_was_taken_stays(product: Product, tmp_path: Path) -> None:
    write(tmp_path / "hermes" / "config.yaml", "checkpoints: {max_file_size_mb: 1}\n")
    write(product.project / "app.db", b"x" * 1_100_000)
    assert product.agent_runs("truncate -s 900000 app.db", turn="t1")["checkpoint"]["skipped"] != []
    for words in (["1"], ["1", "--all"]):
        done = product.run("--json", "rollback", *words).json
        assert "app.db" not in done["deleted_files"]
        assert (product.project / "app.db").stat().st_size == 900_000


def test_a_nested_repository_that_lost_its_git_keeps_its_files(product: Product) -> None:
    write(product.project / "lib" / "x", "mine\n")
    git(product.project / "lib", "init", "-q")
    product.agent_runs("rm -rf lib/.git", turn="t1")
    done = product.run("--json", "rollback", "2").json
    assert done["deleted_files"] == []
    assert (product.project / "lib" / "x").read_text() == "mine\n"


def test_what_a_shell_call_made_goes_all_the_same(product: Product) -> None:
    product.agent_runs("mkdir made; echo x > made/new.txt; cp a.py made/copy.py", turn="t1")
    assert product.run("rollback", "1").code == 0
    assert not (product.project / "made").exists()


def test_a_file_that_appears_during_a_rollback_is_not_overwritten(tmp_path: Path) -> None:
    project = InProcess(tmp_path / "project")
    for number in range(400):
        write(project.project / "d" / f"f{number:03}", f"{number}\n")
    write(project.project / "zz.txt", "orig\n")
    project.ask("take")
    for path in (*(project.project / "d").iterdir(), project.project / "zz.txt"):
        path.unlink()
    over = threading.Event()

    def appear() -> None:
        while not (project.project / "d" / "f000").exists() and not over.is_set():
            pass
        (project.project / "zz.txt").write_text("new\n")

    thread = threading.Thread(target=appear)
    thread.start()
    done = project.ask("rollback.restore", hash="1", all=True)
    over.set()
    thread.join()
    assert (project.project / "zz.txt").read_text() == "new\n"
    assert (done["success"], [each["path"] for each in done.get("failed", [])]) in ((True, []), (False, ["zz.txt"]))


def test_a_new_file_never_takes_the_place_of_another(tmp_path: Path) -> None:
    write(tmp_path / "there", "theirs\n")
    files = ProjectFiles(str(tmp_path).encode())
    files.write_aside(b"there", b"ours\n", MODE_FILE)
    with pytest.raises(FileExistsError):
        files.put_in_place(b"there", replace=False)
    assert photograph(tmp_path)[b"there"][1] == b"theirs\n"
    assert len(photograph(tmp_path)) == 1


def test_a_store_that_can_not_be_written_fails_the_checkpoint_and_leaves_nothing_broken(tmp_path: Path) -> None:
    product = InProcess(tmp_path / "project")
    for number in range(300):
        write(product.project / f"f{number}", random.Random(number).randbytes(3000))
    product.ask("watch", action="list")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, hard))
    try:
        with pytest.raises(CheckpointError, match="can't be written"):
            product.ask("take")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    taken = product.ask("take")
    assert (taken["files"], taken["skipped"]) == (300, [])
    store = tmp_path / "hermes" / "checkpoints" / "store"
    git(store, "fsck", "--full", "--strict")
    assert [path.name for path in (store / "objects" / "pack").glob("tmp_*")] == []
