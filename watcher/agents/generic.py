"""The adapter for any agent that speaks the generic event itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from watcher.agents.answer import HookOutput
from watcher.events import parse_event

if TYPE_CHECKING:
    from collections.abc import Mapping

    from watcher.answers import Answer
    from watcher.events import Event


class Generic:
    """Read the generic event as it is, and print the answer as one JSON line."""

    def translate(self, payload: Mapping[str, object]) -> Event | None:
        """Return the event in the payload."""
        return parse_event(payload)

    def answer(self, event: Event, answer: Answer) -> HookOutput:  # noqa: ARG002 - one form for every event
        """Return the answer as JSON; only a blocked tool is told by the exit code."""
        return HookOutput(
            stdout=json.dumps(answer.to_json()) + "\n",
            stderr=f"{answer.message}\n" if answer.is_blocked else "",
            exit_code=2 if answer.is_blocked else 0,
        )
