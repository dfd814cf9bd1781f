"""What stands under one name of a tree: the words that everything about files and trees is written in.

Imports nothing, so that `store.reader` starts quickly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

Oid = NewType("Oid", bytes)
"""A git object's id, 20 raw bytes."""

MODE_FILE = b"100644"
MODE_EXECUTABLE = b"100755"
MODE_LINK = b"120000"
MODE_GITLINK = b"160000"
MODE_TREE = b"40000"

EMPTY_TREE = Oid(bytes.fromhex("4b825dc642cb6eb9a060e54bf8d69288fbee4904"))


@dataclass(frozen=True, slots=True)
class Entry:
    """Say what stands under one name of a tree."""

    mode: bytes
    """git's mode as it stands in a tree object, such as `100644`."""
    oid: Oid
    """The content: a blob, a tree, or the commit of a nested repository."""

    @property
    def is_tree(self) -> bool:
        """Tell whether this is a directory."""
        return self.mode == MODE_TREE

    @property
    def is_gitlink(self) -> bool:
        """Tell whether this is a nested repository, recorded but not captured."""
        return self.mode == MODE_GITLINK


@dataclass(frozen=True, slots=True)
class Node:
    """Say what stands at one path: a file, a link, a nested repository, or a directory by itself."""

    entry: Entry
    """What a tree holds for it; `DIRECTORY` for a directory, whatever is in it."""
    bits: int | None = None
    """Its permission bits; nothing where it has none, or they were not recorded."""

    @property
    def is_directory(self) -> bool:
        """Tell whether it is a directory."""
        return self.entry == DIRECTORY

    @property
    def is_gitlink(self) -> bool:
        """Tell whether it is a nested repository."""
        return self.entry.is_gitlink

    def is_as(self, other: Node | None) -> bool:
        """Tell whether it is the same, as far as both know."""
        return (
            other is not None
            and self.entry == other.entry
            and (self.bits is None or other.bits is None or self.bits == other.bits)
        )


DIRECTORY = Entry(MODE_TREE, EMPTY_TREE)
"""What stands for a directory by itself."""
