"""What every adapter has in common: the form of its two halves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from watcher.answers import Answer
    from watcher.events import Event


@dataclass(frozen=True, slots=True)
class HookOutput:
    """Say how the hook client ends."""

    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0


class Adapter(Protocol):
    """Translate one agent's payloads, and our answers, one way each."""

    def translate(self, payload: Mapping[str, object]) -> Event | None:
        """Return the generic event in a payload; nothing for one that means nothing to us.

        Raises:
            UsageError: The payload is not one of this agent's.
        """
        ...

    def answer(self, event: Event, answer: Answer) -> HookOutput:
        """Return what the agent is to see."""
        ...
