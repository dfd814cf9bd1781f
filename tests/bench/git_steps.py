"""Real git, as the other side of a measurement."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_GIT_ENVIRONMENT = {
    "PATH": os.environ.get("PATH", os.defpath),
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}


def run_git(directory: Path, *arguments: str, **environment: str) -> str:
    """Run one git command and return what it prints."""
    done = subprocess.run(
        ["git", *arguments], cwd=directory, env=_GIT_ENVIRONMENT | environment, capture_output=True, check=True
    )
    return done.stdout.decode().strip()
