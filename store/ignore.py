"""Decide what is ignored, exactly as git does, without the git program.

Owns which pattern wins for a path. What one pattern means is left to `store.wildmatch`; what happens to the files
that are not ignored, to `store.capture`. Patterns are sorted into tables by what they ask of a name, as most names of
a project are looked up once and match nothing. A pattern with a slash asks something of the directory first: it is
looked at once per directory, and counts there like a pattern for names, or not at all.

Source: gitignore(5); git's dir.c.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections import defaultdict
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from store.wildmatch import parse_path_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from store.wildmatch import Name

_MAX_FILE_BYTES: Final = 100 * 1024 * 1024
"""A larger `.gitignore` does not count. Source: git's dir.c, PATTERN_MAX_FILE_SIZE."""
_MAX_ANSWERS: Final = 50_000
"""Answers kept per set of rules, so that memory does not grow with the project."""
_MAX_SHARED: Final = 20_000
"""Combinations of patterns that are kept for sharing, so that memory does not grow with what comes and goes."""
_UTF8_BOM: Final = b"\xef\xbb\xbf"
_NONE: Final = -1


@dataclass(frozen=True, slots=True)
class _NamePattern:
    """Say what one line does to the names that fit."""

    name: Name
    rank: int
    """Twice the place in the list, plus one if the line is negated: the highest rank wins."""
    is_directory_only: bool


class _NameTable:
    """Find the last of many patterns that a name fits."""

    def __init__(self, patterns: Iterable[_NamePattern]) -> None:
        self._literals: dict[bytes, int] = {}
        self._suffixes: dict[bytes, list[tuple[bytes, int]]] = {}
        self._others: list[_NamePattern] = []
        self._first_bytes: set[int] = set()
        self._last_bytes: set[int] = set()
        for pattern in patterns:
            literal, suffix = pattern.name.literal, pattern.name.suffix
            if literal is not None:
                self._literals[literal] = pattern.rank
            elif suffix is not None and b"." in suffix:
                # A name that ends so has its last dot at the same place as the suffix.
                self._suffixes.setdefault(suffix.rpartition(b".")[2], []).append((suffix, pattern.rank))
            else:
                self._add_other(pattern)
        self._others.reverse()

    def _add_other(self, pattern: _NamePattern) -> None:
        """Keep a pattern for the regular expression, and note what a name that fits starts or else ends with."""
        self._others.append(pattern)
        first, last = pattern.name.pieces[0], pattern.name.pieces[-1]
        if not first and last:
            self._last_bytes |= last[-1]
        else:
            self._first_bytes |= first[0] if first else frozenset(range(256))

    @cached_property
    def _regex(self) -> re.Pattern[bytes]:
        """All other patterns in one, the last one first: the group that matched names the pattern."""
        return re.compile(b"|".join(b"(%b)" % pattern.name.to_regex(rb"\Z") for pattern in self._others))

    def find(self, name: bytes) -> int:
        """Return the rank of the last pattern that a name fits."""
        rank = self._literals.get(name, _NONE)
        candidates = self._suffixes.get(name.rpartition(b".")[2])
        if candidates:
            for suffix, other in candidates:
                if other > rank and name.endswith(suffix):
                    rank = other
        if name[0] in self._first_bytes or name[-1] in self._last_bytes:
            match = self._regex.match(name)
            if match is not None:
                rank = max(rank, self._others[(match.lastindex or 1) - 1].rank)
        return rank


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    """Hold what one list of rules says about the names in a directory."""

    files: tuple[_NameTable, ...]
    directories: tuple[_NameTable, ...]


def _tables(patterns: Sequence[_NamePattern]) -> tuple[_NameTable, _NameTable]:
    """Return the table for files and the one for directories."""
    if not any(pattern.is_directory_only for pattern in patterns):
        table = _NameTable(patterns)
        return table, table
    return _NameTable(pattern for pattern in patterns if not pattern.is_directory_only), _NameTable(patterns)


class Rules:
    """Hold the patterns of one list, such as one `.gitignore`; nothing changes once it is made."""

    def __init__(self, lines: Iterable[bytes], base: bytes) -> None:
        self._base = base + b"/" if base else b""
        everywhere: list[_NamePattern] = []
        fixed: defaultdict[bytes, list[_NamePattern]] = defaultdict(list)
        flexible: defaultdict[bytes, list[_NamePattern]] = defaultdict(list)
        for place, line in enumerate(lines):
            is_negated = line.startswith(b"!")
            text = line[is_negated:]
            is_directory_only = text.endswith(b"/")
            text = text[: len(text) - is_directory_only]
            path = parse_path_pattern(text[text.startswith(b"/") :])
            if path is None:
                continue
            pattern = _NamePattern(path.name, 2 * place + is_negated, is_directory_only)
            literal = path.literal_directory
            if b"/" not in text or path.directories == (None,):
                everywhere.append(pattern)
            elif literal is not None:
                fixed[literal].append(pattern)
            else:
                flexible[path.directory_regex()].append(pattern)
        self._everywhere = _tables(everywhere)
        self._fixed = dict(fixed)
        self._flexible = [(re.compile(source), patterns) for source, patterns in flexible.items()]
        self._layers: dict[tuple[int, ...], _Layer] = {
            (): _Layer((self._everywhere[0],), (self._everywhere[1],)),
        }
        self.is_empty = not (everywhere or fixed or flexible)
        """Whether there is no pattern that could match anything."""

    def at(self, directory: bytes) -> _Layer:
        """Return what the rules say about the names in a directory at or below their own."""
        if not self._fixed and not self._flexible:
            return self._layers[()]
        inside = (directory + b"/" if directory else b"")[len(self._base) :]
        here = list(self._fixed.get(inside, ()))
        for regex, patterns in self._flexible:
            if regex.match(inside):
                here += patterns
        key = tuple(pattern.rank for pattern in here)
        layer = self._layers.get(key)
        if layer is None:
            files, directories = _tables(sorted(here, key=lambda pattern: pattern.rank))
            layer = _Layer((self._everywhere[0], files), (self._everywhere[1], directories))
            self._layers[key] = layer
        return layer


def parse_rules(text: bytes, base: bytes) -> Rules:
    """Return the rules in the text of a `.gitignore` or exclude file.

    Malformed patterns match nothing; nothing is ever refused.

    Args:
        text: The content of the file.
        base: The directory that the patterns are anchored at; empty for the workdir.

    Source: gitignore(5), "Pattern format". A line ends at its first NUL byte, as in git.
    """
    return Rules(_split_lines(text.removeprefix(_UTF8_BOM)), base)


def _split_lines(text: bytes) -> Iterable[bytes]:
    for line in text.split(b"\n"):
        if line and not line.startswith(b"#"):
            yield _strip_blanks(line.removesuffix(b"\r").partition(b"\0")[0])


def _strip_blanks(line: bytes) -> bytes:
    """Return a line without the blanks at its end, but for one after an odd number of backslashes."""
    kept = line.rstrip(b" ")
    backslash_count = len(kept) - len(kept.rstrip(b"\\"))
    return line[: len(kept) + 1] if backslash_count % 2 else kept


class DirectoryRules:
    """Answer for the children of a directory; shared by all directories where the same patterns count."""

    def __init__(self, rules: tuple[Rules, ...], layers: tuple[_Layer, ...]) -> None:
        self.rules = rules
        """The `.gitignore` rules that count, the deepest last."""
        self._layers = layers
        self._files: dict[bytes, bool] = {}
        self._directories: dict[bytes, bool] = {}

    def ignores(self, name: bytes, is_dir: bool) -> bool:
        """Tell whether a child of a directory that is itself not ignored is ignored."""
        answers = self._directories if is_dir else self._files
        answer = answers.get(name)
        if answer is None:
            if len(answers) >= _MAX_ANSWERS:
                answers.clear()
            answer = answers[name] = self._decide(name, is_dir=is_dir)
        return answer

    def _decide(self, name: bytes, *, is_dir: bool) -> bool:
        if name == b".git":
            return True
        for layer in self._layers:
            tables = layer.directories if is_dir else layer.files
            rank = tables[0].find(name)
            for table in tables[1:]:
                rank = max(rank, table.find(name))
            if rank != _NONE:
                return rank % 2 == 0
        return False


class IgnoreRules:
    """Decide what is ignored in one workdir at one moment.

    What counts, the strongest first: `include`, `exclude`, the `.gitignore` files from the deepest directory up, the
    defaults. Each `.gitignore` is read once, when a path below its directory is first asked for. A path below an
    ignored directory is ignored, whatever stronger rules say of the path itself.
    """

    def __init__(
        self,
        workdir: bytes,
        defaults: Rules,
        exclude: Sequence[bytes] = (),
        include: Sequence[bytes] = (),
        never: Sequence[bytes] = (),
    ) -> None:
        """Prepare the rules; nothing is read yet.

        Args:
            workdir: The absolute path of the project.
            defaults: The weakest rules, anchored at the workdir.
            exclude: More patterns, in the form of `.gitignore` lines.
            include: Patterns of what is not ignored.
            never: Patterns of what is ignored whatever the others say.
        """
        self.unreadable: set[bytes] = set()
        """Paths of the `.gitignore` files that do not count since they can't be read or are too large."""
        self.sources: set[bytes] = set()
        """Directories whose `.gitignore` was read and counts."""
        self._workdir = workdir
        self._defaults = defaults
        lines = [line for text in exclude for line in text.split(b"\n")]
        lines += [b"!" + line for text in include for line in text.split(b"\n") if line]
        lines += never
        self._settings = parse_rules(b"\n".join(lines), b"")
        self._shared: dict[tuple[_Layer, ...], DirectoryRules] = {}
        self._entered: dict[bytes, DirectoryRules] = {}
        self._open: dict[bytes, DirectoryRules | None] = {}
        self._below: defaultdict[bytes, set[bytes]] = defaultdict(set)
        """By directory: those in it of which something is kept; whatever is kept has all above it kept."""

    def is_ignored(self, path: bytes, *, is_dir: bool) -> bool:
        """Tell whether a path of the project is ignored, itself or with a directory above it."""
        directory, _, name = path.rpartition(b"/")
        rules = self._open_directory(directory)
        return rules is None or (name != b"" and rules.ignores(name, is_dir))

    def afresh(self) -> IgnoreRules:
        """Return rules with the same settings and defaults that have read no `.gitignore` yet."""
        fresh = copy(self)
        fresh.unreadable, fresh.sources = set(), set()
        fresh._entered, fresh._open, fresh._below = {}, {}, defaultdict(set)
        return fresh

    def forget(self, directory: bytes) -> None:
        """Read the `.gitignore` files at and below a directory again when they are next asked for."""
        pending = [directory]
        while pending:
            path = pending.pop()
            self._entered.pop(path, None)
            self._open.pop(path, None)
            self.sources.discard(path)
            self.unreadable.discard(os.path.join(path, b".gitignore"))
            pending += self._below.pop(path, ())

    def enter(self, directory: bytes) -> DirectoryRules:
        """Return the rules for the children of a directory that is itself not ignored."""
        missing: list[bytes] = []
        while directory not in self._entered and directory:
            missing.append(directory)
            directory = directory.rpartition(b"/")[0]
        rules = self._entered.get(directory)
        if rules is None:
            rules = self._entered[directory] = self._look_into(directory, ())
        for below in reversed(missing):
            rules = self._entered[below] = self._look_into(below, rules.rules)
            self._below[below.rpartition(b"/")[0]].add(below)
        return rules

    def _open_directory(self, directory: bytes) -> DirectoryRules | None:
        """Return the rules for the children of a directory; nothing if they are ignored together with it."""
        missing: list[bytes] = []
        while directory not in self._open and directory:
            missing.append(directory)
            directory = directory.rpartition(b"/")[0]
        rules = self._open.get(directory) if directory else self.enter(b"")
        for below in reversed(missing):
            if rules is not None:
                is_ignored = rules.ignores(below.rpartition(b"/")[2], is_dir=True)
                rules = None if is_ignored else self.enter(below)
            self._open[below] = rules
            self._below[below.rpartition(b"/")[0]].add(below)
        return rules

    def _look_into(self, directory: bytes, above: tuple[Rules, ...]) -> DirectoryRules:
        own = self._read_rules(directory)
        rules = above if own is None or own.is_empty else (*above, own)
        strongest_first = (self._settings, *reversed(rules), self._defaults)
        layers = tuple(each.at(directory) for each in strongest_first if not each.is_empty)
        shared = self._shared.get(layers)
        if shared is None:
            if len(self._shared) >= _MAX_SHARED:
                self._shared.clear()
            shared = self._shared[layers] = DirectoryRules(rules, layers)
        return shared

    def _read_rules(self, directory: bytes) -> Rules | None:
        path = os.path.join(directory, b".gitignore")
        try:
            text = _read_regular_file(os.path.join(self._workdir, path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno not in _NOT_REGULAR:
                self.unreadable.add(path)
            return None
        if text is None:
            return None
        self.sources.add(directory)
        return parse_rules(text, directory)


_NOT_REGULAR: Final = (errno.ELOOP, errno.EMLINK, errno.ENXIO)
"""What opening a symbolic link (the second one: on BSD) or a socket says. Source: open(2)."""


def _read_regular_file(path: bytes) -> bytes | None:
    """Return the content of a file, never waiting for a FIFO; nothing if it is no regular file.

    Raises:
        OSError: The file can't be read, is a symbolic link, or is too large.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        with open(descriptor, "rb", closefd=False) as file:
            text = file.read(_MAX_FILE_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(text) > _MAX_FILE_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
    return text
