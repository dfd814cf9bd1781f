"""Repositories inside a project: which commit each one is at, found out without touching or trusting it.

Owns the reading of another repository's files. What becomes of such a directory belongs to `store.capture`.
Source: gitrepository-layout(5).
"""

from __future__ import annotations

import os

from store.entries import EMPTY_TREE, Oid
from store.files import open_unfollowed

_NO_COMMIT = EMPTY_TREE
"""What stands for the commit of a nested repository that has none."""


def is_part_of_repository(path: bytes) -> bool:
    """Tell whether a path of a project is a repository's `.git` or lies in one, which is never ours to touch."""
    return b".git" in path.split(b"/")


def is_nested_repository(directory: bytes) -> bool:
    """Tell whether a directory inside a project is a nested repository; a `.git` in it alone does not make it one."""
    return read_nested_head(directory) is not None


def read_nested_head(directory: bytes) -> Oid | None:
    """Return the commit that a nested repository, submodule or linked worktree is at; nothing when it is none.

    Only reads; a repository without a commit is given a fixed id.
    """
    git = os.path.join(directory, b".git")
    try:
        if os.path.isfile(git) and not os.path.islink(git):
            pointer = _read_start(git)
            if not pointer.startswith(b"gitdir: "):
                return None
            git = os.path.join(directory, pointer[len(b"gitdir: ") :].rstrip(b"\r\n"))
            if not os.path.isdir(git):
                return _NO_COMMIT
        head = _read_start(os.path.join(git, b"HEAD")).strip()
    except OSError:
        return None
    for _ in range(5):
        if not head.startswith(b"ref: "):
            return _parse_oid(head)
        head = _resolve_ref(git, head[len(b"ref: ") :].strip())
    return _NO_COMMIT


def _resolve_ref(git: bytes, name: bytes) -> bytes:
    """Return what a ref of another repository holds, without trusting anything in it."""
    try:
        common = os.path.join(git, _read_start(os.path.join(git, b"commondir")).strip())
    except OSError:
        common = git
    if b".." in name.split(b"/") or name.startswith(b"/") or b"\0" in name:
        return b""
    try:
        return _read_start(os.path.join(common, name)).strip()
    except OSError:
        pass
    try:
        with open(os.path.join(common, b"packed-refs"), "rb") as packed:
            return next((line[:40] for line in packed if line[41:].rstrip() == name), b"")
    except OSError:
        return b""


def _parse_oid(text: bytes) -> Oid:
    try:
        oid = bytes.fromhex(text.decode("ascii"))
    except ValueError:
        return _NO_COMMIT
    return Oid(oid) if len(oid) == 20 and any(oid) else _NO_COMMIT


def _read_start(path: bytes) -> bytes:
    descriptor = open_unfollowed(path)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)
