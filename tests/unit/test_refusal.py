"""How long a project that is too large is refused without being walked."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from watcher.dirty import Dirty
from watcher.refusal import Refusal

if TYPE_CHECKING:
    from pathlib import Path


def changed(*paths: str, trees: tuple[str, ...] = (), scan_reason: str | None = None) -> Dirty:
    return Dirty(frozenset(map(os.fsencode, paths)), frozenset(map(os.fsencode, trees)), scan_reason)


@pytest.fixture
def refusal(tmp_path: Path) -> Refusal:
    (tmp_path / "sub").mkdir()
    for name in ("a", "b", "sub/c"):
        (tmp_path / name).touch()
    return Refusal(os.fsencode(tmp_path), [b"a", b"b", b"sub/c"], max_files=2)


@pytest.mark.parametrize("dirty", [changed(), changed("a"), changed("new", "gone.tmp"), changed(trees=("other",))])
def test_it_holds_while_as_many_files_stand(refusal: Refusal, dirty: Dirty) -> None:
    assert refusal.still_holds(dirty, max_files=2)


def test_it_ends_when_a_file_is_gone(refusal: Refusal, tmp_path: Path) -> None:
    (tmp_path / "a").unlink()
    assert not refusal.still_holds(changed("a"), max_files=2)


def test_it_ends_when_a_file_became_something_else(refusal: Refusal, tmp_path: Path) -> None:
    (tmp_path / "a").unlink()
    (tmp_path / "a").mkdir()
    assert not refusal.still_holds(changed("a"), max_files=2)


@pytest.mark.parametrize("tree", ["sub", "sub/c"])
def test_it_ends_when_a_directory_of_theirs_changed_as_a_whole(refusal: Refusal, tree: str) -> None:
    assert not refusal.still_holds(changed(trees=(tree,)), max_files=2)


def test_it_ends_when_anything_may_have_changed(refusal: Refusal) -> None:
    assert not refusal.still_holds(changed(scan_reason="events were lost"), max_files=2)


def test_it_ends_when_another_number_is_allowed(refusal: Refusal) -> None:
    assert not refusal.still_holds(changed(), max_files=1)
