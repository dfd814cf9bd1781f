"""Payloads recorded from Claude Code, and whatever else may come in their place."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from config.errors import CheckpointError, UsageError
from config.paths import resolve_paths
from tests.support.workdir import make_project, write
from watcher.agents.claude_code import ClaudeCode
from watcher.direct import open_directly
from watcher.events import Event, EventKind, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from watcher.operations import Operations

_PAYLOADS = Path(__file__).with_name("payloads") / "claude"
_EXPECTED: list[dict[str, Any]] = json.loads((_PAYLOADS / "_meta.json").read_text())["expected"]
_KINDS = {
    "session_start": EventKind.SESSION_START,
    "turn_start": EventKind.TURN_START,
    "pre_tool": EventKind.BEFORE_TOOL,
    "post_tool": EventKind.AFTER_TOOL,
    "post_tool_failure": EventKind.AFTER_TOOL,
    "turn_end": EventKind.TURN_END,
    "session_end": EventKind.SESSION_END,
}
_RECORDED_AT = "/home/dev/acme"
_FIELDS = [
    "hook_event_name", "session_id", "prompt_id", "tool_name", "tool_use_id", "tool_input", "cwd", "prompt", "source",
]  # fmt: skip


def read_payload(name: str) -> dict[str, Any]:
    payload = json.loads((_PAYLOADS / name).read_text())
    assert isinstance(payload, dict)
    return payload


def translate(payload: dict[str, Any]) -> Event:
    event = ClaudeCode().translate(payload)
    assert event is not None
    return event


@pytest.mark.parametrize("expected", _EXPECTED, ids=[each["file"] for each in _EXPECTED])
def test_a_recorded_payload_means_what_it_should(expected: dict[str, Any]) -> None:
    event = translate(read_payload(expected["file"]))
    commands = [event.command] if event.command is not None else []
    assert event.kind is _KINDS[expected["kind"]]
    assert (event.session, event.turn, event.cwd) == (expected["session"], expected["turn"], expected["cwd"])
    assert (event.tool, event.call) == (expected.get("tool", ""), expected.get("call_id", ""))
    changed = expected.get("paths", []) if expected.get("category") == "write" else []
    assert (list(event.paths), commands) == (changed, expected.get("commands", []))
    assert event.status is (Status.ERROR if expected["kind"] == "post_tool_failure" else Status.OK)


@pytest.mark.parametrize("expected", _EXPECTED, ids=[each["file"] for each in _EXPECTED])
def test_only_tools_that_may_change_files_are_acted_on(expected: dict[str, Any]) -> None:
    event = translate(read_payload(expected["file"]))
    assert bool(event.paths or event.is_shell) is (expected.get("category") in ("write", "shell", "mcp"))


_OTHERS = sorted(path.name for path in _PAYLOADS.glob("[A-Z]*.json") if path.name not in {e["file"] for e in _EXPECTED})
_WITH_AN_EVENT = {"StopFailure.json": EventKind.TURN_END}


@pytest.mark.parametrize("name", _OTHERS)
def test_every_other_payload_is_taken_for_what_it_is_or_passed_over(name: str) -> None:
    event = ClaudeCode().translate(read_payload(name))
    assert (event.kind if event is not None else None) == _WITH_AN_EVENT.get(name)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {"src/app.py": "print('v0')\n", "notes.txt": "notes\n", "nb.ipynb": "{}\n"}
    return make_project(tmp_path / "acme", files)


@pytest.fixture
def operations(project: Path) -> Iterator[Operations]:
    with open_directly(resolve_paths(home=None, profile=None, environ=os.environ)) as operations:
        operations.dispatch("watch", {"action": "add", "path": str(project)})
        yield operations


def send(operations: Operations, payload: object) -> dict[str, object]:
    return operations.dispatch("hook", {"agent": "claude-code", "payload": json.dumps(payload)})


def do(payload: dict[str, Any], number: int) -> None:
    """Do what the recorded tool call did, or something like it, between its before and its after."""
    arguments = payload.get("tool_input") or {}
    path = arguments.get("file_path") or arguments.get("notebook_path")
    if payload["hook_event_name"] == "PreToolUse" and payload["tool_name"] in ("Write", "Edit", "NotebookEdit"):
        write(Path(str(path)), f"{arguments.get('content', 'edited')} {number}\n")
    elif payload["hook_event_name"] == "PreToolUse" and payload["tool_name"] == "Bash":
        write(Path(payload["cwd"]) / "made-by-shell.txt", f"{number}\n")


def list_checkpoints(operations: Operations, project: Path) -> list[dict[str, Any]]:
    listed = operations.dispatch("rollback.list", {"workdir": str(project)})["checkpoints"]
    assert isinstance(listed, list)
    return listed


@pytest.mark.parametrize(("run", "turns_with_changes"), [("run1", 1), ("run2", 1), ("run3", 0)])
def test_a_recorded_run_takes_at_most_one_checkpoint_in_each_turn(
    operations: Operations, project: Path, run: str, turns_with_changes: int
) -> None:
    text = (_PAYLOADS / f"{run}.jsonl").read_text().replace(_RECORDED_AT, str(project))
    (project / "build").mkdir()
    write(project / "hand.txt", "edited since the first checkpoint\n")
    for number, line in enumerate(text.splitlines()):
        payload = json.loads(line)["payload"]
        ended = send(operations, payload)
        assert (ended["stdout"], ended["stderr"], ended["exit_code"]) == ("", "", 0), payload["hook_event_name"]
        do(payload, number)
    per_turn = Counter(each["turn"] for each in list_checkpoints(operations, project) if each["kind"] == "tool")
    assert [count for count in per_turn.values() if count > 1] == []
    assert len(per_turn) == turns_with_changes


def test_after_a_recorded_run_its_first_checkpoint_takes_back_what_its_tools_wrote(
    operations: Operations, project: Path
) -> None:
    text = (_PAYLOADS / "run1.jsonl").read_text().replace(_RECORDED_AT, str(project))
    (project / "build").mkdir()
    for number, line in enumerate(text.splitlines()):
        payload = json.loads(line)["payload"]
        send(operations, payload)
        do(payload, number)
    write(project / "notes.txt", "mine\n")
    done = operations.dispatch("rollback.restore", {"workdir": str(project), "hash": "1"})
    assert done["success"], done
    assert (project / "src" / "app.py").read_text() == "print('v0')\n"
    assert (project / "nb.ipynb").read_text() == "{}\n"
    assert not (project / "made-by-shell.txt").exists()
    assert (project / "notes.txt").read_text() == "mine\n"


_scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("\ud800") | st.just("a\0b")
)
_json = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_tools = st.sampled_from(["Write", "Edit", "MultiEdit", "NotebookEdit", "Bash", "Read", "mcp__x__y", ""])
_events = st.sampled_from(
    ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "Stop", "SessionEnd"]
)
_inputs = _json | st.dictionaries(
    st.sampled_from(["file_path", "notebook_path", "command", "content", "edits"]), _json, max_size=3
)
_odd = st.dictionaries(st.sampled_from(_FIELDS) | st.text(max_size=5), _json, max_size=8)
_near = st.builds(
    lambda base, name, tool, given: base | {"hook_event_name": name, "tool_name": tool, "tool_input": given},
    _odd, _events | _scalars, _tools | _scalars, _inputs,
)  # fmt: skip


@given(payload=_odd | _near)
@settings(max_examples=400)
def test_any_object_is_an_event_nothing_or_a_usage_error(payload: dict[str, Any]) -> None:
    try:
        event = ClaudeCode().translate(payload)
    except UsageError:
        return
    if event is not None:
        texts = [event.session, event.tool, event.call, event.cwd, *event.paths, event.command or "", event.turn or ""]
        assert all(isinstance(text, str) and "\0" not in text for text in texts)
        assert event.cwd.startswith("/")
        assert all(event.paths)


@pytest.mark.parametrize("odd", [None, 0, 1.5, True, "", "\0", "x" * 100_000, [], ["a"], {}, {"a": 1}], ids=range(11))
@pytest.mark.parametrize("field", _FIELDS[1:])
@pytest.mark.parametrize("name", ["PreToolUse.Write.json", "PreToolUse.Bash.json", "UserPromptSubmit.json"])
def test_one_field_of_an_odd_type_hurts_nothing_else(name: str, field: str, odd: object) -> None:
    payload = read_payload(name)
    usual, changed = translate(payload), translate(payload | {field: odd})
    assert changed.kind is usual.kind
    if field not in ("tool_name", "tool_input"):
        assert (changed.paths, changed.command) == (usual.paths, usual.command)


@pytest.mark.parametrize("tool", ["Read", "Agent", "WebFetch", ""])
def test_a_tool_that_changes_no_file_names_no_path(tool: str) -> None:
    names = ["", "path", "file_path", "notebook_path"]
    payload = read_payload("PreToolUse.Read.json") | {"tool_name": tool, "tool_input": dict.fromkeys(names, "a.py")}
    assert translate(payload).paths == ()


def check_answer(operations: Operations, project: Path, payload: dict[str, Any]) -> None:
    inside = payload if str(payload.get("cwd", "")).startswith("/") else payload | {"cwd": str(project)}
    try:
        ended = send(operations, inside)
    except CheckpointError:
        return
    assert ended["exit_code"] == 0


@given(payload=_near.filter(lambda payload: "\\ud800" not in json.dumps(payload)))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_payload_is_answered_without_a_bug(operations: Operations, project: Path, payload: dict[str, Any]) -> None:
    check_answer(operations, project, payload)


@pytest.mark.parametrize(
    "payload",
    [
        {"hook_event_name": "PreToolUse", "tool_name": "Write", "tool_input": {"file_path": "\ud800"}},
        {"hook_event_name": "PostToolUse", "tool_name": "Write", "tool_input": {"file_path": "\ud800"}},
        {"hook_event_name": "PreToolUse", "tool_name": "Write", "tool_input": {"file_path": "x" * 5000}},
        {"hook_event_name": "PostToolUse", "tool_name": "Write", "tool_input": {"file_path": "x" * 5000}},
        {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "rm '\ud800'"}},
        {"hook_event_name": "PreToolUse", "tool_name": "Bash", "cwd": "/\ud800", "tool_input": {"command": "rm a"}},
        {"hook_event_name": "UserPromptSubmit", "cwd": "/\ud800"},
        {"hook_event_name": "UserPromptSubmit", "session_id": "../../x\ud800", "prompt_id": "\ud800"},
        {"hook_event_name": "SessionEnd", "session_id": "x" * 5000},
    ],
    ids=range(9),
)
def test_texts_that_no_path_or_id_can_be_are_answered_without_a_bug(
    operations: Operations, project: Path, payload: dict[str, Any]
) -> None:
    check_answer(operations, project, payload)
