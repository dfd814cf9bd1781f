"""The patterns of what is not captured, and where they come from.

Owns the sources: the store's exclude file, and what the settings add. They are compiled for looking at single paths in
this process, and handed to git for looking at a whole project, with the same meaning.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace

from store.files import read_file
from store.ignore import IgnoreRules, parse_rules


@dataclass(frozen=True, slots=True)
class Patterns:
    """Say which patterns count, a project's own `.gitignore` files apart."""

    exclude_file: str
    """The store's `info/exclude`; a project's `.gitignore` files win over it."""
    exclude: tuple[bytes, ...] = ()
    """Patterns of the settings; they win over every file."""
    opened: tuple[bytes, ...] = ()
    """Lines that open the ignored folders in which something is included, and keep the rest of them ignored."""
    include: tuple[bytes, ...] = ()
    """Patterns of what is captured though the others say no; they win over the ones above."""
    never: tuple[bytes, ...] = ()
    """Patterns of what is not captured whatever the others say."""

    def compile(self, root: bytes) -> IgnoreRules:
        """Return the rules of this moment for a project."""
        defaults = parse_rules(read_file(self.exclude_file) or b"", b"")
        return IgnoreRules(root, defaults, (*self.exclude, *self.opened), self.include, self.never)

    def settings_lines(self) -> tuple[bytes, ...]:
        """Return the patterns of the settings, the strongest last, as lines of a `.gitignore`."""
        return (*self.exclude, *self.opened, *(b"!" + pattern for pattern in self.include), *self.never)

    def open_folders(self, root: bytes) -> Patterns:
        """Return the patterns with the folders opened that are ignored and that `include` names something in.

        git never looks into an ignored folder. Written out for a folder `a` and an included `a/b`, what opens it is
        `!/a/`, `/a/*`, `!a/b`; but where `a` is not ignored, the second line would ignore what is in it.

        Args:
            root: The project, whose `.gitignore` files have a say in what is ignored.
        """
        if not self.include:
            return self
        rules = replace(self, opened=(), include=()).compile(root)
        folders = {folder for pattern in self.include for folder in _list_folders(pattern)}
        ignored = [folder for folder in sorted(folders) if rules.is_ignored(folder, is_dir=True)]
        lines = (line for folder in ignored for line in (b"!" + pattern_of(folder), pattern_of(folder) + b"*"))
        return replace(self, opened=tuple(lines))

    def digest(self) -> str:
        """Return 64 hex digits that change when a pattern does."""
        parts = (read_file(self.exclude_file) or b"", *self.settings_lines())
        return hashlib.sha256(b"\0".join(b"%d:%s" % (len(part), part) for part in parts)).hexdigest()

    def git_arguments(self) -> list[bytes]:
        """Return the options of `git ls-files` that mean the same. Source: git-ls-files(1), "Exclude patterns"."""
        return [
            b"--exclude-per-directory=.gitignore",
            b"--exclude-from=" + self.exclude_file.encode("utf-8", "surrogateescape"),
            *(b"--exclude=" + line for line in self.settings_lines()),
        ]


def _list_folders(pattern: bytes) -> list[bytes]:
    """Return the folders that a pattern leads through, the outermost first; none where they are not spelled out."""
    names = pattern.removeprefix(b"/").removesuffix(b"/").split(b"/")[:-1]
    if not all(names) or any(name in (b".", b"..") or set(name) & set(b"*?[\\") for name in names):
        return []
    return [b"/".join(names[: count + 1]) for count in range(len(names))]


def pattern_of(directory: bytes) -> bytes:
    """Return the pattern that means one directory and no other.

    Args:
        directory: Relative to the project.
    """
    return b"/" + re.sub(rb"([\\*?\[ ])", rb"\\\1", directory) + b"/"
