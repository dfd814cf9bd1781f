"""Selections in git's pathspec language: what git itself would match, and never more than was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from config.errors import CheckpointError
from store.errors import NestedRepositoriesError, SelectionError
from tests.support.steps import InProcess
from tests.support.workdir import git, make_project, write

if TYPE_CHECKING:
    from pathlib import Path

_FILES = [
    "a.txt",
    "b.py",
    "sub/c.txt",
    "sub/d.py",
    "sub/deep/e.txt",
    "tool/f.txt",
    "tool/g.py",
    "[x].txt",
    ":(top)x",
    "*",
]


@pytest.fixture
def product(tmp_path: Path) -> InProcess:
    product = InProcess(make_project(tmp_path / "project", {"readme": "x\n"}))
    for name in _FILES:
        write(product.project / name, "old\n")
    product.ask("take")
    for name in _FILES:
        write(product.project / name, "new\n")
    return product


def restored(product: InProcess, *paths: str, cwd: str = "") -> list[str]:
    done = product.ask("rollback.restore", hash="1", paths=list(paths), cwd=str(product.project / cwd))
    assert done["success"]
    back = [name for name in _FILES if (product.project / name).read_text() == "old\n"]
    assert sorted(done["restored_files"]) == sorted(back)
    return back


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["*.py"], ["b.py", "sub/d.py", "tool/g.py"]),
        (["sub/*.txt"], ["sub/c.txt", "sub/deep/e.txt"]),
        ([":(glob)*.py"], ["b.py"]),
        ([":(glob)sub/*.txt"], ["sub/c.txt"]),
        ([":(glob)**/*.txt", ":(exclude)tool"], ["a.txt", "sub/c.txt", "sub/deep/e.txt", "[x].txt"]),
        (["sub", ":(exclude)sub/deep"], ["sub/c.txt", "sub/d.py"]),
        ([":!*.py", ":!sub"], ["a.txt", "tool/f.txt", "[x].txt", ":(top)x", "*"]),
        ([":(icase)A.TXT"], ["a.txt"]),
        (["?.txt"], ["a.txt"]),
        (["[ab].*"], ["a.txt", "b.py"]),
        (["[x].txt"], ["[x].txt"]),
        (["*"], ["*"]),
        ([":(top)x"], [":(top)x"]),
        (["b.py", "*.txt"], ["a.txt", "b.py", "sub/c.txt", "sub/deep/e.txt", "tool/f.txt", "[x].txt"]),
        (["sub", "a.txt", "tool/g.py"], ["a.txt", "sub/c.txt", "sub/d.py", "sub/deep/e.txt", "tool/g.py"]),
    ],
)
def test_what_git_matches_goes_back_and_a_name_that_exists_is_a_name(
    product: InProcess, paths: list[str], expected: list[str]
) -> None:
    assert restored(product, *paths) == expected


@pytest.mark.parametrize(
    ("pattern", "cwd", "expected"),
    [
        ("./*.py", "sub", ["sub/d.py"]),
        ("../tool/*.txt", "sub", ["tool/f.txt"]),
        ("*.py", "sub", ["b.py", "sub/d.py", "tool/g.py"]),
        ("./deep/*", "sub", ["sub/deep/e.txt"]),
    ],
)
def test_a_pattern_is_the_projects_unless_it_begins_with_a_dot(
    product: InProcess, pattern: str, cwd: str, expected: list[str]
) -> None:
    assert restored(product, pattern, cwd=cwd) == expected


@pytest.mark.parametrize(
    "pattern",
    [
        "*.none",
        ":(glob)*.none",
        ":(nonsense)x",
        ":(top",
        "../../*",
        "/etc/*",
        ":(top)../*",
        ":/../../etc/*",
        ".git/*",
        "a*\0",
    ],
)
def test_a_pattern_that_matches_nothing_or_leads_out_is_refused(product: InProcess, pattern: str) -> None:
    with pytest.raises(SelectionError):
        product.ask("rollback.restore", hash="1", paths=[pattern])
    assert (product.project / "a.txt").read_text() == "new\n"


def test_a_pattern_that_matches_a_nested_repository_is_refused(tmp_path: Path) -> None:
    product = InProcess(make_project(tmp_path / "project"))
    write(product.project / "vendor" / "lib.py", "x\n")
    git(product.project / "vendor", "init", "-q")
    product.ask("take")
    write(product.project / "a.py", "new\n")
    for pattern in ("v*", ":(glob)**", ":!a.py", ":(icase)VENDOR"):
        with pytest.raises(NestedRepositoriesError):
            product.ask("rollback.restore", hash="1", paths=[pattern])
    with pytest.raises(CheckpointError):
        product.ask("rollback.restore", hash="1", paths=["vendor/*.py"])
    assert product.ask("rollback.restore", hash="1", paths=["*.py"])["restored_files"] == ["a.py"]
    assert (product.project / "vendor" / "lib.py").read_text() == "x\n"


def test_a_pattern_leaves_nothing_behind_in_the_store(product: InProcess, tmp_path: Path) -> None:
    restored(product, "*.py")
    indexes = tmp_path / "hermes" / "checkpoints" / "store" / "indexes"
    assert len(list(indexes.iterdir())) == 1
