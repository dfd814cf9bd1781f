"""The settings that take one of a few words, each with its words."""

from __future__ import annotations

from enum import StrEnum


class NestedRepos(StrEnum):
    """What is done with git repositories inside a project."""

    LINK = "link"
    CAPTURE = "capture"


class Terminal(StrEnum):
    """Which shell commands count as mutating before they run."""

    DESTRUCTIVE = "destructive"
    ALWAYS = "always"


class OnFailure(StrEnum):
    """What happens to a mutating tool that can't be protected."""

    ALLOW = "allow"
    BLOCK = "block"


class Durability(StrEnum):
    """When a checkpoint is flushed to disk."""

    BATCH = "batch"
    FULL = "full"
