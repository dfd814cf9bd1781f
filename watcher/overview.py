"""The store at a glance: its size, its projects, how each one is watched, and what is wrong."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from config.errors import CheckpointError
from store.archives import list_archives
from store.errors import CorruptFileError, StoreError
from store.files import measure_bytes
from store.git import find_git
from store.history import list_checkpoints
from store.project import Project, list_projects, list_set_aside
from store.project_store import open_project_store
from store.prune import read_last_prune
from store.volumes import judge
from watcher.client import Client
from watcher.view import describe_checkpoint, describe_cut_off, describe_health

if TYPE_CHECKING:
    from collections.abc import Mapping

    from store.project import ProjectRecord
    from watcher.home import Home
    from watcher.upkeep import Upkeep

_PING_S = 1.0


def describe_home(home: Home, *, serving: bool) -> dict[str, object]:
    """Return everything that `status` shows.

    Args:
        home: Whose store.
        serving: Whether this process is the service.
    """
    _, problem = home.settings()
    watched = set(home.watched())
    store_bytes = measure_bytes(home.layout.store)
    archives = [
        {"name": archive.name, "size_bytes": archive.size_bytes, "mtime": archive.mtime}
        for archive in list_archives(home.paths.base)
    ]
    projects = [
        {"hash": name, "workdir": None, "state": "unknown", "error": record.message}
        if isinstance(record, CorruptFileError)
        else _describe_project(home, Project(record.workdir, name), record, is_watched=record.workdir in watched)
        for name, record in list_projects(home.layout)
    ]
    projects.sort(key=lambda each: -float(str(each.get("last_touch") or 0)))
    legacy_bytes = sum(int(str(archive["size_bytes"])) for archive in archives)
    return {
        "base": home.paths.base,
        "total_size_bytes": store_bytes + legacy_bytes,
        "store_size_bytes": store_bytes,
        "legacy_size_bytes": legacy_bytes,
        "project_count": len(projects),
        "service": _find_service(home, serving=serving),
        "projects": projects,
        "watched": sorted(watched),
        "legacy_archives": archives,
        "git": find_git(os.environ.get("PATH")),
        "problem": problem,
        "damaged": list_set_aside(home.layout),
    }


def describe_maintenance(
    home: Home, upkeep: Upkeep, next_runs: Mapping[str, float | None], *, now: float
) -> dict[str, object]:
    """Return when maintenance was done and will be; times are seconds since the epoch, null where there is none.

    Args:
        home: Whose store.
        upkeep: Its maintenance.
        next_runs: When jobs look next whether there is work; none without the service.
        now: Seconds since the epoch.
    """
    settings, _ = home.settings()
    last = read_last_prune(home.layout)
    looks_at = next_runs.get("sweep")
    due_at = None if last is None or last > now else last + settings.min_interval_hours * 3600
    is_pending = os.path.exists(home.layout.gc_pending_file)
    return {
        "last_sweep": last,
        "next_sweep": None if looks_at is None or not settings.auto_prune else max(looks_at, due_at or 0.0),
        "gc_pending": is_pending,
        "last_gc": upkeep.last_gc,
        "next_gc": next_runs.get("gc") if is_pending else None,
    }


def _find_service(home: Home, *, serving: bool) -> dict[str, object]:
    """Return whether a service of this home runs, and its process."""
    if serving:
        return {"running": True, "pid": os.getpid()}
    try:
        with Client(home.paths.socket, timeout_s=_PING_S) as client:
            answer = client.call("ping")
    except CheckpointError:
        return {"running": False, "pid": None}
    return {"running": True, "pid": answer.get("pid") if isinstance(answer, dict) else None}


def _describe_project(home: Home, project: Project, record: ProjectRecord, *, is_watched: bool) -> dict[str, object]:
    """Return one project's line; what is damaged in its history is told there and harms no other line."""
    engine = home.find_engine(project.hash)
    state = engine.watch_state if engine is not None else None
    health, verdict = describe_health(record, protected=True), judge(record.workdir, record.evidence)
    described: dict[str, object] = {
        "hash": project.hash,
        "workdir": record.workdir,
        "commits": 0,
        "skipped": [],
        "cut_off": describe_cut_off(home.layout, project),
        "created_at": record.created_at,
        "last_touch": record.last_touch,
        "state": verdict.state.value,
        "state_reason": verdict.reason,
        "watched": is_watched,
        "last_failure": health["last_failure"],
        "failing": health["why"],
        "watching": None
        if state is None
        else {"mode": state.mode, "why": state.why, "since": state.since, "watches": state.watch_count},
    }
    try:
        history = list_checkpoints(open_project_store(home.layout, project))
        described["commits"] = len(history)
        described["skipped"] = describe_checkpoint(history[0])["skipped"] if history else []
    except StoreError as error:
        described["error"] = error.message
    return described
