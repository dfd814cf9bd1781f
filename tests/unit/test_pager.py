"""How a comparison looks on a terminal."""

from __future__ import annotations

import click
import pytest

from watcher.cli.pager import colour


@pytest.mark.parametrize(
    ("line", "style"),
    [
        ("diff --git a/a b/a", {"bold": True}),
        ("--- a/a", {"bold": True}),
        ("+++ b/a", {"bold": True}),
        ("@@ -1 +1 @@", {"fg": "cyan"}),
        ("+new", {"fg": "green"}),
        ("-old", {"fg": "red"}),
    ],
)
def test_each_kind_of_line_has_its_colour(line: str, style: dict[str, object]) -> None:
    assert colour(line) == click.style(line, **style)  # type: ignore[arg-type]


def test_context_has_none_and_tabs_stay() -> None:
    assert colour(" \tsame") == " \tsame"


def test_no_content_writes_to_the_terminal() -> None:
    assert click.unstyle(colour("+\x1b]0;title\x07\x1b[2J\r")) == "+\\x1b]0;title\\x07\\x1b[2J\\r"
