"""Repositories inside a project, in every form: recorded and refused, or captured; their `.git` is left alone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from store.errors import NestedRepositoriesError
from tests.support.steps import InProcess
from tests.support.workdir import fingerprint_git, git, make_project, photograph, write

if TYPE_CHECKING:
    from pathlib import Path

_NESTED = ["plain", "linked", "module", "empty", "deep/er/repo"]


@pytest.fixture
def product(tmp_path: Path) -> InProcess:
    """Make a project with a repository, a linked worktree, a submodule and a repository without commits."""
    library = make_project(tmp_path / "library", {"lib.py": "lib\n"})
    root = make_project(tmp_path / "project", {"a.py": "one\n"})
    make_project(root / "plain", {"in.py": "plain\n"})
    make_project(root / "deep" / "er" / "repo", {"in.py": "deep\n"})
    git(library, "worktree", "add", "-q", str(root / "linked"), "-b", "side")
    git(root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "module")
    write(root / "empty" / "in.py", "empty\n")
    git(root / "empty", "init", "-q")
    return InProcess(root)


def git_of(product: InProcess) -> list[object]:
    """Return what every `.git` in the project holds."""
    found: list[object] = [fingerprint_git(product.project), fingerprint_git(product.project.parent / "library")]
    for name in _NESTED:
        inside = product.project / name / ".git"
        found.append(inside.read_bytes() if inside.is_file() else fingerprint_git(inside.parent))
    return found


def test_every_form_is_recorded_named_and_left_alone(product: InProcess) -> None:
    before = git_of(product)
    taken = product.ask("take")
    assert [each for each in taken["skipped"] if each["reason"] == "nested-repository"] == [
        {"path": name, "reason": "nested-repository"} for name in sorted(_NESTED)
    ]
    assert "[nested git repos not captured: deep/er/repo, empty, linked (+2)]" in taken["checkpoint"]["message"]
    assert taken["checkpoint"]["nested_repositories"] == sorted(_NESTED)
    assert git_of(product) == before


@pytest.mark.parametrize("name", _NESTED)
def test_what_touches_one_is_refused_before_anything_changes(product: InProcess, name: str) -> None:
    product.ask("take")
    write(product.project / "a.py", "changed\n")
    write(product.project / name / "in.py", "changed\n")
    before, count = photograph(product.project), len(product.ask("rollback.list")["checkpoints"])
    top = name.split("/", maxsplit=1)[0]
    for paths in ([name], [f"{name}/in.py"], [top], [f"{top[:2]}*"], ["a.py", name]):
        with pytest.raises(NestedRepositoriesError):
            product.ask("rollback.restore", hash="1", paths=paths)
    for everything in (False, True):
        with pytest.raises(NestedRepositoriesError):
            product.ask("rollback.restore", hash="1", all=everything)
    assert photograph(product.project) == before
    assert len(product.ask("rollback.list")["checkpoints"]) == count
    assert product.ask("rollback.restore", hash="1", paths=["a.py"])["restored_files"] == ["a.py"]


def test_with_capture_their_files_are_ordinary_files(product: InProcess, tmp_path: Path) -> None:
    write(tmp_path / "hermes" / "config.yaml", "checkpoints: {nested_repos: capture}\n")
    before, start = git_of(product), photograph(product.project)
    taken = product.ask("take")
    assert taken["checkpoint"]["nested_repositories"] == []
    for name in _NESTED:
        for path in (product.project / name).glob("*.py"):
            path.write_text("changed\n")
        write(product.project / name / "new.py", "new\n")
    done = product.ask("rollback.restore", hash=taken["checkpoint"]["hash"], all=True)
    assert done["success"]
    assert sorted(done["deleted_files"]) == sorted(f"{name}/new.py" for name in _NESTED)
    assert {path: what for path, what in photograph(product.project).items() if b".git" not in path.split(b"/")} == {
        path: what for path, what in start.items() if b".git" not in path.split(b"/")
    }
    assert git_of(product) == before


def test_a_checkpoint_with_references_stays_refused_when_the_repository_is_gone(product: InProcess) -> None:
    product.ask("take")
    write(product.project / "a.py", "changed\n")
    (product.project / "empty" / ".git").rename(product.project.parent / "taken-away")
    with pytest.raises(NestedRepositoriesError):
        product.ask("rollback.restore", hash="1")


def test_a_project_whose_own_path_is_not_utf_8_is_protected(tmp_path: Path) -> None:
    root = tmp_path / os.fsdecode(b"caf\xe9 \xff\nproject")
    write(root / os.fsdecode(b"n\xff.txt"), "one\n")
    product = InProcess(root)
    product.ask("watch", action="add", path=str(root))
    product.agent_writes(os.fsdecode(b"n\xff.txt"), "by the agent\n", turn="t1")
    (root / "mine.txt").write_text("by hand\n")
    done = product.ask("rollback.restore", hash="1")
    assert done["restored_files"] == [os.fsdecode(b"n\xff.txt")]
    assert done["skipped_user_edits"] == ["mine.txt"]
    assert photograph(root)[b"n\xff.txt"][1] == b"one\n"
    assert product.ask("status")["projects"][0]["workdir"] == str(root)
