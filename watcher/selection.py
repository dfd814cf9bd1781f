"""Paths as users type them after `/rollback N`, and the paths of the project that they mean."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from store.errors import SelectionError
from store.files import to_path
from store.nested import is_part_of_repository

if TYPE_CHECKING:
    from store.project import Project


def is_pattern(given: str) -> bool:
    """Tell whether a selection may be one of git's pathspecs, and not only a name."""
    return given.startswith(":") or any(character in given for character in "*?[")


def find_pattern(project: Project, given: str, cwd: str) -> bytes:
    """Return a pathspec relative to the project, by the same rule as a path.

    Raises:
        SelectionError: It names nothing inside the project.
    """
    if given.startswith(":"):
        if (pattern := to_path(given)) is None:
            raise SelectionError(f"No file can have the name {given!a}.")
        return pattern
    return find_selected(project, given, cwd)


def find_selected(project: Project, given: str, cwd: str) -> bytes:
    """Return a selected path relative to the project.

    It is meant relative to the project; where it begins with `./` or `../`, relative to the caller's directory.

    Raises:
        SelectionError: It names nothing inside the project.
    """
    if not given or "\0" in given:
        raise SelectionError("Empty file path." if not given else "A file path can't hold a NUL byte.")
    if to_path(given) is None:
        raise SelectionError(f"No file can have the name {given!a}.")
    if given.startswith("/"):
        raise SelectionError(f"File path must be relative, got absolute path: {given}")
    is_from_caller = given in (".", "..") or given.startswith(("./", "../"))
    start = os.path.realpath(cwd) if is_from_caller else project.workdir
    path = os.path.normpath(os.path.join(start, given))
    relative = project.relative(path)
    if path == project.workdir:
        return b""
    if relative is None:
        raise SelectionError(f"File path escapes the working directory via traversal: {given}")
    if is_part_of_repository(relative):
        raise SelectionError(f"{given} is part of a git repository, which is never touched.")
    return relative
