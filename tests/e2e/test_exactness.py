"""What comes back is what was there: permission bits, empty directories, and who changed them."""

from __future__ import annotations

import os
import shutil
import stat
from typing import TYPE_CHECKING

import pytest

from tests.support.steps import InProcess
from tests.support.workdir import git, list_permissions, write

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.steps import Product

_BITS = {"script": 0o755, "private": 0o600, "read-only": 0o444, "plain": 0o644, "shared": 0o664, "odd": 0o751}


def bits_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def make_files(product: Product) -> None:
    for name, bits in _BITS.items():
        write(product.project / name, f"{name}\n")
        (product.project / name).chmod(bits)


def test_files_that_the_agent_rewrites_and_chmods_come_back_with_their_bits(product: Product) -> None:
    make_files(product)
    commands = [f"echo changed > {name}; chmod 777 {name}" for name in _BITS]
    product.agent_runs("; ".join(commands), turn="t1")
    assert product.run("rollback", "1").code == 0
    for name, bits in _BITS.items():
        assert (product.project / name).read_text() == f"{name}\n"
        assert bits_of(product.project / name) == bits


def test_files_that_the_agent_only_chmods_keep_inode_and_content(product: Product) -> None:
    make_files(product)
    before = {name: (product.project / name).lstat() for name in _BITS}
    product.agent_runs("chmod 640 " + " ".join(_BITS), turn="t1")
    assert product.run("rollback", "1").code == 0
    for name, was in before.items():
        now = (product.project / name).lstat()
        assert (now.st_mode, now.st_ino, now.st_mtime_ns) == (was.st_mode, was.st_ino, was.st_mtime_ns)


def test_bits_that_the_user_changed_are_a_hand_edit(product: Product) -> None:
    product.agent_writes("a.py", "by the agent\n", turn="t1")
    (product.project / "a.py").chmod(0o600)
    (product.project / "notes.md").chmod(0o600)
    done = product.run("--json", "rollback", "1").json
    assert done["skipped_user_edits"] == ["a.py", "notes.md"]
    assert product.run("rollback", "1", "--all").code == 0
    assert (bits_of(product.project / "a.py"), bits_of(product.project / "notes.md")) == (0o644, 0o644)


def test_directories_that_the_agent_removed_come_back_empty_ones_too(product: Product) -> None:
    for name in ("cache/one", "cache/two", "secrets"):
        (product.project / name).mkdir(parents=True)
    (product.project / "secrets").chmod(0o700)
    write(product.project / "secrets" / "key.txt", "key\n")
    (product.project / "cache" / "two").chmod(0o1777)
    before = list_permissions(product.project)
    product.agent_runs("rm -rf cache secrets sub", turn="t1")
    done = product.run("--json", "rollback", "1").json
    assert done["restored_files"] == ["cache/one/", "cache/two/", "secrets/key.txt", "sub/b.py"]
    assert list_permissions(product.project) == before


def test_empty_directories_that_the_agent_made_go_and_those_of_the_user_stay(product: Product) -> None:
    (product.project / "before").mkdir()
    product.agent_runs("mkdir -p made/by/agent; mkdir filled; touch filled/new.txt", turn="t1")
    (product.project / "mine").mkdir()
    done = product.run("--json", "rollback", "1").json
    assert done["deleted_files"] == ["filled/new.txt", "made/by/agent/"]
    assert done["skipped_user_edits"] == ["mine/"]
    assert sorted(entry.name for entry in product.project.iterdir() if entry.is_dir()) == [
        ".git",
        "before",
        "mine",
        "sub",
    ]


def test_a_directory_that_was_empty_stays_though_the_agent_filled_it(product: Product) -> None:
    (product.project / "reports").mkdir()
    product.agent_writes("reports/new.txt", "new\n", turn="t1")
    assert product.run("rollback", "1").code == 0
    assert list((product.project / "reports").iterdir()) == []


def test_a_directory_that_holds_ignored_files_comes_back_without_them(product: Product) -> None:
    write(product.project / ".gitignore", "*.tmp\n")
    write(product.project / "work" / "x.tmp", "x\n")
    product.agent_runs("rm -rf work", turn="t1")
    assert product.run("rollback", "1").code == 0
    assert (product.project / "work").is_dir()


def test_a_file_and_an_empty_directory_that_changed_places_change_back(product: Product) -> None:
    (product.project / "d").mkdir()
    product.agent_runs("rmdir d; echo file > d; rm a.py; mkdir a.py", turn="t1")
    done = product.run("--json", "rollback", "1").json
    assert (done["success"], done["restored_files"]) == (True, ["a.py", "d/"])
    assert (product.project / "a.py").read_text() == "one\n"
    assert list((product.project / "d").iterdir()) == []


def test_a_directory_made_private_by_the_agent_is_open_again(product: Product) -> None:
    product.agent_runs("chmod 700 sub; echo changed > sub/b.py", turn="t1")
    assert product.run("rollback", "1").code == 0
    assert bits_of(product.project / "sub") == 0o755
    assert bits_of(product.project / "sub" / "b.py") == 0o644


def test_bits_alone_make_a_checkpoint_and_nothing_makes_none(product: Product) -> None:
    assert product.run("--json", "take").json["taken"] is False
    (product.project / "a.py").chmod(0o600)
    assert product.run("--json", "take").json["taken"] is True
    (product.project / "empty").mkdir()
    assert product.run("--json", "take").json["taken"] is True
    assert product.run("--json", "take").json["taken"] is False


def test_an_empty_directory_by_name_comes_back(product: Product) -> None:
    (product.project / "empty").mkdir()
    assert product.run("take").code == 0
    (product.project / "empty").rmdir()
    assert product.run("rollback", "1", "empty").code == 0
    assert (product.project / "empty").is_dir()


@pytest.mark.parametrize("umask", [0o002, 0o077])
def test_a_project_made_under_any_umask_needs_no_list_of_bits(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        product = InProcess(tmp_path / "project")
        for number in range(20):
            write(product.project / f"d{number % 3}" / "sub" / f"f{number}", "x\n")
        (product.project / "d1" / "run").write_text("#!/bin/sh\n")
        (product.project / "d1" / "run").chmod(0o777 & ~umask)
    finally:
        os.umask(before)
    taken = product.ask("take")
    store = tmp_path / "hermes" / "checkpoints" / "store"
    body = git(store, "cat-file", "commit", taken["checkpoint"]["hash"])
    assert f'"modes":{{"":"{0o777 & ~umask:04o}"}}' in body
    shutil.rmtree(product.project / "d1")
    product.ask("rollback.restore", hash="1", all=True)
    assert bits_of(product.project / "d1" / "run") == 0o777 & ~umask
    assert bits_of(product.project / "d1" / "sub") == 0o777 & ~umask
