"""Read git's wildcard language, and turn it into regular expressions that can't hang.

Owns what one pattern means for one path; which pattern wins is left to `store.ignore`. A pattern is a list of names
between slashes. In a name every star is followed by pieces of a fixed length, so the leftmost place where the next
piece fits is always a right one: each search is put into an atomic group, and a match costs at most the length of the
pattern times the length of the text. The same holds for `**` and the names that follow it.

Source: gitignore(5), "Pattern format"; git's wildmatch() with WM_PATHNAME.
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

Token = frozenset[int]
"""The bytes that may stand at one place; never the slash."""

_SLASH: Final = ord("/")
_BACKSLASH: Final = ord("\\")
_STAR: Final = ord("*")
_LITERAL: Final = tuple(frozenset({byte}) for byte in range(256))
_ANY: Final = frozenset(range(256)) - {_SLASH}
_DOUBLE_STAR: Final = re.compile(rb"\*\*+(?:\Z|\\?/)")
_LONGEST_PATTERN: Final = 4096
"""Fixed bytes in a pattern. No path is longer; a pattern that asks for more matches nothing. Source: PATH_MAX."""

_CLASSES: Final = {
    b"alnum": frozenset((string.ascii_letters + string.digits).encode()),
    b"alpha": frozenset(string.ascii_letters.encode()),
    b"blank": frozenset(b" \t"),
    b"cntrl": frozenset(range(32)) | {127},
    b"digit": frozenset(string.digits.encode()),
    b"graph": frozenset(range(33, 127)),
    b"lower": frozenset(string.ascii_lowercase.encode()),
    b"print": frozenset(range(32, 127)),
    b"punct": frozenset(string.punctuation.encode()),
    b"space": frozenset(b" \t\n\r"),
    b"upper": frozenset(string.ascii_uppercase.encode()),
    b"xdigit": frozenset(string.hexdigits.encode()),
}
"""The POSIX classes, in ASCII whatever the locale. Source: git's ctype.c."""


class _NeverMatchesError(Exception):
    """Say that a pattern is malformed, so that no path fits."""


@dataclass(frozen=True, slots=True)
class Name:
    """Say which names fit one place between slashes."""

    pieces: tuple[tuple[Token, ...], ...]
    """What stands between the stars: one piece more than there are stars, any of them may be empty."""

    @property
    def literal(self) -> bytes | None:
        """The one name that fits, if there is only one."""
        return _spell(self.pieces[0]) if len(self.pieces) == 1 else None

    @property
    def suffix(self) -> bytes | None:
        """What a name has to end with, if that is all it takes."""
        return _spell(self.pieces[1]) if len(self.pieces) == 2 and not self.pieces[0] else None

    def to_regex(self, end: bytes) -> bytes:
        """Return a regular expression for a name that is followed by `end`, a slash or the end of the text."""
        first, *others = (b"".join(map(_to_regex, piece)) for piece in self.pieces)
        if not others:
            return first + end
        *middle, last = others
        searches = (b"(?>[^/]*?%b)" % piece for piece in middle)
        return first + b"".join(searches) + (b"(?>[^/]*?%b%b)" % (last, end) if last else b"[^/]*" + end)


ANY_NAME: Final = Name(((), ()))
"""What a star alone stands for."""


@dataclass(frozen=True, slots=True)
class PathPattern:
    """Say which paths fit: a name, and the directory that holds it."""

    directories: tuple[Name | None, ...]
    """The directories from the anchor down; nothing stands for `**`, any number of directories."""
    name: Name
    """The last name."""

    @property
    def literal_directory(self) -> bytes | None:
        """The one directory in which a name can fit, with a slash at its end; empty for the anchor itself."""
        names = [None if name is None else name.literal for name in self.directories]
        found = [name + b"/" for name in names if name is not None]
        return b"".join(found) if len(found) == len(names) else None

    def directory_regex(self) -> bytes:
        """Return a regular expression for the start of directories that end with a slash."""
        groups: list[list[Name]] = [[]]
        for name in self.directories:
            if name is None:
                groups.append([])
            else:
                groups[-1].append(name)
        first, *others = (b"".join(name.to_regex(b"/") for name in group) for group in groups)
        if not others:
            return first + rb"\Z"
        *middle, last = others
        searches = (rb"(?>(?:[^/]+/)*?%b)" % group for group in middle if group)
        return first + b"".join(searches) + (rb"(?>(?:[^/]+/)*?%b\Z)" % last if last else b"")


def parse_path_pattern(pattern: bytes) -> PathPattern | None:
    """Return what a pattern means for a path below its anchor; nothing if it fits no path.

    Args:
        pattern: The pattern alone: without `!`, without a slash at its start or end.
    """
    try:
        names = _Reader(pattern).read_names()
    except _NeverMatchesError:
        return None
    if names[-1] is None:
        return PathPattern(tuple(names), ANY_NAME)
    return PathPattern(tuple(names[:-1]), names[-1])


class _Reader:
    """Read one pattern from left to right."""

    def __init__(self, pattern: bytes) -> None:
        self._pattern = pattern
        self._at = 0
        self._token_count = 0

    def read_names(self) -> list[Name | None]:
        names: list[Name | None] = []
        while True:
            if self._is_double_star():
                self._skip_stars()
                if self._peek() == _BACKSLASH:
                    names.append(ANY_NAME)  # an escaped slash is not left out together with the stars
                names.append(None)
            else:
                names.append(self._read_name())
            if self._is_at_end():
                return names
            self._skip_slash()

    def _is_double_star(self) -> bool:
        """Tell whether the name that starts here is made of two stars or more, and nothing else."""
        return _DOUBLE_STAR.match(self._pattern, self._at) is not None

    def _read_name(self) -> Name:
        pieces: list[list[Token]] = [[]]
        while not self._is_at_end() and not self._is_at_slash():
            if self._peek() == _STAR:
                self._skip_stars()
                pieces.append([])
                continue
            pieces[-1].append(self._read_token())
            self._token_count += 1
        if pieces == [[]] or self._token_count > _LONGEST_PATTERN:
            raise _NeverMatchesError
        return Name(tuple(map(tuple, pieces)))

    def _read_token(self) -> Token:
        char = self._take()
        if char == ord("?"):
            return _ANY
        if char == ord("["):
            return self._read_set()
        return _LITERAL[self._take() if char == _BACKSLASH else char]

    def _read_set(self) -> Token:
        is_negated = self._peek() in (ord("!"), ord("^"))
        self._at += is_negated
        members: set[int] = set()
        previous: int | None = None
        is_first = True
        while is_first or self._peek() != ord("]"):
            is_first = False
            previous = self._read_member(members, previous)
        self._at += 1
        return frozenset(_ANY - members if is_negated else _ANY & members)

    def _read_member(self, members: set[int], previous: int | None) -> int | None:
        """Read a byte, a range or a class, and return the byte at which a range may start."""
        char = self._take()
        if char == ord("-") and previous is not None and self._peek() not in (None, ord("]")):
            members.update(range(previous, self._take_escaped() + 1))
            return None
        if char == ord("[") and self._peek() == ord(":"):
            close = self._pattern.find(b"]", self._at + 1)
            if close < 0:
                raise _NeverMatchesError
            if close > self._at + 1 and self._pattern[close - 1] == ord(":"):
                members.update(_class_of(self._pattern[self._at + 1 : close - 1]))
                self._at = close + 1
                return None
        elif char == _BACKSLASH:
            char = self._take()
        members.add(char)
        return char

    def _take_escaped(self) -> int:
        char = self._take()
        return self._take() if char == _BACKSLASH else char

    def _take(self) -> int:
        if self._is_at_end():
            raise _NeverMatchesError
        self._at += 1
        return self._pattern[self._at - 1]

    def _peek(self) -> int | None:
        return None if self._is_at_end() else self._pattern[self._at]

    def _is_at_end(self) -> bool:
        return self._at >= len(self._pattern)

    def _is_at_slash(self) -> bool:
        return self._pattern.startswith((b"/", b"\\/"), self._at)

    def _skip_slash(self) -> None:
        self._at += 1 if self._peek() == _SLASH else 2

    def _skip_stars(self) -> None:
        while self._peek() == _STAR:
            self._at += 1


def _class_of(name: bytes) -> Token:
    members = _CLASSES.get(name)
    if members is None:
        raise _NeverMatchesError
    return members


def _spell(piece: tuple[Token, ...]) -> bytes | None:
    """Return the one text that a piece stands for, if there is only one."""
    return bytes(next(iter(token)) for token in piece) if all(len(token) == 1 for token in piece) else None


@lru_cache(maxsize=1024)
def _to_regex(token: Token) -> bytes:
    if token == _ANY:
        return b"[^/]"
    if not token:
        return b"(?!)"
    if len(token) == 1:
        return re.escape(bytes(token))
    if len(token) > 128:
        return b"[^/%b]" % _spell_out(_ANY - token)
    return b"[%b]" % _spell_out(token)


def _spell_out(token: Token) -> bytes:
    return b"".join(rb"\x%02x" % byte for byte in sorted(token))
