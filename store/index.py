"""The stat cache: a git index that says which content a file had when it was last read.

Owns the file `indexes/<hash>`, in git's own format (version 2, with the root of the `TREE` extension), so that git and
the agent's own manager can read it. A file whose stat data is as recorded need not be read again. What git has no
place for stands in an extension of our own, `HCKP`, which git passes over.
Source: gitformat-index(5); racy entries: git's Documentation/technical/racy-git.txt.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from store.entries import MODE_EXECUTABLE, MODE_FILE, MODE_GITLINK, MODE_LINK, Entry, Oid
from store.files import read_file, to_path, to_paths, write_atomically
from store.pathname import lead_to, parent_of
from store.permissions import Permissions, format_permissions, parse_permissions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_PACK = struct.Struct(">10I")
_SIGNATURE_BYTES = _PACK.size
_FIXED_BYTES = 62
"""Stat data, id and flags that stand before each name."""
_HEADER_BYTES = 12
_END_MARK_BYTES = 32
"""git's `EOIE` extension, which says where the entries end."""
_CTIME_BYTES = 8
_SIZE_AT = slice(36, 40)
_MODE_AT = slice(24, 28)
_MODES = {0o100644: MODE_FILE, 0o100755: MODE_EXECUTABLE, 0o120000: MODE_LINK, 0o160000: MODE_GITLINK}
_TICK_NS = 20_000_000
"""File times advance in steps of the kernel's timer, at most 10 ms."""
_SECOND_NS = 1_000_000_000
_COARSE_NS = 2 * _SECOND_NS
"""File systems without fractions of a second advance in steps of up to 2 s."""
_LOW = 0xFFFFFFFF

Signature = bytes
"""The stat data of one file as it stands in an index entry, 40 bytes."""


@dataclass(frozen=True, slots=True)
class Beside:
    """Hold what git's index has no place for; all of it stands in an extension of our own."""

    digest: str = ""
    """What decided which files count; empty in an index of another program."""
    left_out: Mapping[bytes, str] = field(default_factory=dict)
    """What was not captured, and why."""
    permissions: Permissions = field(default_factory=Permissions)
    """The permission bits of the entries and the directories."""
    empty_directories: frozenset[bytes] = frozenset()
    """Directories in which nothing counts."""
    rule_files: Mapping[bytes, str] = field(default_factory=dict)
    """By path of each `.gitignore` that counted: what its stat data was."""
    linked: frozenset[bytes] = frozenset()
    """Files with more than one name."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Hold what an index says as a whole."""

    tree: Oid
    """The tree that the entries make up."""
    file_count: int
    """How many entries there are."""
    beside: Beside = field(default_factory=Beside)
    directories: Sequence[bytes] = ()
    """Every directory that holds an entry, itself or below."""


@dataclass(slots=True)
class StatCache:
    """Hold what each file of a project had when it was last read."""

    tree: Oid
    """The tree that the entries make up."""
    entries: dict[bytes, tuple[Signature, Oid]] = field(default_factory=dict)
    """By path: the stat data and the content that went with it."""
    beside: Beside = field(default_factory=Beside)

    def entry(self, path: bytes) -> Entry | None:
        """Return what the tree has at a path."""
        known = self.entries.get(path)
        if known is None:
            return None
        return Entry(_MODES[int.from_bytes(known[0][_MODE_AT], "big")], known[1])


def sign(status: os.stat_result, mode: bytes) -> Signature:
    """Return the stat data of a file as an index holds it."""
    ctime_s, ctime_ns = divmod(status.st_ctime_ns, 1_000_000_000)
    mtime_s, mtime_ns = divmod(status.st_mtime_ns, 1_000_000_000)
    return _PACK.pack(
        ctime_s & _LOW, ctime_ns, mtime_s & _LOW, mtime_ns, status.st_dev & _LOW, status.st_ino & _LOW,
        int(mode, 8), status.st_uid & _LOW, status.st_gid & _LOW, status.st_size & _LOW,
    )  # fmt: skip


def mode_of(status: os.stat_result) -> bytes | None:
    """Return git's mode for a file or link, nothing for what is neither."""
    if stat.S_ISREG(status.st_mode):
        return MODE_EXECUTABLE if status.st_mode & 0o100 else MODE_FILE
    return MODE_LINK if stat.S_ISLNK(status.st_mode) else None


def is_racy(status: os.stat_result, read_after_ns: int) -> bool:
    """Tell whether a file may change after it was read without its times showing it.

    Args:
        status: The file's stat data.
        read_after_ns: A moment before the file was read, nanoseconds since the epoch.
    """
    newest_ns = max(status.st_mtime_ns, status.st_ctime_ns)
    step_ns = _COARSE_NS if newest_ns % _SECOND_NS == 0 else _TICK_NS
    return newest_ns >= read_after_ns - step_ns


def sign_rules(path: bytes, read_after_ns: int = 0) -> str:
    """Return what the stat data of a `.gitignore` is, as text.

    Args:
        path: The file.
        read_after_ns: A moment before it was read; what may have changed since gets the stat data that no file has.
    """
    try:
        status = os.lstat(path)
    except OSError:
        return ""
    if read_after_ns and is_racy(status, read_after_ns):
        return "racy"
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


def is_racy_to_git(status: os.stat_result, read_after_ns: int) -> bool:
    """Tell the same of git, which as commonly built compares whole seconds."""
    newest_ns = max(status.st_mtime_ns, status.st_ctime_ns)
    return newest_ns // _SECOND_NS >= (read_after_ns - _TICK_NS) // _SECOND_NS or is_racy(status, read_after_ns)


def smudge(signature: Signature) -> Signature:
    """Return stat data that no file has, so that a racy file is looked at again next time.

    git does the same with the size alone; but an empty file has that size, and its permission bits may change.
    """
    return bytes(_CTIME_BYTES) + signature[_CTIME_BYTES : _SIZE_AT.start] + b"\0\0\0\0"


def load_summary(path: str) -> Summary | None:
    """Return what an index says as a whole, at a cost that does not grow with the number of its entries but for I/O.

    Returns:
        Nothing when there is none, or none that can be used.
    """
    raw = _read_valid(path)
    if raw is None:
        return None
    end = len(raw) - 20
    mark = end - _END_MARK_BYTES
    if mark < _HEADER_BYTES or raw[mark : mark + 4] != b"EOIE":
        return None
    extensions = _read_extensions(raw, int.from_bytes(raw[mark + 8 : mark + 12], "big"))
    tree = _find_root_tree(extensions)
    if tree is None:
        return None
    beside, directories = _parse_note(extensions.get(b"HCKP", b""))
    return Summary(tree, int.from_bytes(raw[8:12], "big"), beside, directories)


def load_index(path: str) -> StatCache | None:
    """Return the stat cache in a file; nothing when there is none, or none that can be used.

    A cache is only ever a shortcut, so one that is damaged, or of a kind we don't know, is as good as none.
    """
    raw = _read_valid(path)
    if raw is None:
        return None
    entries: dict[bytes, tuple[Signature, Oid]] = {}
    position = _HEADER_BYTES
    try:
        for _ in range(int.from_bytes(raw[8:12], "big")):
            end = raw.index(b"\0", position + _FIXED_BYTES)
            header = raw[position : position + _FIXED_BYTES]
            if int.from_bytes(header[_MODE_AT], "big") not in _MODES or header[60] & 0x30:
                return None
            entries[raw[position + _FIXED_BYTES : end]] = (header[:_SIGNATURE_BYTES], Oid(header[40:60]))
            position += (end - position + 8) & ~7
    except ValueError:
        return None
    extensions = _read_extensions(raw, position)
    tree = _find_root_tree(extensions)
    return None if tree is None else StatCache(tree, entries, _parse_note(extensions.get(b"HCKP", b""))[0])


def save_index(path: str, cache: StatCache) -> None:
    """Replace the stat cache in a file."""
    chunks = [struct.pack(">4sII", b"DIRC", 2, len(cache.entries))]
    for name, (signature, oid) in sorted(cache.entries.items()):
        length = _FIXED_BYTES + len(name)
        chunks.append(signature + oid + min(len(name), 0xFFF).to_bytes(2, "big") + name + bytes(8 - length % 8))
    entries = b"".join(chunks)
    tree = _format_extension(b"TREE", b"\0%d 0\n" % len(cache.entries) + cache.tree)
    note = _format_extension(b"HCKP", _format_note(cache))
    headers = hashlib.sha1(tree[:8] + note[:8], usedforsecurity=False).digest()
    mark = _format_extension(b"EOIE", len(entries).to_bytes(4, "big") + headers)
    body = entries + tree + note + mark
    write_atomically(path, body + hashlib.sha1(body, usedforsecurity=False).digest(), flush=False)


def _read_valid(path: str) -> bytes | None:
    """Return the raw index in a file, if it is whole and of the version that we know."""
    raw = read_file(path)
    if raw is None or len(raw) < _HEADER_BYTES + 20 or raw[:8] != b"DIRC\0\0\0\x02":
        return None
    return raw if hashlib.sha1(raw[:-20], usedforsecurity=False).digest() == raw[-20:] else None


def _format_extension(name: bytes, content: bytes) -> bytes:
    return name + len(content).to_bytes(4, "big") + content


def _read_extensions(raw: bytes, position: int) -> dict[bytes, bytes]:
    """Return the extensions behind the entries, by name."""
    found, end = {}, len(raw) - 20
    while position + 8 <= end:
        name, size = struct.unpack_from(">4sI", raw, position)
        found[name] = raw[position + 8 : position + 8 + size]
        position += 8 + size
    return found


def _find_root_tree(extensions: Mapping[bytes, bytes]) -> Oid | None:
    """Return the root's id in the `TREE` extension; nothing when git marked it invalid or there is none."""
    counts, _, rest = extensions.get(b"TREE", b"")[1:].partition(b"\n")
    return Oid(rest[:20]) if len(rest) >= 20 and not counts.startswith(b"-") else None


def _format_note(cache: StatCache) -> bytes:
    beside = cache.beside
    raw = {
        "v": 2,
        "digest": beside.digest,
        "left_out": {os.fsdecode(path): reason for path, reason in beside.left_out.items()},
        "modes": format_permissions(beside.permissions),
        "empty_dirs": [os.fsdecode(path) for path in sorted(beside.empty_directories)],
        "linked": [os.fsdecode(path) for path in sorted(beside.linked)],
        "rule_files": {os.fsdecode(path): signature for path, signature in beside.rule_files.items()},
        "directories": [os.fsdecode(path) for path in sorted(list_directories(cache.entries))],
    }
    return json.dumps(raw, separators=(",", ":")).encode()


def list_directories(paths: Iterable[bytes]) -> frozenset[bytes]:
    """Return every directory above some paths, the project itself excepted."""
    return lead_to(frozenset(parent_of(path) for path in paths))


def _parse_note(content: bytes) -> tuple[Beside, Sequence[bytes]]:
    """Return what our extension says, and its list of directories.

    One that can't be understood says nothing; its digest is empty then, so that everything is looked at.
    """
    try:
        raw = json.loads(content or b"{}")
    except (ValueError, RecursionError):
        return Beside(), ()
    if not isinstance(raw, dict):
        return Beside(), ()
    left_out, rule_files = _parse_texts(raw.get("left_out")), _parse_texts(raw.get("rule_files"))
    permissions, empty = parse_permissions(raw.get("modes")), to_paths(raw.get("empty_dirs"))
    linked, directories = to_paths(raw.get("linked")), to_paths(raw.get("directories"))
    if left_out is None or rule_files is None or permissions is None or empty is None:
        return Beside(), ()
    if linked is None or directories is None:
        return Beside(), ()
    return Beside(str(raw.get("digest", "")), left_out, permissions, empty, rule_files, linked), sorted(directories)


def _parse_texts(raw: object) -> dict[bytes, str] | None:
    """Return the texts that JSON has for some paths."""
    if not isinstance(raw, dict):
        return None
    found = {path: text for name, text in raw.items() if (path := to_path(name)) is not None and isinstance(text, str)}
    return found if len(found) == len(raw) else None


def entries_of(tree: Mapping[bytes, Entry]) -> dict[bytes, tuple[Signature, Oid]]:
    """Return cache entries that match no file, for content whose stat data is not known."""
    return {
        path: (bytes(24) + int(entry.mode, 8).to_bytes(4, "big") + bytes(12), entry.oid) for path, entry in tree.items()
    }
