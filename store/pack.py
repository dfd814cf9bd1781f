"""Many objects in one pack: what a first checkpoint writes instead of tens of thousands of small files.

Owns the pack and its index on disk. The pack has no deltas; the next gc finds those. Until `finish` nothing of it is
visible to anyone, and what a killed process leaves has git's own name for such debris.
Source: gitformat-pack(5), versions 2 of the pack and of its index.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
import tempfile
import threading
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from isal import isal_zlib

from store.errors import PackFailedError

if TYPE_CHECKING:
    from types import TracebackType

TREE = 2
BLOB = 3
_KIND_NAMES = {TREE: b"tree", BLOB: b"blob"}
_LEVEL = 1
PACKED_FILES = 200
"""From so many files on, one pack costs less than a file for each object."""
_LARGE_OFFSET = 0x80000000
_BUFFER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Packed:
    """Hold one object as it stands in a pack."""

    oid: bytes
    data: bytes
    """Its header, and its content compressed."""
    checksum: int
    """The CRC-32 of the data."""


def pack_object(kind: int, content: bytes) -> Packed:
    """Make an object ready for a pack: the part of the work that several processes can share."""
    return _compress(kind, content, hash_object(kind, content))


def hash_object(kind: int, content: bytes) -> bytes:
    """Return the id that an object has."""
    digest = hashlib.sha1(b"%s %d\0" % (_KIND_NAMES[kind], len(content)), usedforsecurity=False)
    digest.update(content)
    return digest.digest()


def _compress(kind: int, content: bytes, oid: bytes) -> Packed:
    data = _format_header(kind, len(content)) + isal_zlib.compress(content, _LEVEL)
    return Packed(oid, data, zlib.crc32(data))


class PackWriter:
    """Write objects into one pack; `add` may be called by several threads at once.

    Leaving the `with` block without an error makes the pack part of the store; with one, nothing of it remains.
    """

    def __init__(self, store: str) -> None:
        self._directory = os.path.join(store, "objects", "pack")
        self._guard = threading.Lock()
        self._entries: dict[bytes, tuple[int, int]] = {}
        self._is_broken = False
        self._index_path = ""
        descriptor, self._path = tempfile.mkstemp(prefix="tmp_pack_", dir=self._directory)
        self._file = os.fdopen(descriptor, "wb+", buffering=_BUFFER_BYTES)
        self._position = self._file.write(struct.pack(">4sII", b"PACK", 2, 0))

    def __enter__(self) -> PackWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is None and self._is_broken:
                raise PackFailedError("The pack can't be written.")
            if error is None and self._entries:
                self._finish()
        except OSError as failed:
            raise PackFailedError(f"The pack can't be written: {failed.strerror}.") from failed
        finally:
            with contextlib.suppress(OSError):  # closing flushes what is not going to be used
                self._file.close()
            for debris in (self._path, self._index_path):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(debris)

    def has(self, oid: bytes) -> bool:
        """Tell whether an object is in the pack."""
        return oid in self._entries

    def add(self, kind: int, content: bytes) -> bytes:
        """Put an object into the pack, unless it is there, and return its id.

        Args:
            kind: `TREE` or `BLOB`.
            content: The object without its header.
        """
        oid = hash_object(kind, content)
        if oid not in self._entries:
            self.add_packed(_compress(kind, content, oid))
        return oid

    def add_packed(self, packed: Packed) -> None:
        """Put an object into the pack that was made ready elsewhere, unless it is there."""
        with self._guard:
            if packed.oid not in self._entries:
                self._append(packed.data)
                self._entries[packed.oid] = (self._position - len(packed.data), packed.checksum)

    def _append(self, data: bytes) -> None:
        """Write to the end of the pack. After a failure nobody knows where that is, so all further writes fail."""
        if self._is_broken:
            raise PackFailedError("The pack can't be written.")
        try:
            self._file.write(data)
        except OSError as error:
            self._is_broken = True
            raise PackFailedError(f"The pack can't be written: {error.strerror}.") from error
        self._position += len(data)

    def _finish(self) -> None:
        """Complete the pack, write its index, and give both their names: the index last, as it makes them visible."""
        self._file.flush()
        self._file.seek(8)
        self._file.write(struct.pack(">I", len(self._entries)))
        self._file.flush()
        self._file.seek(0)
        checksum = self._hash_whole()
        self._file.seek(0, os.SEEK_END)
        self._file.write(checksum)
        self._file.flush()
        os.fsync(self._file.fileno())
        os.fchmod(self._file.fileno(), 0o444)
        name = os.path.join(self._directory, f"pack-{checksum.hex()}")
        descriptor, self._index_path = tempfile.mkstemp(prefix="tmp_idx_", dir=self._directory)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_format_index(self._entries, checksum))
            file.flush()
            os.fsync(descriptor)
            os.fchmod(descriptor, 0o444)
        os.rename(self._path, f"{name}.pack")
        os.rename(self._index_path, f"{name}.idx")

    def _hash_whole(self) -> bytes:
        digest = hashlib.sha1(usedforsecurity=False)
        while chunk := self._file.read(_BUFFER_BYTES):
            digest.update(chunk)
        return digest.digest()


def _format_header(kind: int, size_bytes: int) -> bytes:
    """Return an object's header in a pack: its kind and size, seven bits to a byte after the first four."""
    first, rest = kind << 4 | size_bytes & 0x0F, size_bytes >> 4
    header = bytearray()
    while rest:
        header.append(first | 0x80)
        first, rest = rest & 0x7F, rest >> 7
    header.append(first)
    return bytes(header)


def _format_index(entries: dict[bytes, tuple[int, int]], pack_checksum: bytes) -> bytes:
    """Return the index of a pack: every id in order, and where each object begins."""
    order = sorted(entries)
    fanout = [0] * 256
    for oid in order:
        fanout[oid[0]] += 1
    total = 0
    for first, count in enumerate(fanout):
        total += count
        fanout[first] = total
    offsets = [entries[oid][0] for oid in order]
    large = [offset for offset in offsets if offset >= _LARGE_OFFSET]
    places = iter(range(len(large)))
    small = [offset if offset < _LARGE_OFFSET else _LARGE_OFFSET | next(places) for offset in offsets]
    body = b"".join(
        [
            b"\xfftOc\0\0\0\x02",
            struct.pack(">256I", *fanout),
            *order,
            struct.pack(f">{len(order)}I", *(entries[oid][1] for oid in order)),
            struct.pack(f">{len(order)}I", *small),
            struct.pack(f">{len(large)}Q", *large),
            pack_checksum,
        ]
    )
    return body + hashlib.sha1(body, usedforsecurity=False).digest()
