"""`doctor`, `slash` and `completion`: what to do in the moment of shock, and in a chat."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support.steps import Product, serving
from tests.support.workdir import make_project, write

if TYPE_CHECKING:
    from pathlib import Path


def test_a_project_that_is_not_opted_in_is_told_what_helps(tmp_path: Path) -> None:
    product = Product(make_project(tmp_path / "project"))
    done = product.run("--json", "doctor")
    assert done.code == 1
    assert done.json["protected"] is False
    assert done.json["why"] == "Checkpoints are not enabled for this project."
    assert {"what": done.json["why"], "remedy": "hermes-checkpoints watch add"} in done.json["findings"]
    product.run("watch", "add")
    assert product.run("--json", "doctor").json["protected"] is True
    assert product.run("doctor").code == 0


def test_the_service_and_its_absence_are_told(product: Product) -> None:
    told = " ".join(each["what"] for each in product.run("--json", "doctor").json["findings"])
    is_running = product.run("ping").code == 0
    assert ("The service does not run" in told) is not is_running


def test_without_git_nothing_is_protected(product: Product, monkeypatch: pytest.MonkeyPatch) -> None:
    if product.run("ping").code == 0:
        pytest.skip("the service has its own PATH")
    monkeypatch.setenv("PATH", "/nonexistent")
    assert product.run("--json", "doctor").json["why"] == "git was not found on PATH."


def test_the_home_directory_is_too_broad(product: Product, tmp_path: Path) -> None:
    done = product.run("-C", str(tmp_path / "home"), "--json", "doctor", cwd=tmp_path)
    assert done.json["protected"] is False
    assert "too broad" in done.json["why"]


def test_a_chat_line_does_what_the_command_does(product: Product) -> None:
    product.agent_writes("a.py", "by the agent\n", turn="t1")
    write(product.project / "my notes.md", "by hand\n")
    assert product.run("slash", "/rollback").out == product.run("rollback").out
    assert product.run("slash", "/diff session").out == product.run("diff", "session").out
    done = product.run("--json", "slash", "/rollback 1 a.py")
    assert done.json["restored_files"] == ["a.py"]
    assert (product.project / "my notes.md").exists()
    assert product.run("slash", '/rollback 2 "my notes').code == 2
    assert product.run("slash", "/rollback 99").code == 1
    assert product.run("slash", "rm -rf /").code == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_one(shell: str, tmp_path: Path) -> None:
    with serving(Product(make_project(tmp_path / "project"))):
        done = Product(tmp_path / "project").run("completion", shell)
    assert done.code == 0
    assert "_HERMES_CHECKPOINTS_COMPLETE" in done.out
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=done.out, text=True, check=True)
