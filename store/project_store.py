"""One project's part of the store, open for one piece of work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from store.objects import ObjectStore

if TYPE_CHECKING:
    from store.layout import Layout
    from store.project import Project


@dataclass(frozen=True, slots=True)
class ProjectStore:
    """Say where a project's checkpoints are, and hold the objects open."""

    layout: Layout
    objects: ObjectStore
    project: Project


def open_project_store(layout: Layout, project: Project) -> ProjectStore:
    """Open the store for a project; nothing is written.

    Raises:
        GitFailedError: There is no store, or it can't be opened.
    """
    return ProjectStore(layout, ObjectStore(layout.store), project)
