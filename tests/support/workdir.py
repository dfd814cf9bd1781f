"""A project to play with, its own `.git` included."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_GIT_ENVIRONMENT = {
    "PATH": os.defpath + os.pathsep + "/usr/local/bin",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}


def git(directory: Path, *arguments: str, stdin: bytes = b"") -> str:
    """Run real git, as a user would, and return what it prints."""
    done = subprocess.run(
        ["git", *arguments], cwd=directory, env=_GIT_ENVIRONMENT, input=stdin, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode("utf-8", "surrogateescape")


def make_project(directory: Path, files: dict[str, str] | None = None) -> Path:
    """Make a project with files and a git repository of its own, with one commit and one staged file."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in (files or {"a.py": "one\n", "sub/b.py": "two\n", "notes.md": "three\n"}).items():
        write(directory / name, content)
    git(directory, "init", "-q", "-b", "main")
    git(directory, "add", "-A")
    git(directory, "commit", "-q", "-m", "start")
    write(directory / "staged.txt", "staged\n")
    git(directory, "add", "staged.txt")
    return directory


def write(path: Path, content: str | bytes) -> None:
    """Write a file, its directories included."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def photograph(directory: Path, *, with_git: bool = False) -> dict[bytes, tuple[str, bytes]]:
    """Return every file and link below a directory: its kind with the executable bit, and its content."""
    found: dict[bytes, tuple[str, bytes]] = {}
    root = os.fsencode(directory)
    for folder, folders, names in os.walk(root):
        if not with_git and b".git" in folders:
            folders.remove(b".git")
        for name in [*names, *(each for each in folders if os.path.islink(os.path.join(folder, each)))]:
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, root)
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                found[relative] = ("link", os.readlink(path))
            elif stat.S_ISREG(mode):
                with open(path, "rb") as file:
                    found[relative] = ("executable" if mode & 0o100 else "file", file.read())
    return found


def list_permissions(directory: Path) -> dict[bytes, int]:
    """Return the permission bits of every file and directory below a directory, links excepted."""
    root = os.fsencode(directory)
    found: dict[bytes, int] = {}
    for folder, folders, names in os.walk(root):
        for name in [*names, *folders]:
            path = os.path.join(folder, name)
            mode = os.lstat(path).st_mode
            if not stat.S_ISLNK(mode):
                found[os.path.relpath(path, root)] = stat.S_IMODE(mode)
    return found


def fingerprint_git(directory: Path) -> str:
    """Return a digest over every byte of a project's own `.git`."""
    digest = hashlib.sha256()
    for path, (kind, content) in sorted(photograph(directory / ".git", with_git=True).items()):
        digest.update(b"%s\0%s\0%s\0" % (path, kind.encode(), hashlib.sha256(content).digest()))
    return digest.hexdigest()
