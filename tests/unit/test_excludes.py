"""The default excludes follow a newer list, and keep every edit of the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from store.excludes import merge_lists, refresh_excludes
from tests.support.stores import make_layout

if TYPE_CHECKING:
    from pathlib import Path

OLD = b"# list, version 1\na/\nb/\n*.x\n"
NEW = b"# list, version 2\na/\n*.x\n*.y\n"


@pytest.mark.parametrize(
    ("present", "merged"),
    [
        (OLD, NEW),
        (OLD + b"mine\n", NEW + b"mine\n"),
        (b"first\n" + OLD, b"first\n" + NEW),
        (OLD.replace(b"a/\n", b""), b"*.x\n# list, version 2\n*.y\n"),
        (OLD + b"!*.y\n", b"a/\n*.x\n# list, version 2\n*.y\n!*.y\n"),
        (b"only mine\n", b"# list, version 2\n*.y\nonly mine\n"),
        (b"", b"# list, version 2\n*.y\n"),
        (OLD.replace(b"\n", b"\r\n"), b"# list, version 2\n*.y\n# list, version 1\r\na/\r\nb/\r\n*.x\r\n"),
    ],
)
def test_lines_come_and_go_with_the_list_and_the_users_stay(present: bytes, merged: bytes) -> None:
    assert sorted(merge_lists(present, OLD, NEW).split(b"\n")) == sorted(merged.split(b"\n"))


def test_a_users_exception_still_wins_over_a_new_line() -> None:
    lines = merge_lists(OLD + b"!*.y\n", OLD, NEW).split(b"\n")
    assert lines.index(b"*.y") < lines.index(b"!*.y")


def test_a_line_that_the_user_removed_does_not_come_back() -> None:
    assert b"a/" not in merge_lists(OLD.replace(b"a/\n", b""), OLD, NEW).split(b"\n")


def test_the_file_is_merged_once(tmp_path: Path) -> None:
    layout = make_layout(tmp_path)
    with open(layout.exclude_file, "ab") as file:
        file.write(b"mine\n")
    with open(layout.shipped_excludes_file, "rb") as file:
        shipped = file.read()
    assert not refresh_excludes(layout, shipped)
    assert refresh_excludes(layout, shipped + b"*.new\n")
    assert not refresh_excludes(layout, shipped + b"*.new\n")
    with open(layout.exclude_file, "rb") as file:
        assert file.read() == shipped + b"*.new\nmine\n"


def test_a_list_of_another_program_is_left_alone(tmp_path: Path) -> None:
    layout = make_layout(tmp_path)
    with open(layout.exclude_file, "wb") as file:
        file.write(b"theirs\n")
    (tmp_path / "checkpoints" / "store" / "info" / "exclude.shipped").unlink()
    assert not refresh_excludes(layout, NEW)
    with open(layout.exclude_file, "rb") as file:
        assert file.read() == b"theirs\n"
