"""The docs name everything that there is, and link to nothing that there is not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from config.paths import Paths
from watcher.cli import root as command_line
from watcher.home import Home
from watcher.operations import Operations

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT = Path(__file__).resolve().parents[2]
_DOCS = _ROOT / "docs"
_PAGES = sorted([*_ROOT.glob("*.md"), *_DOCS.rglob("*.md")])
_LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_ADR_PARTS = ["Context", "Decision", "Consequences", "Alternatives"]


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def list_commands(
    command: click.Command, names: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield a command and all below it, each with the words that call it."""
    yield names, command
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from list_commands(below, (*names, name))


def read_section(title: str) -> str:
    """Return what stands under a command's heading; for the root, under the global options."""
    heading = rf"^## {re.escape(title)}$"
    found = re.search(rf"{heading}(.*?)(?=^## |\Z)", read(_DOCS / "reference/commands.md"), re.MULTILINE | re.DOTALL)
    assert found is not None, f"commands.md has no section {title!r}"
    return found[1]


def find_anchor(heading: str) -> str:
    """Return the anchor of a heading. Source: GitHub Docs, "Section links"."""
    kept = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower())
    return kept.strip().replace(" ", "-")


def test_every_command_and_option_is_in_the_reference() -> None:
    command_line._register()
    seen = 0
    for names, command in list_commands(command_line.root):
        section = read_section(names[0] if names else "Global options")
        assert not names or f"`{' '.join(names)}" in section, names
        for parameter in command.params:
            for option in [*parameter.opts, *parameter.secondary_opts]:
                if option.startswith("-"):
                    assert re.search(rf"`{re.escape(option)}[` ]", section), (names, option)
                    seen += 1
    assert seen > 10


def test_every_method_is_in_the_reference(tmp_path: Path) -> None:
    home = Home(Paths(str(tmp_path / "hermes"), ""), user_home=str(tmp_path), follow_events=False)
    page = read(_DOCS / "reference/protocol.md")
    for method in (*Operations(home, serving=True)._methods, "shutdown"):
        assert re.search(rf"^\| `{re.escape(method)}` \|", page, re.MULTILINE), method
    home.close()


def test_every_decision_is_in_the_index_and_has_its_parts() -> None:
    index = read(_DOCS / "adr/README.md")
    records = sorted(_DOCS.glob("adr/[0-9]*.md"))
    for number, record in enumerate(records, 1):
        assert re.fullmatch(rf"{number:04d}-[a-z0-9]+(-[a-z0-9]+)*\.md", record.name)
        assert f"[{number:04d}]({record.name})" in index
        assert read(record).startswith(f"# {number}. ")
        assert re.findall(r"^## (.*)$", read(record), re.MULTILINE) == _ADR_PARTS, record.name


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(_ROOT)))
def test_no_relative_link_is_dead(page: Path) -> None:
    for target in _LINK.findall(_FENCE.sub("", read(page))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        linked = (page.parent / name) if name else page
        assert linked.exists(), target
        assert linked.resolve().is_relative_to(_ROOT), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", read(linked)), re.MULTILINE)
            assert anchor in {find_anchor(heading) for heading in headings}, target
