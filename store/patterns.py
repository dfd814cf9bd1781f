"""The patterns of what is not captured, and where they come from.

Owns the sources: the store's exclude file, and what the settings add. They are compiled for looking at single paths in
this process, and handed to git for looking at a whole project, with the same meaning.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from store.files import read_file
from store.ignore import IgnoreRules, parse_rules


@dataclass(frozen=True, slots=True)
class Patterns:
    """Say which patterns count, a project's own `.gitignore` files apart."""

    exclude_file: str
    """The store's `info/exclude`; a project's `.gitignore` files win over it."""
    exclude: tuple[bytes, ...] = ()
    """Patterns of the settings; they win over every file."""
    include: tuple[bytes, ...] = ()
    """Patterns of what is captured though the others say no; they win over the ones above."""
    never: tuple[bytes, ...] = ()
    """Patterns of what is not captured whatever the others say."""

    def compile(self, root: bytes) -> IgnoreRules:
        """Return the rules of this moment for a project."""
        defaults = parse_rules(read_file(self.exclude_file) or b"", b"")
        return IgnoreRules(root, defaults, self.exclude, self.include, self.never)

    def digest(self) -> str:
        """Return 64 hex digits that change when a pattern does."""
        parts = (read_file(self.exclude_file) or b"", *self.exclude, b"", *self.include, b"", *self.never)
        return hashlib.sha256(b"\0".join(b"%d:%s" % (len(part), part) for part in parts)).hexdigest()

    def git_arguments(self) -> list[bytes]:
        """Return the options of `git ls-files` that mean the same. Source: git-ls-files(1), "Exclude patterns"."""
        return [
            b"--exclude-per-directory=.gitignore",
            b"--exclude-from=" + self.exclude_file.encode("utf-8", "surrogateescape"),
            *(b"--exclude=" + pattern for pattern in self.exclude),
            *(b"--exclude=!" + pattern for pattern in self.include),
            *(b"--exclude=" + pattern for pattern in self.never),
        ]


def pattern_of(directory: bytes) -> bytes:
    """Return the pattern that means one directory and no other.

    Args:
        directory: Relative to the project.
    """
    return b"/" + re.sub(rb"([\\*?\[ ])", rb"\\\1", directory) + b"/"
