"""What is ignored, pattern by pattern; real git confirms the same rules in `tests/property`."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from store import ignore
from store.ignore import IgnoreRules, Rules, parse_rules
from store.patterns import pattern_of

if TYPE_CHECKING:
    from pathlib import Path

_NO_RULES = parse_rules(b"", b"")
_DEFAULTS = (
    b"node_modules/ dist/ build/ target/ out/ .next/ .nuxt/ __pycache__/ *.pyc *.pyo .cache/ .pytest_cache/ "
    b".mypy_cache/ .ruff_cache/ coverage/ .coverage .venv/ venv/ env/ .git/ .hg/ .svn/ .worktrees/ *.so *.dylib *.dll "
    b"*.o *.a *.jar *.class *.exe *.obj *.mp4 *.mov *.mkv *.webm *.zip *.tar *.tar.gz *.tgz *.7z *.rar *.iso .env "
    b".env.* .env.local .env.*.local .DS_Store Thumbs.db *.log"
).replace(b" ", b"\n")


def _rules(workdir: Path, text: bytes = b"") -> IgnoreRules:
    return IgnoreRules(os.fsencode(workdir), parse_rules(text, b""))


def _write(workdir: Path, directory: str, text: bytes) -> None:
    (workdir / directory).mkdir(parents=True, exist_ok=True)
    (workdir / directory / ".gitignore").write_bytes(text)


@pytest.mark.parametrize(
    ("text", "path", "is_ignored"),
    [
        # Names, at any depth.
        (b"a", b"a", True),
        (b"a", b"x/y/a", True),
        (b"a", b"A", False),
        (b"a", b"ab", False),
        (b"*.o", b"x/a.o", True),
        (b"*.o", b".o", True),
        (b"*.o", b"a.ob", False),
        (b"*.tar.gz", b"a.b.tar.gz", True),
        (b"*.tar.gz", b"a.gz", False),
        (b"*~", b"a.txt~", True),
        (b"a?c", b"abc", True),
        (b"a?c", b"ac", False),
        (b"a*b*c", b"aXbXbXc", True),
        (b"a*b*c", b"aXcXb", False),
        (b"*", b"anything", True),
        (b"a**b", b"aXXb", True),
        (b"\xff?", b"\xff\xfe", True),
        # A slash anchors.
        (b"/a", b"a", True),
        (b"/a", b"x/a", False),
        (b"a/b", b"a/b", True),
        (b"a/b", b"x/a/b", False),
        (b"a/*", b"a/b", True),
        (b"*/b", b"a/b", True),
        (b"*/b", b"a/x/b", False),
        (b"*/b", b"b", False),
        (b"a//b", b"a/b", False),
        (b"//a", b"a", False),
        (b"a\\/b", b"a/b", True),
        # Double stars.
        (b"**/a", b"a", True),
        (b"**/a", b"x/y/a", True),
        (b"/**/a", b"x/a", True),
        (b"a/**", b"a/b/c", True),
        (b"a/**", b"a", False),
        (b"a/**/b", b"a/b", True),
        (b"a/**/b", b"a/x/y/b", True),
        (b"a/**/b", b"x/a/b", False),
        (b"a/**/**/b", b"a/b", True),
        (b"a/***/b", b"a/x/y/b", True),
        (b"**\\/a", b"a", False),
        (b"**\\/a", b"x/a", True),
        (b"a**/b", b"axx/b", True),
        (b"a**/b", b"ax/y/b", False),
        (b"a**/b", b"ab", False),
        (b"x/**b/c", b"x/ab/c", True),
        (b"x/**b/c", b"x/y/ab/c", False),
        (b"**/a/**/b/c", b"x/a/b/b/c", True),
        # Brackets.
        (b"[ab]c", b"bc", True),
        (b"[!ab]c", b"bc", False),
        (b"[^ab]c", b"xc", True),
        (b"[a-c]", b"b", True),
        (b"[c-a]", b"b", False),
        (b"[]a]", b"]", True),
        (b"[!]a]", b"]", False),
        (b"[a-]", b"-", True),
        (b"[\\]]", b"]", True),
        (b"[a\\-c]", b"b", False),
        (b"[a-\\c]", b"b", True),
        (b"[[:digit:]]", b"7", True),
        (b"[![:alpha:]]", b"7", True),
        (b"[[:space:]]", b"\x0b", False),
        (b"[[:a]", b":", True),
        (b"a[/]b", b"a/b", False),
        (b"a[!x]b", b"a/b", False),
        # Malformed patterns match nothing.
        (b"[a", b"[a", False),
        (b"[a", b"a", False),
        (b"a\\", b"a\\", False),
        (b"a\\", b"a", False),
        (b"[[:nope:]]", b"n", False),
        (b"[\\", b"\\", False),
        (b"!", b"!", False),
        (b"/", b"a", False),
        # Lines.
        (b"# a\nb", b"# a", False),
        (b"\\#a", b"#a", True),
        (b"\\!a", b"!a", True),
        (b"a  ", b"a", True),
        (b"a\\ ", b"a ", True),
        (b"a\\  ", b"a ", True),
        (b"a\\\\ ", b"a\\", True),
        (b"a\t", b"a", False),
        (b" a", b" a", True),
        (b"a\r\nb\r\n", b"a", True),
        (b"a \r\n", b"a", True),
        (b"a\r", b"a\r", False),
        (b"a\r\r\n", b"a\r", True),
        (b"\xef\xbb\xbfa", b"a", True),
        (b"b\n\xef\xbb\xbfa", b"a", False),
        (b"a\0b", b"a", True),
        (b"?", b"\n", True),
        # The last pattern that matches wins.
        (b"*.o\n!a.o", b"a.o", False),
        (b"!a.o\n*.o", b"a.o", True),
        (b"*.o\n!a.*\n[a]*", b"a.o", True),
        (b"/a\n!a", b"a", False),
        (b"!a\n/a", b"a", True),
        (b"**/a\n!x/a", b"x/a", False),
    ],
)
def test_a_pattern_means_what_it_means_to_git(text: bytes, path: bytes, is_ignored: bool, tmp_path: Path) -> None:
    assert _rules(tmp_path, text).is_ignored(path, is_dir=False) is is_ignored


@pytest.mark.parametrize("pattern", [b"a/", b"/a/", b"**/a/", b"[a]/", b"*/"])
def test_a_slash_at_the_end_asks_for_a_directory(pattern: bytes, tmp_path: Path) -> None:
    rules = _rules(tmp_path, pattern)
    assert rules.is_ignored(b"a", is_dir=True)
    assert not rules.is_ignored(b"a", is_dir=False)


def test_nothing_below_an_ignored_directory_is_taken_back(tmp_path: Path) -> None:
    _write(tmp_path, "build/keep", b"!*\n")
    rules = _rules(tmp_path, b"build/\n!build/keep\n!build/keep/a\n")
    assert rules.is_ignored(b"build/keep/a", is_dir=False)
    assert rules.sources == set()


def test_a_child_of_a_directory_whose_content_is_ignored_can_be_taken_back(tmp_path: Path) -> None:
    rules = _rules(tmp_path, b"a/*\n!a/keep\n")
    assert rules.is_ignored(b"a/x", is_dir=False)
    assert not rules.is_ignored(b"a/keep", is_dir=False)


def test_the_deepest_file_wins_and_the_defaults_lose(tmp_path: Path) -> None:
    _write(tmp_path, "", b"!*.log\n*.txt\n")
    _write(tmp_path, "sub", b"!b.txt\n/c\n")
    rules = _rules(tmp_path, b"*.log\n*.o")
    answers = {path: rules.is_ignored(path, is_dir=False) for path in (b"a.log", b"a.o", b"b.txt", b"sub/b.txt")}
    assert answers == {b"a.log": False, b"a.o": True, b"b.txt": True, b"sub/b.txt": False}
    assert rules.is_ignored(b"sub/c", is_dir=False)
    assert not rules.is_ignored(b"sub/d/c", is_dir=False)
    assert rules.sources == {b"", b"sub"}


def test_a_file_has_no_say_over_its_own_directory(tmp_path: Path) -> None:
    _write(tmp_path, "sub", b"sub\n")
    assert not _rules(tmp_path).is_ignored(b"sub", is_dir=True)


def test_include_beats_exclude_which_beats_every_file(tmp_path: Path) -> None:
    _write(tmp_path, "", b"!*.csv\n*.md\n")
    rules = IgnoreRules(os.fsencode(tmp_path), parse_rules(b"*.log", b""), [b"*.csv"], [b"*.md", b"*.log", b"keep.csv"])
    names = (b"a.csv", b"keep.csv", b"a.md", b"a.log")
    assert [rules.is_ignored(name, is_dir=False) for name in names] == [True, False, False, False]


def test_git_directories_are_ignored_whatever_is_included(tmp_path: Path) -> None:
    rules = IgnoreRules(os.fsencode(tmp_path), _NO_RULES, include=[b".git"])
    assert rules.is_ignored(b".git", is_dir=True)
    assert rules.is_ignored(b"sub/.git", is_dir=False)
    assert rules.is_ignored(b".git/config", is_dir=False)
    assert not rules.is_ignored(b".github", is_dir=True)


def test_the_workdir_itself_is_not_ignored(tmp_path: Path) -> None:
    assert not _rules(tmp_path, b"*").is_ignored(b"", is_dir=True)


def test_a_link_a_directory_and_a_fifo_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "rules").write_bytes(b"*\n")
    for name in ("link", "directory", "fifo"):
        (tmp_path / name).mkdir()
    (tmp_path / "link/.gitignore").symlink_to("../rules")
    (tmp_path / "directory/.gitignore").mkdir()
    os.mkfifo(tmp_path / "fifo/.gitignore")
    rules = _rules(tmp_path)
    assert not any(rules.is_ignored(name + b"/a", is_dir=False) for name in (b"link", b"directory", b"fifo"))
    assert rules.sources == set()
    assert rules.unreadable == set()


def test_a_file_that_cannot_be_read_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path, "sub", b"*\n")

    def refuse(path: bytes) -> bytes:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(ignore, "_read_regular_file", refuse)
    rules = _rules(tmp_path)
    assert not rules.is_ignored(b"sub/a", is_dir=False)
    assert rules.unreadable == {b".gitignore", b"sub/.gitignore"}


def test_a_file_that_is_too_large_does_not_count_and_is_remembered(tmp_path: Path) -> None:
    _write(tmp_path, "", b"*\n")
    os.truncate(tmp_path / ".gitignore", 100 * 1024 * 1024 + 1)
    rules = _rules(tmp_path)
    assert not rules.is_ignored(b"a", is_dir=False)
    assert rules.unreadable == {b".gitignore"}


def test_each_file_is_read_once(tmp_path: Path) -> None:
    _write(tmp_path, "sub", b"a\n")
    rules = _rules(tmp_path)
    assert rules.is_ignored(b"sub/a", is_dir=False)
    _write(tmp_path, "sub", b"")
    assert rules.is_ignored(b"sub/a", is_dir=False)
    assert rules.enter(b"sub").ignores(b"a", False)


def test_a_walk_may_start_anywhere(tmp_path: Path) -> None:
    _write(tmp_path, "", b"/a/b/*.o\na/**/x\n")
    _write(tmp_path, "a", b"y\n")
    inside = _rules(tmp_path).enter(b"a/b")
    assert [inside.ignores(name, False) for name in (b"1.o", b"x", b"y", b"z")] == [True, True, True, False]


def test_rules_of_a_base_are_anchored_there() -> None:
    rules: Rules = parse_rules(b"/a\nb/c", b"base")
    assert rules.at(b"base").files[1].find(b"a") == 0
    assert len(rules.at(b"base/x").files) == 1
    assert rules.at(b"base/b").files[1].find(b"c") == 2


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        (b"*a*a*a*a*a*a*a*b", b"a" * 255),
        (b"*a" * 120 + b"*xb", b"a" * 254 + b"b"),
        (b"*[ab]" * 120 + b"c?", b"ab" * 120),
        (b"**/a/**/a/**/a/**/b", b"/".join([b"a"] * 1500)),
        (b"**/a/" * 300 + b"b", b"/".join([b"a"] * 1500)),
        (b"**/*a*a*a*a*/" * 20 + b"b", b"/".join([b"a" * 200] * 15)),
        (b"**/a*/**/*a*/**/?/x", b"/".join([b"aa"] * 1000)),
    ],
)
def test_a_hostile_pattern_costs_no_more_than_a_moment(pattern: bytes, path: bytes, tmp_path: Path) -> None:
    started = time.monotonic()
    assert not _rules(tmp_path, pattern).is_ignored(path, is_dir=False)
    assert time.monotonic() - started < 2


def test_a_pattern_longer_than_any_path_matches_nothing(tmp_path: Path) -> None:
    assert not _rules(tmp_path, b"*?" * 100_000).is_ignored(b"a", is_dir=False)


def test_many_names_are_answered_in_little_time_and_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ignore, "_MAX_ANSWERS", 100)
    inside = _rules(tmp_path, _DEFAULTS).enter(b"")
    names = [b"module_%d.py" % number for number in range(40_000)]
    started = time.monotonic()
    assert not any(inside.ignores(name, False) for name in names)
    assert time.monotonic() - started < 1
    assert inside.ignores(b"a.tar.gz", False)
    assert inside.ignores(b".env.production", False)
    assert inside.ignores(b"node_modules", True)
    assert not inside.ignores(b"node_modules", False)


def test_what_is_never_captured_is_ignored_whatever_is_included(tmp_path: Path) -> None:
    rules = IgnoreRules(os.fsencode(tmp_path), parse_rules(b"", b""), include=(b"*",), never=(pattern_of(b"a *[x]/b"),))
    assert rules.is_ignored(b"a *[x]/b/c", is_dir=False)
    assert not rules.is_ignored(b"a y[x]/b/c", is_dir=False)
    assert not rules.is_ignored(b"a *x/b/c", is_dir=False)


def test_what_is_forgotten_is_read_again_and_nothing_else_is(tmp_path: Path) -> None:
    for name in ("a", "a/b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / ".gitignore").write_text("x\n")
    rules = _rules(tmp_path)

    def ask() -> list[bool]:
        return [rules.is_ignored(path, is_dir=False) for path in (b"a/x", b"a/b/x", b"c/x")]

    assert ask() == [True, True, True]
    for name in ("a", "a/b", "c"):
        (tmp_path / name / ".gitignore").unlink()
    assert ask() == [True, True, True]
    rules.forget(b"a")
    assert ask() == [False, False, True]
    assert rules.sources == {b"c"}
    rules.forget(b"")
    assert ask() == [False, False, False]


def test_rules_made_afresh_read_the_files_anew_and_leave_the_first_ones_alone(tmp_path: Path) -> None:
    rules = _rules(tmp_path, b"*.log\n")
    assert not rules.is_ignored(b"a/x", is_dir=False)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".gitignore").write_text("x\n")
    fresh = rules.afresh()
    assert fresh.is_ignored(b"a/x", is_dir=False)
    assert fresh.is_ignored(b"a/x.log", is_dir=False)
    assert (rules.is_ignored(b"a/x", is_dir=False), rules.sources) == (False, set())
