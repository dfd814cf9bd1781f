"""`include` reaches into ignored folders where it spells them out, and opens nothing else in them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.steps import InProcess, Product, serving
from tests.support.workdir import git, make_project, write

if TYPE_CHECKING:
    from pathlib import Path

_FILES = ["node_modules/ours/a.js", "node_modules/ours/deep/b.js", "node_modules/theirs/c.js", "node_modules/d.js"]


def captured(tmp_path: Path, product: Product) -> set[str]:
    tip = product.run("--json", "rollback").json["checkpoints"][0]["hash"]
    store = tmp_path / "hermes" / "checkpoints" / "store"
    return set(git(store, "ls-tree", "-r", "--name-only", tip).split())


@pytest.mark.parametrize(
    ("include", "expected"),
    [
        (["node_modules/ours/"], _FILES[:2]),
        (["/node_modules/ours"], _FILES[:2]),
        (["node_modules/ours/deep/b.js"], _FILES[1:2]),
        (["node_modules/ours/deep/b.js", "node_modules/d.js"], [_FILES[1], _FILES[3]]),
        (["node_modules/"], _FILES),
        (["ours/"], []),
        (["node_modules/*/c.js"], []),
        (["sub/b.py"], []),
    ],
)
def test_a_folder_that_is_spelled_out_is_opened(tmp_path: Path, include: list[str], expected: list[str]) -> None:
    product = InProcess(make_project(tmp_path / "project"))
    for name in [*_FILES, "sub/other.py"]:
        write(product.project / name, "x\n")
    config = {"checkpoints": {"include": include}}
    write(tmp_path / "hermes" / "config.yaml", json.dumps(config))
    product.ask("take")
    always = {"a.py", "notes.md", "staged.txt", "sub/b.py", "sub/other.py"}
    assert captured(tmp_path, product) == always | set(expected)
    write(product.project / "node_modules" / "theirs" / "new.js", "x\n")
    assert not product.ask("take")["taken"] or "node_modules/" in include
    write(product.project / "a.py", "changed\n")
    product.ask("take")
    assert captured(tmp_path, product) - {"node_modules/theirs/new.js"} == always | set(expected)


def test_the_service_sees_what_changes_in_an_opened_folder(tmp_path: Path) -> None:
    product = Product(make_project(tmp_path / "project"))
    write(tmp_path / "hermes" / "config.yaml", "checkpoints: {include: [build/kept/]}\n")
    write(product.project / "build" / "kept" / "x.txt", "one\n")
    with serving(product):
        assert product.run("watch", "add").code == 0
        product.agent_writes("build/kept/x.txt", "two\n", turn="t1")
        (product.project / "build" / "kept" / "x.txt").write_text("by hand\n")
        assert product.run("--json", "take").json["taken"]
        assert product.run("rollback", "2", "build/kept/x.txt").code == 0
        assert (product.project / "build" / "kept" / "x.txt").read_text() == "one\n"
