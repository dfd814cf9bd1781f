"""What the store's objects take on disk: packs with what is in each, and objects in files of their own.

Owns reading pack indexes and listing loose objects. What is to stay is decided elsewhere.
"""

from __future__ import annotations

import os
import struct
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

from store.errors import CorruptFileError
from store.files import read_file

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEX = frozenset("0123456789abcdef")
_MAGIC = b"\xfftOc\0\0\0\x02"
_FANOUT_END = 8 + 4 * 256
_LARGE_OFFSET = 1 << 31
_INDEX_ENTRY_BYTES = 28
"""An id, a checksum and an offset. Source: gitformat-pack(5), "Version 2 pack-*.idx files"."""
_PACK_TRAILER_BYTES = 20
PACK_PARTS = (".idx", ".rev", ".bitmap", ".mtimes", ".keep", ".promisor", ".pack")
"""Everything that belongs to a pack; the index goes first, as it makes the others visible."""


@dataclass(frozen=True, slots=True)
class Pack:
    """Hold what one pack contains."""

    stem: str
    """Its path without the ending."""
    sizes: dict[bytes, int]
    """How many bytes each object takes in it and in its index."""


def list_packs(store: str) -> list[Pack]:
    """Return every pack that has an index.

    Raises:
        CorruptFileError: An index can't be understood, so nothing may be removed.
    """
    directory = os.path.join(store, "objects", "pack")
    names = set(os.listdir(directory)) if os.path.isdir(directory) else set()
    stems = sorted(name[:-4] for name in names if name.startswith("pack-") and name.endswith(".idx"))
    return [_read_pack(os.path.join(directory, stem)) for stem in stems if stem + ".pack" in names]


def list_loose(store: str) -> dict[bytes, int]:
    """Return the objects that have files of their own, each with its size in bytes."""
    found: dict[bytes, int] = {}
    for folder in _scan(os.path.join(store, "objects")):
        if len(folder.name) != 2 or not _HEX.issuperset(folder.name):
            continue
        for entry in _scan(folder.path):
            if len(entry.name) == 38 and _HEX.issuperset(entry.name):
                try:
                    found[bytes.fromhex(folder.name + entry.name)] = entry.stat(follow_symlinks=False).st_size
                except FileNotFoundError:
                    continue
    return found


def loose_path(store: str, oid: bytes) -> str:
    """Return the file of a loose object."""
    digits = oid.hex()
    return os.path.join(store, "objects", digits[:2], digits[2:])


def _scan(directory: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            yield from entries
    except (FileNotFoundError, NotADirectoryError):
        return


def _read_pack(stem: str) -> Pack:
    raw, end = read_file(stem + ".idx") or b"", os.path.getsize(stem + ".pack") - _PACK_TRAILER_BYTES
    if not raw.startswith(_MAGIC) or len(raw) < _FANOUT_END + 40:
        raise CorruptFileError(f"{stem}.idx can't be understood, so the store is left as it is.")
    (count,) = struct.unpack_from(">I", raw, _FANOUT_END - 4)
    if len(raw) < _FANOUT_END + count * _INDEX_ENTRY_BYTES + 40:
        raise CorruptFileError(f"{stem}.idx can't be understood, so the store is left as it is.")
    offsets = array("Q", _read_offsets(raw, count))
    order = sorted(range(count), key=offsets.__getitem__)
    ends = [*(offsets[place] for place in order[1:]), end]
    sizes = {
        raw[_FANOUT_END + 20 * place : _FANOUT_END + 20 * place + 20]: after - offsets[place] + _INDEX_ENTRY_BYTES
        for place, after in zip(order, ends, strict=False)
    }
    return Pack(stem, sizes)


def _read_offsets(raw: bytes, count: int) -> Iterator[int]:
    small_at = _FANOUT_END + 24 * count
    large_at = small_at + 4 * count
    for offset in struct.unpack_from(f">{count}I", raw, small_at):
        if offset < _LARGE_OFFSET:
            yield offset
        else:
            yield struct.unpack_from(">Q", raw, large_at + 8 * (offset - _LARGE_OFFSET))[0]
