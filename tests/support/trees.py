"""Odd projects for property tests: names, contents, links, attributes and ignore rules that trip tools up."""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import dataclass
from enum import StrEnum, auto
from pathlib import Path

from hypothesis import strategies as st

PLAIN_NAMES = [b"a", b"b", b"sub", b"a.txt", b"b.txt", b"x.o", b"build", b"keep.log"]
ODD_NAMES = [
    b"\xff\xfe", b"new\nline", b"tab\there", b"quote\"'", b" lead", b"trail ", b":(top)x", b"-rf", b"*.txt", b"A",
    b"caf\xc3\xa9", b"cafe\xcc\x81", b"back\\slash", b"a-b", b"a0", b"[x]", b"#h", b"!n", b"~", b"cr\r", b"...",
    b"\x7f", b"\xef\xbb\xbf",
]  # fmt: skip
CONTENTS = [
    b"", b"text\n", b"tent\n", b"a\r\nb\r\n", b"a\r\nb\n", b"\0\x01\xff", b"$Id$\n", b"$Id: 1234 $\n",
    "\xe4\n".encode("utf-16"), b"\xef\xbb\xbfx", b"no end", bytes(range(256)) * 300,
]  # fmt: skip
_TARGETS = [b"nowhere", b"/etc/hostname", b"/nowhere/at all", b"sub", b"a", b"..", b".", b"\xff\n", b"../outside"]
_ATTRIBUTES = [
    b"* text=auto\n", b"* eol=crlf\n", b"* ident\n", b"* filter=x\n", b"*.txt working-tree-encoding=UTF-16\n",
    b"* text eol=crlf ident filter=x diff=x merge=x\n", b"* export-ignore -diff\n[attr]q text\n* q\n",
]  # fmt: skip
_IGNORES = [
    b"*.txt\n", b"/a\n", b"sub/\n", b"b\n!b\n", b"*\n!*/\n!*.txt\n", b"!x.o\n", b"!build/\n!keep.log\n", b"\\ lead\n",
    b"\\#h\n\\!n\n", b"a/**\n", b"\xff*\n",
]  # fmt: skip

names = st.sampled_from(PLAIN_NAMES) | st.sampled_from(PLAIN_NAMES + ODD_NAMES)
paths = st.lists(names, min_size=1, max_size=3).map(b"/".join)
_directories = st.lists(names, max_size=2).map(b"/".join)


@dataclass(frozen=True)
class File:
    """A file to make."""

    content: bytes
    executable: bool = False
    is_private: bool = False
    """Nobody but the user may read it."""

    @property
    def bits(self) -> int:
        """Return its permission bits."""
        bits = 0o755 if self.executable else 0o644
        return bits & 0o700 if self.is_private else bits


@dataclass(frozen=True)
class Link:
    """A symbolic link to make."""

    target: bytes


@dataclass(frozen=True)
class Directory:
    """A directory to make, with nothing in it."""

    is_private: bool = False


Node = File | Link | Directory

nodes: st.SearchStrategy[Node] = (
    st.builds(File, st.sampled_from(CONTENTS), st.booleans(), st.booleans())
    | st.builds(Link, st.sampled_from(_TARGETS))
    | st.builds(Directory, st.booleans())
)


def _in_directory(name: bytes, texts: list[bytes]) -> st.SearchStrategy[dict[bytes, Node]]:
    text = st.lists(st.sampled_from(texts), min_size=1, max_size=2).map(b"".join).map(File)
    return st.dictionaries(_directories.map(lambda directory: os.path.join(directory, name)), text, max_size=2)


projects: st.SearchStrategy[dict[bytes, Node]] = st.builds(
    lambda files, attributes, ignores: ignores | attributes | files,
    st.dictionaries(paths, nodes, min_size=1, max_size=10),
    _in_directory(b".gitattributes", _ATTRIBUTES),
    _in_directory(b".gitignore", _IGNORES),
)


class Act(StrEnum):
    """What a user or an agent does to a project."""

    WRITE = auto()
    WRITE_IN_PLACE = auto()
    """The size, if it can be, and the time stay as they were."""
    DELETE = auto()
    DELETE_DIRECTORY = auto()
    MAKE_EXECUTABLE = auto()
    MAKE_PRIVATE = auto()
    MAKE_DIRECTORY_PRIVATE = auto()
    REPLACE_BY_DIRECTORY = auto()
    REPLACE_DIRECTORY = auto()
    MOVE_DIRECTORY = auto()
    CREATE = auto()


@dataclass(frozen=True)
class Edit:
    """One change."""

    act: Act
    which: int
    """Which of the files or directories that are there."""
    path: bytes
    """Where something new goes."""
    node: Node
    """What it is."""


_ON_DIRECTORIES = (Act.DELETE_DIRECTORY, Act.REPLACE_DIRECTORY, Act.MOVE_DIRECTORY, Act.MAKE_DIRECTORY_PRIVATE)

edits = st.lists(st.builds(Edit, st.sampled_from(list(Act)), st.integers(0, 20), paths, nodes), min_size=1, max_size=6)


@dataclass
class Touched:
    """What a watcher would have seen: paths of which something changed, and directories in which anything may have."""

    paths: set[bytes]
    trees: set[bytes]


def build(root: bytes, project: dict[bytes, Node]) -> None:
    """Make the files of a project; what can't be made beside what is there is passed over."""
    for path, node in project.items():
        make(root, path, node)


def make(root: bytes, path: bytes, node: Node) -> bytes | None:
    """Make one file or link where nothing is, and return the topmost path that is new; nothing when it can't be."""
    full = os.path.join(root, path)
    if os.path.lexists(full):
        return None
    names_above = path.split(b"/")
    new = next(
        (
            above
            for above in (b"/".join(names_above[:count]) for count in range(1, len(names_above) + 1))
            if not os.path.lexists(os.path.join(root, above))
        ),
        path,
    )
    try:
        os.makedirs(os.path.dirname(full), exist_ok=True)
    except OSError:
        return None
    if os.path.realpath(os.path.dirname(full)) != os.path.dirname(full):
        return None
    if isinstance(node, Link):
        os.symlink(node.target, full)
    elif isinstance(node, Directory):
        os.mkdir(full)
        os.chmod(full, 0o700 if node.is_private else 0o755)
    else:
        Path(os.fsdecode(full)).write_bytes(node.content)
        os.chmod(full, node.bits)
    return new


def apply(root: bytes, made: list[Edit]) -> Touched:
    """Make changes, and return what a watcher would have seen of them."""
    touched = Touched(set(), set())
    for edit in made:
        files, directories = _look(root)
        if edit.act is Act.CREATE:
            _note_made(root, edit.path, edit.node, touched)
        elif edit.act in _ON_DIRECTORIES:
            if directories:
                _change_directory(root, directories[edit.which % len(directories)], edit, touched)
        elif files:
            _change_file(root, files[edit.which % len(files)], edit, touched)
    return touched


def _change_directory(root: bytes, path: bytes, edit: Edit, touched: Touched) -> None:
    full, aside = os.path.join(root, path), os.path.join(root, edit.path)
    touched.trees.add(path)
    if edit.act is Act.MAKE_DIRECTORY_PRIVATE:
        os.chmod(full, stat.S_IMODE(os.lstat(full).st_mode) ^ 0o055)
        return
    if edit.act is Act.MOVE_DIRECTORY:
        above = os.path.dirname(aside)
        is_free = not os.path.lexists(aside) and os.path.isdir(above) and os.path.realpath(above) == above
        if is_free and not (aside + b"/").startswith(full + b"/"):
            os.rename(full, aside)
            touched.trees.add(edit.path)
        return
    shutil.rmtree(full)
    if edit.act is Act.REPLACE_DIRECTORY:
        _note_made(root, path, edit.node, touched)


def _change_file(root: bytes, path: bytes, edit: Edit, touched: Touched) -> None:
    full = os.path.join(root, path)
    status = os.lstat(full)
    is_link = stat.S_ISLNK(status.st_mode)
    touched.paths.add(path)
    if edit.act is Act.WRITE_IN_PLACE and not is_link:
        with open(full, "r+b") as file:
            old = file.read()
            file.seek(0)
            file.write(bytes(byte ^ 1 for byte in old) or b"x")
        os.utime(full, ns=(status.st_atime_ns, status.st_mtime_ns))
    elif edit.act is Act.MAKE_EXECUTABLE and not is_link:
        os.chmod(full, stat.S_IMODE(status.st_mode) ^ 0o111)
    elif edit.act is Act.MAKE_PRIVATE and not is_link:
        os.chmod(full, stat.S_IMODE(status.st_mode) ^ 0o044)
    else:
        os.unlink(full)
        if edit.act is Act.REPLACE_BY_DIRECTORY:
            touched.trees.add(path)
            _note_made(root, os.path.join(path, os.path.basename(edit.path)), edit.node, touched)
        elif edit.act is Act.WRITE:
            _note_made(root, path, edit.node, touched)


def _note_made(root: bytes, path: bytes, node: Node, touched: Touched) -> None:
    new = make(root, path, node)
    if new is not None and (new != path or isinstance(node, Directory)):
        touched.trees.add(new)
    touched.paths.add(path)


def _look(root: bytes) -> tuple[list[bytes], list[bytes]]:
    """Return every file and link, and every directory, in order."""
    files: list[bytes] = []
    directories: list[bytes] = []
    for folder, below, found in os.walk(root):
        for name in [*below, *found]:
            full = os.path.join(folder, name)
            is_directory = name in below and not os.path.islink(full)
            (directories if is_directory else files).append(os.path.relpath(full, root))
    return sorted(files), sorted(directories)
