"""Names of everything on disk, and making an empty store.

Owns which file and which ref is where. What stands in the files belongs to the modules that read them.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import NewType

from store.files import make_private_directory, write_atomically

ProjectHash = NewType("ProjectHash", str)
"""First 16 hex digits of SHA-256 over a project's resolved absolute path."""

_CONFIG = b"""[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = true
[user]
\temail = hermes@local
\tname = Hermes Checkpoint
[commit]
\tgpgsign = false
[tag]
\tgpgSign = false
[gc]
\tauto = 0
\twriteCommitGraph = false
[core]
\tcommitGraph = false
"""

_ATTRIBUTES = b"* -text -eol -ident -filter -working-tree-encoding\n"
"""Bytes are bytes: git never converts what it reads from or writes for this repository."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Say where the store of one home keeps its files and refs."""

    base: str
    """`<home>/checkpoints`, absolute."""
    lock_file: str
    """The lock beside the base."""

    @property
    def store(self) -> str:
        """Return the bare repository shared by all projects."""
        return os.path.join(self.base, "store")

    @property
    def shallow_file(self) -> str:
        """Return the file that says where histories were trimmed. Source: gitrepository-layout(5)."""
        return os.path.join(self.store, "shallow")

    @property
    def commit_graphs(self) -> tuple[str, str]:
        """Return where git caches what it knows of histories. Source: gitformat-commit-graph(5)."""
        info = os.path.join(self.store, "objects", "info")
        return os.path.join(info, "commit-graph"), os.path.join(info, "commit-graphs")

    @property
    def exclude_file(self) -> str:
        """Return the file of patterns that are not captured."""
        return os.path.join(self.store, "info", "exclude")

    @property
    def shipped_excludes_file(self) -> str:
        """Return the file of the patterns that were shipped when the ones above were last brought up to date."""
        return os.path.join(self.store, "info", "exclude.shipped")

    @property
    def sessions_directory(self) -> str:
        """Return the directory of agents' sessions and the turn each one is in."""
        return os.path.join(self.store, "sessions")

    @property
    def gc_pending_file(self) -> str:
        """Return the marker that refs moved since the last gc."""
        return os.path.join(self.store, ".gc-pending")

    @property
    def gc_lock_file(self) -> str:
        """Return the lock that one collection at a time holds; nobody else waits for it."""
        return os.path.join(self.store, "gc.lock")

    @property
    def gc_stamp_file(self) -> str:
        """Return the file that is written anew before objects are removed, with the name of the process."""
        return os.path.join(self.store, ".gc-stamp")

    @property
    def last_prune_file(self) -> str:
        """Return the file that says when the last sweep was, in seconds since the epoch."""
        return os.path.join(self.base, ".last_prune")

    @property
    def projects_directory(self) -> str:
        """Return the directory of project files."""
        return os.path.join(self.store, "projects")

    def project_file(self, project: ProjectHash) -> str:
        """Return the file of what is known of a project."""
        return os.path.join(self.projects_directory, f"{project}.json")

    def ledger_file(self, project: ProjectHash) -> str:
        """Return the file of what the agent last wrote in a project."""
        return os.path.join(self.store, "ledgers", f"{project}.json")

    def journal_file(self, project: ProjectHash) -> str:
        """Return the file of what a rollback is about to do; it is there only meanwhile."""
        return os.path.join(self.store, "journals", f"{project}.json")

    def index_file(self, project: ProjectHash) -> str:
        """Return the git index that serves as a project's stat cache."""
        return os.path.join(self.store, "indexes", project)

    def statistics_file(self, project: ProjectHash) -> str:
        """Return the file of a project's computed checkpoint statistics."""
        return os.path.join(self.store, "statistics", f"{project}.json")

    def exists(self) -> bool:
        """Tell whether there is a store; its HEAD is written last."""
        return os.path.exists(os.path.join(self.store, "HEAD"))

    def create(self, excludes: bytes, *, now: float) -> None:
        """Make an empty store, if there is none, and put older kinds of repositories aside.

        The caller holds the lock. HEAD is written last, so that an interrupted call is simply repeated.

        Args:
            excludes: What `info/exclude` begins with.
            now: Seconds since the epoch, for the name of the folder of older repositories.
        """
        if self.exists():
            self.restore_directories()
            return
        make_private_directory(self.base)
        _archive_older_repositories(self.base, now)
        self.restore_directories()
        write_atomically(os.path.join(self.store, "config"), _CONFIG)
        write_atomically(os.path.join(self.store, "description"), b"hermes-checkpoints\n")
        write_atomically(self.exclude_file, excludes)
        write_atomically(self.shipped_excludes_file, excludes)
        write_atomically(os.path.join(self.store, "HEAD"), b"ref: refs/heads/main\n")

    def restore_directories(self) -> None:
        """Make what git needs to see a repository and to leave bytes alone; a gc removes directories that are empty."""
        for name in ("", "objects", "objects/info", "objects/pack", "refs", "refs/heads", "branches", "info"):
            make_private_directory(os.path.join(self.store, name))
        attributes = os.path.join(self.store, "info", "attributes")
        if not os.path.exists(attributes):
            write_atomically(attributes, _ATTRIBUTES)


def tip_ref(project: ProjectHash) -> str:
    """Return the ref of a project's newest checkpoint."""
    return f"refs/hermes/{project}"


def watch_ref(project: ProjectHash) -> str:
    """Return the ref of a project's newest checkpoint before a change that nobody announced."""
    return f"refs/watch/{project}"


def baseline_ref(project: ProjectHash) -> str:
    """Return the ref that keeps a project's last settled tree alive."""
    return f"refs/baseline/{project}"


def journal_refs(project: ProjectHash) -> tuple[str, str]:
    """Return the refs that keep alive what a rollback puts back, and the state before it."""
    return f"refs/rollback/{project}/target", f"refs/rollback/{project}/safety"


def _archive_older_repositories(base: str, now: float) -> None:
    """Move what stood in the base before the shared store existed to `legacy-<YYYYMMDD-HHMMSS>/`, in local time.

    Each entry is renamed whole. After a kill the rest follows at the next start, as there is no store before that.
    """
    older = [name for name in os.listdir(base) if name not in ("store", ".last_prune") and not _is_put_aside(name)]
    if not older:
        return
    archive = os.path.join(base, time.strftime("legacy-%Y%m%d-%H%M%S", time.localtime(now)))
    make_private_directory(archive)
    for name in older:
        _move_in(os.path.join(base, name), archive)


def _is_put_aside(name: str) -> bool:
    return name.startswith(("legacy-", ".checkpoints-removed-"))


def _move_in(path: str, directory: str) -> None:
    """Move a file or directory into another one, also a directory that its owner may not write.

    That needs the right to write it, since it names the one above. Source: rename(2), EACCES.
    """
    aim = os.path.join(directory, os.path.basename(path))
    try:
        os.rename(path, aim)
    except PermissionError:
        os.chmod(path, 0o700)
        os.rename(path, aim)
