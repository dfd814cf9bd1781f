"""An empty store, and checkpoints in it without a service."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from config.settings import default_excludes
from store.baseline import Baseline
from store.capture import Limits, Scope
from store.checkpoint import Kind, Label, Taken, take_checkpoint
from store.layout import Layout
from store.objects import ObjectStore
from store.patterns import Patterns
from store.project import Project
from store.project_store import ProjectStore, open_project_store
from store.scan import scan

if TYPE_CHECKING:
    from pathlib import Path


def make_layout(directory: Path) -> Layout:
    """Make an empty store below a directory."""
    layout = Layout(str(directory / "checkpoints"), str(directory / ".checkpoints.lock"))
    layout.create(default_excludes(), now=time.time())
    return layout


def make_objects(directory: Path) -> ObjectStore:
    """Make an empty store and open its objects."""
    return ObjectStore(make_layout(directory).store)


def open_store(directory: Path, project: Path) -> ProjectStore:
    """Open the store below a directory for a project."""
    return open_project_store(make_layout(directory), Project.of(str(project)))


def make_scope(root: Path, *, limits: Limits | None = None, pinned: dict[bytes, bool] | None = None) -> Scope:
    """Return what counts in a project by the default rules."""
    excludes = root.parent / f".{root.name}-excludes"
    excludes.write_bytes(default_excludes())
    patterns = Patterns(str(excludes))
    raw = os.fsencode(root)
    return Scope(raw, patterns, patterns.compile(raw), limits or Limits(), pinned or {})


def look(store: ProjectStore, scope: Scope | None = None) -> Baseline:
    """Return the state of a project's files."""
    from pathlib import Path

    return scan(store, scope or make_scope(Path(store.project.workdir)))


def take(store: ProjectStore, reason: str = "by hand", *, keep_count: int = 20, now: float | None = None) -> Taken:
    """Take a checkpoint of what is there."""
    label = Label(Kind.MANUAL, reason, time.time() if now is None else now)
    return take_checkpoint(store, look(store), label, keep_count=keep_count)
