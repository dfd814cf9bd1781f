"""What comes of an event: one attempt for each project it touches, and the answer that the agent gets.

Owns the JSON of the answer and the sentence in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from config.errors import CheckpointError
from store.errors import DeadlinePassedError, NoSpaceError, StoreBusyError, TooBroadError, TooManyFilesError
from store.files import is_disk_full
from watcher.events import Why
from watcher.view import describe_checkpoint

if TYPE_CHECKING:
    from store.objects import Commit


@dataclass(frozen=True, slots=True)
class Attempt:
    """Say what came of protecting one project."""

    workdir: str
    why: Why | None
    """Why no checkpoint was taken; nothing when one was."""
    checkpoint: Commit | None = None
    """What was taken, or what already holds the state."""
    detail: str = ""
    """More about a failure, one sentence."""
    is_wanted: bool = True
    """Whether the user asked for this project to be protected."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Say what came of an event."""

    attempts: tuple[Attempt, ...] = ()
    """One for each project that the event touched."""
    why: Why | None = None
    """Why there was nothing to do."""
    is_blocked: bool = False
    """Whether the tool is not to run."""
    context: str = ""
    """What the agent is to know in this turn."""

    @property
    def is_alarming(self) -> bool:
        """Tell whether a project that the user wants protected is not."""
        return any(each.is_wanted and each.why is not None and each.why.is_unprotected for each in self.attempts)

    @property
    def message(self) -> str:
        """Return what the user has to know; empty when everything is well."""
        failed = [attempt for attempt in self.attempts if attempt.why is not None and attempt.why.is_unprotected]
        if not failed:
            return ""
        named = "; ".join(f"{attempt.workdir} ({attempt.detail or attempt.why})" for attempt in failed)
        refused = "The tool was refused, since " if self.is_blocked else ""
        return f"hermes-checkpoints: {refused}not protected: {named}"

    def to_json(self) -> dict[str, object]:
        """Return the answer as agents get it."""
        first = self.attempts[0] if self.attempts else None
        why = first.why if first is not None else self.why
        raw: dict[str, object] = {
            "ok": not any(attempt.why is Why.ERROR for attempt in self.attempts),
            "taken": any(attempt.why is None for attempt in self.attempts),
            "why": why.value if why is not None else None,
            "checkpoint": describe_checkpoint(first.checkpoint) if first is not None and first.checkpoint else None,
        }
        if len(self.attempts) > 1:
            raw["checkpoints"] = [
                {
                    "workdir": attempt.workdir,
                    "taken": attempt.why is None,
                    "why": attempt.why.value if attempt.why is not None else None,
                    "checkpoint": describe_checkpoint(attempt.checkpoint) if attempt.checkpoint else None,
                }
                for attempt in self.attempts
            ]
        if self.context:
            raw["context"] = self.context
        if self.message:
            raw["message"] = self.message
        if self.is_blocked:
            raw["blocked"] = True
        return raw


def explain(error: Exception) -> tuple[Why, str]:
    """Return the word for a failure, and a sentence about it."""
    match error:
        case StoreBusyError():
            why = Why.BUSY
        case DeadlinePassedError():
            why = Why.DEADLINE
        case TooManyFilesError():
            why = Why.TOO_MANY_FILES
        case TooBroadError():
            why = Why.TOO_BROAD
        case NoSpaceError():
            why = Why.NO_SPACE
        case _ if is_disk_full(error):
            why = Why.NO_SPACE
        case _:
            why = Why.ERROR
    if isinstance(error, CheckpointError):
        return why, error.message
    return why, (error.strerror if isinstance(error, OSError) else None) or str(error)
