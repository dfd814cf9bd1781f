"""The only door to pygit2: git objects and refs in process, without starting git.

Owns reading and writing blobs, trees, commits and refs of the bare store. Trees are written as raw objects, since
libgit2's builder refuses names that are not UTF-8. A store is opened anew for each piece of work: that costs less
than 0.1 ms, always sees what other processes packed or trimmed, and is safe with threads.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pygit2
from pygit2.enums import ConfigLevel, ObjectType

from store.entries import EMPTY_TREE, MODE_TREE, Entry, Oid
from store.errors import CheckpointNotFoundError, GitFailedError, ObjectMissingError
from store.files import flush_file, flush_file_system
from store.pack import BLOB, TREE, PackWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

for _level in (ConfigLevel.PROGRAMDATA, ConfigLevel.SYSTEM, ConfigLevel.XDG, ConfigLevel.GLOBAL):
    pygit2.settings.search_path[_level] = os.devnull


Tree = dict[bytes, Entry]
"""The entries of one directory by name."""


@dataclass(frozen=True, slots=True)
class Commit:
    """Hold one commit of a history."""

    oid: Oid
    tree: Oid
    parent: Oid | None
    """The commit before it, whether or not the history was trimmed in between."""
    seconds: int
    """When it was made, since the epoch."""
    offset_min: int
    """The zone it was made in, minutes east of UTC."""
    subject: str
    """The first line."""
    note: dict[str, object] = field(default_factory=dict)
    """The JSON line below it; empty where there is none."""


_FLUSHED_ONE_BY_ONE = 200
"""More objects are flushed with everything else on their file system."""
_PROBED_BYTES = 16_384
"""What an object, or the change of a ref, takes besides its content: directories, and whole blocks."""
_KEPT_COMMITS = 4096
_parsed_commits: dict[Oid, Commit] = {}
"""Commits by id; an id stands for the same commit in every store."""


def parse_tree(raw: bytes) -> Tree:
    """Return the entries of a raw tree object. Source: gitformat-pack and git's tree.c, `mode SP name NUL id`."""
    tree: Tree = {}
    position, end = 0, len(raw)
    while position < end:
        space = raw.index(b" ", position)
        nul = raw.index(b"\0", space)
        tree[raw[space + 1 : nul]] = Entry(raw[position:space], Oid(raw[nul + 1 : nul + 21]))
        position = nul + 21
    return tree


def format_tree(tree: Tree) -> bytes:
    """Return the raw tree object of some entries, in git's order: a directory sorts as if its name ended in `/`."""
    order = sorted((name + b"/" if entry.mode == MODE_TREE else name, name, entry) for name, entry in tree.items())
    return b"".join([b"%s %s\0%s" % (entry.mode, name, entry.oid) for _, name, entry in order])


class ObjectStore:
    """Read and write the objects and refs of one bare store."""

    def __init__(self, path: str) -> None:
        try:
            self._repository = pygit2.Repository(path)
        except pygit2.GitError as error:
            raise GitFailedError(
                f"The store {path} can't be opened: {error}.", hint="Run: hermes-checkpoints status"
            ) from error
        self._odb = self._repository.odb
        self._path = path
        self._trees: dict[Oid, Tree] = {}
        self._pack: PackWriter | None = None
        self._written: set[bytes] = set()

    @contextmanager
    def in_one_pack(self) -> Iterator[PackWriter]:
        """Write every blob and tree of a `with` block into one pack, which costs less than a file for each.

        Several threads may write blobs at once. Nothing is in the store before the block ends, nor when it fails.
        """
        with PackWriter(self._path) as pack:
            self._pack = pack
            try:
                yield pack
            finally:
                self._pack = None

    def has(self, oid: Oid) -> bool:
        """Tell whether an object is there."""
        return self._odb.exists(oid.hex())

    def read_blob(self, oid: Oid) -> bytes:
        """Return a blob's content."""
        return self._read(oid, ObjectType.BLOB)

    def write_blob(self, content: bytes) -> Oid:
        """Store content and return its id; content that is there already is not written again."""
        if self._pack is not None:
            return Oid(self._pack.add(BLOB, content))
        return Oid(self._write(ObjectType.BLOB, content))

    def read_tree(self, oid: Oid) -> Tree:
        """Return the entries of a tree; it is parsed once, and not to be changed."""
        if oid == EMPTY_TREE:
            return {}
        known = self._trees.get(oid)
        if known is None:
            known = self._trees[oid] = parse_tree(self._read(oid, ObjectType.TREE))
        return known

    def write_tree(self, tree: Tree) -> Oid:
        """Store a tree and return its id; the tree is not to be changed any more."""
        raw = format_tree(tree)
        oid = Oid(self._pack.add(TREE, raw) if self._pack is not None else self._write(ObjectType.TREE, raw))
        self._trees[oid] = tree
        return oid

    def read_commit(self, oid: Oid) -> Commit:
        """Return a commit. Parsing one costs more than finding out that it is still there, so it is done once."""
        known = _parsed_commits.get(oid)
        if known is not None and self.has(oid):
            return known
        commit = parse_commit(oid, self._read(oid, ObjectType.COMMIT))
        while len(_parsed_commits) >= _KEPT_COMMITS:
            _parsed_commits.pop(next(iter(_parsed_commits)), None)
        _parsed_commits[oid] = commit
        return commit

    def write_commit(self, commit: Commit) -> Oid:
        """Store a commit, whatever its `oid` field says, and return its id."""
        return Oid(self._write(ObjectType.COMMIT, _format_commit(commit)))

    def read_ref(self, name: str) -> Oid | None:
        """Return what a ref points at, or nothing when there is no such ref."""
        try:
            reference = self._repository.references.get(name)
            return None if reference is None else Oid(bytes.fromhex(str(reference.target)))
        except (pygit2.GitError, ValueError, OSError) as error:
            raise GitFailedError(f"The ref {name} of the store is damaged: {error}.") from error

    def move_ref(self, name: str, *, old: Oid | None, new: Oid) -> None:
        """Point a ref at a new object, if it still points at the old one.

        A lock file that a killed process left behind is removed.

        Raises:
            GitFailedError: Somebody else moved it meanwhile, or it can't be written.
        """
        try:
            self._move_ref(name, old=old, new=new)
        except GitFailedError:
            from store.stale import remove_stale_lock  # noqa: PLC0415 - psutil is slow to import, and seldom needed

            if not remove_stale_lock(self._path, os.path.join(self._path, f"{name}.lock")):
                raise
            self._move_ref(name, old=old, new=new)

    def _move_ref(self, name: str, *, old: Oid | None, new: Oid) -> None:
        try:
            if old is None:
                self._repository.references.create(name, new.hex(), force=False)
                return
            reference = self._repository.references[name]
            if str(reference.target) != old.hex():
                raise GitFailedError(f"{name} was moved by another program.")
            reference.set_target(new.hex())
        except (pygit2.GitError, KeyError, ValueError, OSError) as error:
            self._refuse_full_disk(0)
            raise GitFailedError(f"{name} could not be moved: {error}.") from error

    def delete_ref(self, name: str) -> None:
        """Remove a ref, if it is there.

        Raises:
            GitFailedError: It can't be removed.
        """
        try:
            if name in self._repository.references:
                self._repository.references.delete(name)
        except (pygit2.GitError, KeyError, OSError) as error:
            raise GitFailedError(f"{name} could not be removed: {error}.") from error

    def list_refs(self, prefix: str) -> dict[str, Oid]:
        """Return every ref below a prefix and what it points at; one that is damaged hides no other."""
        found: dict[str, Oid] = {}
        for name in self._repository.references:
            if name.startswith(prefix):
                with suppress(GitFailedError):
                    if (target := self.read_ref(name)) is not None:
                        found[name] = target
        return found

    def read_raw(self, oid: Oid) -> tuple[str, bytes]:
        """Return an object of any kind: `blob`, `tree`, `commit` or `tag`, and its content.

        Raises:
            ObjectMissingError: It is not there, or damaged.
        """
        try:
            kind, content = self._odb.read(oid.hex())
        except KeyError:
            raise _missing(oid) from None
        except (pygit2.GitError, ValueError) as error:
            raise ObjectMissingError(f"Object {oid.hex()} of the store can't be read: {error}.") from error
        return ObjectType(kind).name.lower(), bytes(content)

    def _read(self, oid: Oid, expected: ObjectType) -> bytes:
        kind, content = self.read_raw(oid)
        if kind != expected.name.lower():
            raise CheckpointNotFoundError(f"Object {oid.hex()} is not a {expected.name.lower()}.")
        return content

    def _write(self, kind: ObjectType, content: bytes) -> bytes:
        try:
            oid = bytes(self._odb.write(kind, content).raw)
        except pygit2.GitError as error:
            self._refuse_full_disk(len(content))
            raise GitFailedError(f"The store can't be written: {error}.") from error
        self._written.add(oid)
        return oid

    def flush(self) -> None:
        """Wait until what was written here is on disk, and for nothing that others have still to write.

        Packs are flushed when they are finished.
        """
        if len(self._written) > _FLUSHED_ONE_BY_ONE:
            flush_file_system(self._path)
        for oid in self._written if len(self._written) <= _FLUSHED_ONE_BY_ONE else ():
            digits = oid.hex()
            with suppress(FileNotFoundError):  # it stood in a pack before
                flush_file(os.path.join(self._path, "objects", digits[:2], digits[2:]))
        self._written.clear()

    def _refuse_full_disk(self, size_bytes: int) -> None:
        """Find out whether a write failed for want of space: libgit2 may name an older error instead.

        Raises:
            GitFailedError: As much can't be written; the error of the system is its cause.
        """
        try:
            with tempfile.TemporaryFile(dir=self._path) as probe:
                probe.write(bytes(size_bytes + _PROBED_BYTES))
        except OSError as error:
            raise GitFailedError(f"The store can't be written: {error.strerror}.") from error


_IDENTITY = b"Hermes Checkpoint <hermes@local>"
_AUTHOR = re.compile(rb"^author .*> (-?\d+) ([+-])(\d\d)(\d\d)$", re.MULTILINE)


def _format_commit(commit: Commit) -> bytes:
    sign = b"-" if commit.offset_min < 0 else b"+"
    hours, minutes = divmod(abs(commit.offset_min), 60)
    signature = b"%s %d %s%02d%02d" % (_IDENTITY, commit.seconds, sign, hours, minutes)
    lines = [b"tree " + commit.tree.hex().encode()]
    if commit.parent is not None:
        lines.append(b"parent " + commit.parent.hex().encode())
    lines += [b"author " + signature, b"committer " + signature, b"", commit.subject.encode("utf-8", "replace")]
    if commit.note:
        lines += [b"", json.dumps(commit.note, separators=(",", ":")).encode()]
    return b"\n".join(lines) + b"\n"


def parse_commit(oid: Oid, raw: bytes) -> Commit:
    """Return the commit of a raw object. Source: git's Documentation/user-manual.txt, "Commit Object"."""
    head, _, message = raw.partition(b"\n\n")
    fields = [line.split(b" ", 1) for line in head.split(b"\n")]
    tree = next(value for key, value in fields if key == b"tree")
    parent = next((value for key, value in fields if key == b"parent"), None)
    seconds, offset_min = 0, 0
    if found := _AUTHOR.search(head):
        seconds = int(found[1])
        offset_min = (int(found[3]) * 60 + int(found[4])) * (-1 if found[2] == b"-" else 1)
    subject, _, body = message.partition(b"\n")
    return Commit(
        oid=oid,
        tree=Oid(bytes.fromhex(tree.decode())),
        parent=None if parent is None else Oid(bytes.fromhex(parent.decode())),
        seconds=seconds,
        offset_min=offset_min,
        subject=subject.decode("utf-8", "replace"),
        note=_parse_note(body.strip()),
    )


def _parse_note(body: bytes) -> dict[str, object]:
    """Return the JSON line of a commit's body; a commit of another program has none that we know."""
    try:
        note = json.loads(body) if body.startswith(b"{") else {}
    except (ValueError, RecursionError):
        return {}
    return note if isinstance(note, dict) else {}


def _missing(oid: Oid) -> ObjectMissingError:
    return ObjectMissingError(
        f"Object {oid.hex()} is missing from the store.", hint="Another program may have removed it."
    )
