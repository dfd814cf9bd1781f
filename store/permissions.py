"""Permission bits: what the two modes of a git tree can't hold.

Owns which bits are usual for a path, so that only unusual ones need a place. One umask makes a directory and what is
in it, so the usual bits are those of the directory above: 0755 makes files of 0644, 0700 makes files of 0600.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from store.entries import MODE_EXECUTABLE, MODE_FILE, MODE_TREE
from store.files import to_path
from store.pathname import list_above, parent_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_READ_WRITE = 0o666
_USUAL_ROOT = 0o755


@dataclass(frozen=True, slots=True)
class Permissions:
    """Say which permission bits every file and directory of a project has, the set-id bits and the sticky bit too."""

    root: int = _USUAL_ROOT
    """What the bits of the topmost names are compared with: those that the project's own directory once had."""
    unusual: Mapping[bytes, int] = field(default_factory=lambda: MappingProxyType({}))
    """The bits of each path that has others than the usual ones."""

    def find(self, path: bytes, mode: bytes) -> int | None:
        """Return the bits of what stands at a path; nothing for a link or a nested repository, which have none.

        Args:
            path: Relative to the project.
            mode: git's mode of it.
        """
        if mode == MODE_TREE:
            return self.of_directory(path)
        if mode not in (MODE_FILE, MODE_EXECUTABLE):
            return None
        bits = self.unusual.get(path)
        return usual_bits(self.of_directory(parent_of(path)), mode) if bits is None else bits

    def of_directory(self, path: bytes) -> int:
        """Return the bits of a directory."""
        while path:
            bits = self.unusual.get(path)
            if bits is not None:
                return bits
            path = parent_of(path)
        return self.root

    def update(self, found: Mapping[bytes, int], gone: Iterable[bytes] = ()) -> Permissions:
        """Return the bits after some were looked at again.

        Where a directory got other bits, all that is in it has to be among what was looked at.

        Args:
            found: The mode of each file and directory looked at, as `lstat` gives it.
            gone: Paths that are not recorded any more.
        """
        unusual = dict(self.unusual)
        for path in gone:
            unusual.pop(path, None)
        after, looked_at = Permissions(self.root, unusual), dict[bytes, int]()
        for path, found_mode in sorted(found.items()):  # a directory comes before what is in it
            bits, parent = stat.S_IMODE(found_mode), parent_of(path)
            above = looked_at[parent] if parent in looked_at else after.of_directory(parent)
            if stat.S_ISDIR(found_mode):
                usual, looked_at[path] = above, bits
            else:
                usual = usual_bits(above, _mode_by(bits))
            if bits != usual:
                unusual[path] = bits
            elif path in unusual:
                del unusual[path]
        return Permissions(self.root, MappingProxyType(unusual))

    def forget_below(self, directories: Iterable[bytes]) -> Permissions:
        """Return the bits without those of some directories and of everything in them."""
        outermost = frozenset(directories)
        if not outermost or not self.unusual:
            return self
        kept = {path: bits for path, bits in self.unusual.items() if not _lies_in(path, outermost)}
        return Permissions(self.root, MappingProxyType(kept))

    def list_differing(self, other: Permissions) -> set[bytes]:
        """Return the topmost paths at and below which bits may differ; the project itself stands for all of it."""
        if self.root != other.root:
            return {b""}
        paths = self.unusual.keys() | other.unusual.keys()
        return {path for path in paths if self.unusual.get(path) != other.unusual.get(path)}


def usual_bits(above: int, mode: bytes) -> int:
    """Return the bits that a file has when it was made under the same umask as the directory above it.

    Args:
        above: The directory's bits.
        mode: git's mode of the file.
    """
    return above & 0o777 | stat.S_IXUSR if mode == MODE_EXECUTABLE else above & _READ_WRITE


def _mode_by(bits: int) -> bytes:
    return MODE_EXECUTABLE if bits & stat.S_IXUSR else MODE_FILE


def _lies_in(path: bytes, directories: frozenset[bytes]) -> bool:
    return b"" in directories or path in directories or any(above in directories for above in list_above(path))


def parse_permissions(raw: object) -> Permissions | None:
    """Return the permission bits that JSON tells of."""
    if not isinstance(raw, dict) or (root := _parse_bits(raw.get(""))) is None:
        return None
    found = {to_path(name): _parse_bits(bits) for name, bits in raw.items() if name}
    unusual = {path: bits for path, bits in found.items() if path is not None and bits is not None}
    return Permissions(root, unusual) if len(unusual) == len(raw) - 1 else None


def format_permissions(permissions: Permissions) -> Mapping[str, str]:
    """Return permission bits as JSON, the project's own under the empty name."""
    modes = {b"": permissions.root} | dict(permissions.unusual)
    return {os.fsdecode(path): f"{bits:04o}" for path, bits in sorted(modes.items())}


def _parse_bits(value: object) -> int | None:
    """Return permission bits written in octal digits."""
    if not isinstance(value, str) or not 1 <= len(value) <= 5 or not set(value) <= set("01234567"):
        return None
    bits = int(value, 8)
    return bits if bits <= 0o7777 else None
