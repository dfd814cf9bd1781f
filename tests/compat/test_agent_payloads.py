"""Payloads of every agent with hooks: recorded ones, ones from their schemas, and whatever else may come."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.errors import UsageError
from watcher.agents import find_adapter
from watcher.agents.calls import list_patched
from watcher.answers import Answer
from watcher.events import Event, EventKind, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

_PAYLOADS = Path(__file__).with_name("payloads")
_AGENTS = ["cline", "codex", "copilot", "cursor", "gemini", "goose", "hermes"]
_KINDS = {
    "session_start": EventKind.SESSION_START,
    "turn_start": EventKind.TURN_START,
    "pre_tool": EventKind.BEFORE_TOOL,
    "post_tool": EventKind.AFTER_TOOL,
    "post_tool_failure": EventKind.AFTER_TOOL,
    "turn_end": EventKind.TURN_END,
    "session_end": EventKind.SESSION_END,
}


def list_expected() -> Iterator[tuple[str, dict[str, Any]]]:
    for agent in _AGENTS:
        for expected in json.loads((_PAYLOADS / agent / "_meta.json").read_text())["expected"]:
            if (_PAYLOADS / agent / expected["file"]).exists():
                yield agent, expected


_EXPECTED = list(list_expected())


def translate(agent: str, name: str) -> Event | None:
    return find_adapter(agent).translate(json.loads((_PAYLOADS / agent / name).read_text()))


@pytest.mark.parametrize(("agent", "expected"), _EXPECTED, ids=[f"{agent}-{each['file']}" for agent, each in _EXPECTED])
def test_a_payload_means_what_it_should(agent: str, expected: dict[str, Any]) -> None:
    event = translate(agent, expected["file"])
    assert event is not None
    assert event.kind is _KINDS[expected["kind"]]
    assert (event.session, event.turn) == (expected["session"] or "", expected["turn"])
    assert event.cwd == (expected["cwd"] or "/")
    if "tool" not in expected:
        return
    assert event.tool == expected["tool"]
    assert event.call == (expected["call_id"] or event.call) != ""
    changed = expected["paths"] if expected["category"] in ("write", "delete") else []
    assert [os.path.join(event.cwd, path) for path in event.paths] == changed
    assert event.command == ("\n".join(expected["commands"]) or None)
    assert bool(event.paths or event.is_shell) is (expected["category"] != "read")
    assert event.status is (Status.ERROR if expected["kind"] == "post_tool_failure" else Status.OK)


def test_a_call_without_an_id_is_the_same_before_and_after() -> None:
    before, after = translate("gemini", "BeforeTool.replace.json"), translate("gemini", "AfterTool.replace.json")
    other = translate("gemini", "BeforeTool.write_file.json")
    assert before is not None
    assert after is not None
    assert other is not None
    assert before.call == after.call != other.call


@pytest.mark.parametrize("agent", [*_AGENTS, "claude-code"])
def test_a_tool_that_nobody_knows_may_change_anything(agent: str) -> None:
    payloads = _PAYLOADS / (agent if agent in _AGENTS else "claude")
    seen = 0
    for path in sorted(payloads.glob("*.json")):
        text = path.read_text()
        event = None if path.name == "_meta.json" else find_adapter(agent).translate(json.loads(text))
        if event is None or event.kind is not EventKind.BEFORE_TOOL:
            continue
        other = find_adapter(agent).translate(json.loads(text.replace(f'"{event.tool}"', '"FrobnicateV2"')))
        assert other is not None
        assert other.changes_anything
        seen += 1
    assert seen > 2


def test_every_path_of_a_patch_is_found() -> None:
    patch = (
        "*** Begin Patch\r\n*** Add File: a b.py \r\n+*** Add File: not-this\n*** Update File: old.py\n"
        "*** Move to: new/ü.py\n@@\n-x\n*** Delete File: gone.txt\n*** End Patch"
    )
    assert list(list_patched(patch)) == ["a b.py", "old.py", "new/ü.py", "gone.txt"]


@pytest.mark.parametrize("agent", [*_AGENTS, "claude-code"])
def test_an_answer_is_in_the_agents_own_form(agent: str) -> None:
    adapter = find_adapter(agent)
    before, start = Event(EventKind.BEFORE_TOOL, tool="x"), Event(EventKind.TURN_START)
    assert adapter.answer(before, Answer()) == adapter.answer(start, Answer())
    assert (adapter.answer(before, Answer()).stdout, adapter.answer(before, Answer()).exit_code) == ("", 0)
    told = adapter.answer(start, Answer(context="files went back"))
    assert "files went back" in told.stdout + told.stderr
    for output in (told, adapter.answer(before, Answer())):
        assert output.exit_code == 0
        assert output.stdout == "" or isinstance(json.loads(output.stdout), dict)


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=20)
    | st.sampled_from(["write", "PreToolUse", "/", "\0"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
_NAMES = st.sampled_from(
    [
        "hook_event_name", "hookName", "event", "session_id", "sessionId", "turn_id", "tool_name", "toolName",
        "tool_input", "toolArgs", "cwd", "workspace_roots", "workspaceRoots", "extra", "tool_call", "preToolUse",
        "working_dir", "prompt",
    ]
)  # fmt: skip
_EVENTS = st.sampled_from(["PreToolUse", "BeforeTool", "pre_tool_call", "preToolUse", "tool_call"])


@pytest.mark.parametrize("agent", [*_AGENTS, "claude-code"])
@given(payload=st.dictionaries(_NAMES, _VALUES | _EVENTS))
def test_no_payload_does_more_harm_than_being_refused(agent: str, payload: dict[str, Any]) -> None:
    try:
        event = find_adapter(agent).translate(payload)
    except UsageError:
        return
    assert event is None or event.cwd.startswith("/")
