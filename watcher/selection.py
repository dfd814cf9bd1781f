"""What a request wants put back: paths as users type them after `/rollback N`, and the paths that they mean."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from config.errors import UsageError
from store.errors import SelectionError
from store.files import to_path
from store.nested import is_part_of_repository
from store.plan import Mode
from store.standings import Selection
from watcher.arguments import read_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from store.project import Project


def read_selection(project: Project, arguments: Mapping[str, object]) -> Selection:
    """Return what of a checkpoint a request wants put back.

    Raises:
        UsageError: The arguments contradict each other, or have the wrong type.
        SelectionError: A path names nothing inside the project.
    """
    dry_run = arguments.get("dry_run") is True
    paths = arguments.get("paths") or []
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise UsageError("`paths` must be a list of file names.")
    session = arguments.get("session")
    if session is not None and (paths or arguments.get("all") is True or not isinstance(session, str)):
        raise UsageError("`session` must be text, and goes with a whole checkpoint and hand edits kept.")
    if arguments.get("all") is True:
        if paths:
            raise UsageError("Name files or restore all, not both.")
        return Selection(Mode.ALL, dry_run=dry_run)
    if not paths:
        return Selection(Mode.DEFAULT, dry_run=dry_run, session=session)
    cwd = read_path(arguments, "cwd", default=project.workdir)
    return Selection(
        Mode.SELECTED,
        paths=tuple(find_selected(project, path, cwd) for path in paths if not is_pattern(path)),
        patterns=tuple(find_pattern(project, path, cwd) for path in paths if is_pattern(path)),
        dry_run=dry_run,
    )


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
