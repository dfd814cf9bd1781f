"""A store that the agent's own manager made (hermes-agent 0.19, three checkpoints) is ours to go on with."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from store.project import Project
from tests.support.steps import InProcess
from tests.support.workdir import git, write

if TYPE_CHECKING:
    from collections.abc import Iterator

_ARCHIVE = Path(__file__).with_name("stores") / "built-in-0.19.tar.xz"


@pytest.fixture
def product(tmp_path: Path) -> Iterator[InProcess]:
    """Give the store to a project of this test, which is what moving the project's files by its hash means."""
    project = tmp_path / "project"
    write(project / "a.py", "v3\n")
    write(project / "sub" / "b.py", "v3\n")
    with tarfile.open(_ARCHIVE) as archive:
        archive.extractall(tmp_path / "hermes", filter="data")
    store = tmp_path / "hermes" / "checkpoints" / "store"
    (record,) = (store / "projects").glob("*.json")
    made, new = record.stem, Project.of(str(project)).hash
    raw = json.loads(record.read_text()) | {"workdir": str(project)}
    record.write_text(json.dumps(raw))
    for folder, extension in (("projects", ".json"), ("indexes", ""), ("refs/hermes", "")):
        (store / folder / f"{made}{extension}").rename(store / folder / f"{new}{extension}")
    yield InProcess(project)
    git(store, "fsck", "--full", "--strict")


def messages(product: InProcess) -> list[str]:
    return [each["message"] for each in product.ask("rollback.list")["checkpoints"]]


def test_its_checkpoints_are_listed_with_counts(product: InProcess) -> None:
    listed = product.ask("rollback.list")["checkpoints"]
    assert [each["message"] for each in listed] == ["before terminal: make", "before patch", "before write_file"]
    assert [each["files_changed"] for each in listed] == [2, 1, 0]
    assert {each["kind"] for each in listed} == {"tool"}


def test_nothing_changed_is_nothing_to_record(product: InProcess) -> None:
    assert product.ask("take")["why"] == "unchanged"


def test_its_checkpoints_are_restored(product: InProcess) -> None:
    assert product.ask("rollback.restore", hash="3", all=True)["success"]
    assert (product.project / "a.py").read_text() == "one\n"
    assert (product.project / "sub" / "b.py").read_text() == "two\n"


def test_its_history_goes_on_with_ours(product: InProcess) -> None:
    write(product.project / "a.py", "v4\n")
    assert product.ask("take", reason="ours")["taken"]
    assert messages(product) == ["ours", "before terminal: make", "before patch", "before write_file"]


def test_its_history_is_trimmed_without_changing_an_id(product: InProcess, tmp_path: Path) -> None:
    before = [each["hash"] for each in product.ask("rollback.list")["checkpoints"]]
    write(tmp_path / "hermes" / "config.yaml", "checkpoints: {max_snapshots: 2}\n")
    write(product.project / "a.py", "v4\n")
    product.ask("take", reason="ours")
    assert [each["hash"] for each in product.ask("rollback.list")["checkpoints"]][1:] == before[:1]
    git(tmp_path / "hermes" / "checkpoints" / "store", "gc", "-q", "--prune=now")
    assert messages(product) == ["ours", "before terminal: make"]
