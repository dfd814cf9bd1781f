"""Real git is the oracle: the same trees and the same odd patterns must be ignored by both."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store.ignore import IgnoreRules, parse_rules

if TYPE_CHECKING:
    from collections.abc import Iterator

_PLAIN_NAMES = [b"a", b"b", b"ab", b"a.o", b"b.o", b".env", b"dist", b"x.tar.gz"]
_ODD_NAMES = [
    b"#a", b"!a", b"\\a", b"a\\", b"a b", b"a ", b" ", b"[a]", b"[", b"]", b"a]", b"*", b"a*b",
    b"?", b"-", b"^", b"a\nb",
    b"\xff", b"a\xfe", b"\xc3\xa4", b"a\r", b"\t", b"\x0b", b"\x7f", b":a", b"A", b"aab", b"abab",
    b"...", b"\xef\xbb\xbfa",
]  # fmt: skip
_PIECES = [
    b"a", b"a", b"b", b"b", b".o", b"*", b"*", b"*", b"?", b"**", b"***", b"/", b"/", b"/", b"**/",
    b"/**", b"/**/", b"\\",
    b"[ab]", b"[!a]", b"[^b]", b"[a-b]", b"[b-a]", b"[]a]", b"[!]a]", b"[a", b"[", b"]", b"-",
    b"!", b"#", b"^", b" ", b"\\ ",
    b"[[:alpha:]]", b"[[:space:]]", b"[![:cntrl:]]", b"[[:punct:]a]", b"[[:nope:]]", b"[[:a]",
    b"[[:]", b"[[::]]", b"[a/b]",
    b"[\\]]", b"[\\a-b]", b"[a-\\b]", b"[a-]", b"[-a]", b"[]-a]", b"[--a]", b"[\\", b"\\*", b"\\/",
    b"\\!", b"\\#", b"\xff",
    b"[\x80-\xff]", b"\xc3\xa4", b"[\xc3\xa4]", b"\r", b"\t", b"\0", b"dist", b":",
]  # fmt: skip
_UNLIKE_THE_MANUAL = re.compile(rb"[^*?\[\\/]\*\*+(?:\\?/|\Z)")
"""In `a**/b` git 2.39 takes the two stars for a name of their own, since it cuts off `a` first."""

_names = st.sampled_from(_PLAIN_NAMES) | st.sampled_from(_PLAIN_NAMES + _ODD_NAMES)
_paths = st.lists(_names, min_size=1, max_size=4).map(b"/".join)
_directories = st.lists(_names, max_size=3).map(b"/".join)


def _is_as_in_the_manual(pattern: bytes) -> bool:
    return _UNLIKE_THE_MANUAL.search(pattern.partition(b"\0")[0].rstrip(b" \r").removesuffix(b"/")) is None


_free_patterns = st.lists(st.sampled_from(_PIECES), min_size=1, max_size=6).map(b"".join)
_path_patterns = st.lists(
    st.sampled_from([*_PLAIN_NAMES, *_ODD_NAMES[:12], b"*", b"**", b"a*", b"*b", b"*.o", b"?", b"[ab]*"]),
    min_size=1,
    max_size=4,
).map(b"/".join)
_patterns = st.builds(
    lambda start, body, end: start + body + end,
    st.sampled_from([b"", b"", b"", b"!", b"!", b"/", b"!/", b"**/", b"#", b" "]),
    _free_patterns | _path_patterns,
    st.sampled_from([b"", b"", b"", b"/", b"/", b"/**", b" ", b"  ", b"\\ ", b"\\", b"\t"]),
).filter(_is_as_in_the_manual)
_texts = st.builds(
    lambda start, lines, end: start + b"".join(line + end_of_line for line, end_of_line in lines) + end,
    st.sampled_from([b"", b"", b"", b"\xef\xbb\xbf", b"\n"]),
    st.lists(st.tuples(_patterns, st.sampled_from([b"\n", b"\n", b"\n", b"\r\n", b"\n\n"])), max_size=6),
    st.sampled_from([b"", b"", b"a", b"*.o", b"#", b"\r"]),
)
_simple_patterns = st.sampled_from([b"a", b"*.o", b"/b", b"dist/", b"a/b", b"!a", b"**/ab", b"a/*", b"!b/"])


@dataclass(frozen=True)
class _Case:
    """Hold one project and its rules."""

    files: list[bytes]
    links: list[bytes]
    ignore_files: dict[bytes, bytes]
    defaults: bytes
    exclude: list[bytes] = field(default_factory=list)
    include: list[bytes] = field(default_factory=list)


_cases = st.builds(
    _Case,
    files=st.lists(_paths, min_size=1, max_size=12),
    links=st.lists(_paths, max_size=2),
    ignore_files=st.dictionaries(st.just(b"") | _directories, _texts, max_size=3),
    defaults=_texts,
    exclude=st.lists(_simple_patterns, max_size=2),
    include=st.lists(_simple_patterns.filter(lambda pattern: not pattern.startswith(b"!")), max_size=2),
)


@pytest.fixture(scope="module")
def git_home() -> Iterator[bytes]:
    with tempfile.TemporaryDirectory() as home:
        yield os.fsencode(home)


def _build(root: bytes, case: _Case) -> None:
    for path in case.files:
        _write(os.path.join(root, path), b"")
    for path in case.links:
        full = os.path.join(root, path)
        if _make_directory(os.path.dirname(full)) and not os.path.lexists(full):
            os.symlink(b".", full)
    for directory, text in case.ignore_files.items():
        _write(os.path.join(root, directory, b".gitignore"), text)


def _write(path: bytes, content: bytes) -> None:
    if _make_directory(os.path.dirname(path)) and not os.path.lexists(path):
        Path(os.fsdecode(path)).write_bytes(content)


def _make_directory(path: bytes) -> bool:
    try:
        os.makedirs(path, exist_ok=True)
    except OSError:
        return False
    return os.path.realpath(path) == path


def _git(home: bytes, root: bytes, *arguments: bytes, stdin: bytes = b"") -> bytes:
    environment = {
        b"PATH": os.environb[b"PATH"],
        b"HOME": home,
        b"GIT_CONFIG_NOSYSTEM": b"1",
        b"GIT_CONFIG_GLOBAL": b"/dev/null",
    }
    fixed = [b"git", b"-c", b"core.excludesFile=/dev/null", b"-c", b"core.ignorecase=false"]
    done = subprocess.run(
        [*fixed, *arguments], cwd=root, env=environment, input=stdin, capture_output=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def _walk(root: bytes, rules: IgnoreRules) -> set[bytes]:
    found, pending = set(), [b""]
    while pending:
        directory = pending.pop()
        inside = rules.enter(directory)
        for entry in os.scandir(os.path.join(root, directory)):
            is_directory = entry.is_dir(follow_symlinks=False)
            if inside.ignores(entry.name, is_directory):
                continue
            path = os.path.join(directory, entry.name)
            if is_directory:
                pending.append(path)
            else:
                found.add(path)
    return found


def _all_paths(root: bytes) -> list[bytes]:
    found = []
    for directory, below, files in os.walk(root):
        if b".git" in below:
            below.remove(b".git")
        found += [os.path.relpath(os.path.join(directory, name), root) for name in [*below, *files]]
    return sorted(found)


def _verdicts_of_git(home: bytes, root: bytes, paths: list[bytes]) -> dict[bytes, bool]:
    asked = b"".join(b"./" + path + b"\0" for path in paths)
    answer = _git(home, root, b"check-ignore", b"-z", b"--stdin", b"--no-index", b"-v", b"-n", stdin=asked)
    patterns = answer.split(b"\0")[2::4]
    return {path: pattern[:1] not in (b"", b"!") for path, pattern in zip(paths, patterns, strict=True)}


def _check(home: bytes, case: _Case) -> None:
    root = os.path.realpath(tempfile.mkdtemp(dir=home))
    try:
        _git(home, root, b"init", b"-q", b"--template=")
        _build(root, case)
        Path(os.fsdecode(root), ".git", "info").mkdir()
        Path(os.fsdecode(root), ".git", "info", "exclude").write_bytes(case.defaults)
        defaults = parse_rules(case.defaults, b"")
        options = [b"-x" + line for line in [*case.exclude, *(b"!" + line for line in case.include)]]
        listed = _git(home, root, b"ls-files", b"-z", b"-o", b"--exclude-standard", *options)
        assert _walk(root, IgnoreRules(root, defaults, case.exclude, case.include)) == set(listed.split(b"\0")[:-1])
        paths = _all_paths(root)
        rules = IgnoreRules(root, defaults)
        ours = {path: rules.is_ignored(path, is_dir=_is_directory(root, path)) for path in paths}
        assert ours == (_verdicts_of_git(home, root, paths) if paths else {})
    finally:
        shutil.rmtree(root)


def _is_directory(root: bytes, path: bytes) -> bool:
    full = os.path.join(root, path)
    return os.path.isdir(full) and not os.path.islink(full)


@given(case=_cases)
@settings(
    max_examples=150, derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
def test_the_files_that_count_are_the_ones_that_git_lists(git_home: bytes, case: _Case) -> None:
    _check(git_home, case)


def test_every_byte_is_in_the_same_classes_as_for_git(git_home: bytes) -> None:
    names = [b"x" + bytes([byte]) for byte in range(1, 256) if byte != ord("/")]
    classes = b"alnum alpha blank cntrl digit graph lower print punct space upper xdigit".split()
    texts = {b"in-" + each: b"x[[:%b:]]\n" % each for each in classes}
    texts |= {b"not-" + each: b"x[^[:%b:]]\n" % each for each in classes}
    files = [directory + b"/" + name for directory in texts for name in names]
    _check(git_home, _Case(files, [], texts, b""))
