"""What goes on after a rollback, and beside it: other sessions, the agents' memory, files that do not hold still."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from config.errors import CheckpointError, UsageError
from store import carry_out
from store.apply import ProjectFiles
from tests.support.steps import InProcess
from tests.support.workdir import make_project, photograph, write


@pytest.fixture
def product(tmp_path: Path) -> InProcess:
    product = InProcess(make_project(tmp_path / "project"))
    product.ask("watch", action="add", path=str(product.project))
    return product


def test_one_sessions_writes_go_back_and_those_of_the_other_stay(product: InProcess) -> None:
    other = InProcess(product.project, session="s2")
    product.agent_writes("a.py", "by one\n", turn="t1")
    first = product.ask("rollback.list")["checkpoints"][0]["hash"]
    other.agent_writes("sub/b.py", "by two\n", turn="t1")
    other.agent_writes("new.py", "by two\n", turn="t1")
    product.agent_runs("rm notes.md", turn="t2")
    done = product.ask("rollback.restore", hash=first, session="s1")
    assert (done["restored_files"], done["deleted_files"]) == (["a.py", "notes.md"], [])
    assert done["skipped_user_edits"] == ["new.py", "sub/b.py"]
    assert (product.project / "sub" / "b.py").read_text() == "by two\n"
    done = product.ask("rollback.restore", hash=first, session="s2")
    assert (done["restored_files"], done["deleted_files"]) == (["sub/b.py"], ["new.py"])


def test_a_session_that_wrote_nothing_takes_nothing_back(product: InProcess) -> None:
    write(product.project / "a.py", "by hand\n")
    done = product.ask("rollback.restore", hash="1", session="nobody")
    assert (done["restored_files"], done["skipped_user_edits"]) == ([], ["a.py"])
    assert (product.project / "a.py").read_text() == "by hand\n"


@pytest.mark.parametrize("more", [{"all": True}, {"paths": ["a.py"]}])
def test_a_session_goes_with_a_whole_checkpoint_only(product: InProcess, more: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        product.ask("rollback.restore", hash="1", session="s1", **more)


def test_agents_learn_once_which_files_went_back(product: InProcess) -> None:
    product.agent_writes("a.py", "by the agent\n", turn="t1")
    product.agent_writes("new.py", "by the agent\n", turn="t1")
    assert "context" not in product.event("turn_start", turn="t2")
    product.ask("rollback.restore", hash="1")
    stranger = InProcess(product.project, session="never changed anything here")
    assert "context" not in stranger.event("turn_start", turn="t1")
    told = product.event("turn_start", turn="t3")["context"]
    assert "a.py" in told
    assert "new.py" in told
    assert "context" not in product.event("turn_start", turn="t4")


def test_claude_code_is_told_in_the_way_it_understands(product: InProcess) -> None:
    product.session = "claude"
    product.agent_writes("a.py", "by the agent\n", turn="t1")
    product.ask("rollback.restore", hash="1")
    payload = {
        "hook_event_name": "UserPromptSubmit",
        "session_id": "claude",
        "prompt_id": "t2",
        "cwd": str(product.project),
    }
    output = json.loads(product.ask("hook", agent="claude-code", payload=json.dumps(payload))["stdout"])
    assert output["hookSpecificOutput"]["hookEventName"] == "UserPromptSubmit"
    assert "a.py" in output["hookSpecificOutput"]["additionalContext"]


def test_a_file_that_never_holds_still_is_left_and_costs_nothing_else(product: InProcess) -> None:
    for name in ("a.py", "sub/b.py"):
        product.agent_writes(name, "by the agent\n", turn="t1")
    over = threading.Event()

    def keep_writing() -> None:
        number = 0
        while not over.is_set():
            number += 1
            (product.project / "a.py").write_text(f"{number}\n" * 3000)

    thread = threading.Thread(target=keep_writing)
    thread.start()
    try:
        done = product.ask("rollback.restore", hash="1", all=True)
    finally:
        over.set()
        thread.join()
    assert (product.project / "sub" / "b.py").read_text() == "two\n"
    named = [each["path"] for each in (*done["left_in_place"], *done.get("failed", []))]
    assert named in ([], ["a.py"])
    assert ("a.py" in done["restored_files"]) != bool(named)


def read_ledger() -> dict[str, Any]:
    """Return what the ledgers of the home say."""
    paths = Path(os.environ["HERMES_HOME"]).glob("checkpoints/store/ledgers/*.json")
    return {path: written for ledger in paths for path, written in json.loads(ledger.read_text()).items()}


@pytest.mark.parametrize("together_from", [1, 1000])
def test_a_rollback_in_part_gives_an_exact_account_and_the_way_back(
    product: InProcess, monkeypatch: pytest.MonkeyPatch, together_from: int
) -> None:
    monkeypatch.setattr(carry_out, "_TOGETHER_FILES", together_from)
    for name in ("a.py", "notes.md", "sub/b.py"):
        product.agent_writes(name, "by the agent\n", turn="t1")
    before = photograph(product.project)
    write_really = ProjectFiles.write_aside

    def fail_for_one(self: ProjectFiles, path: bytes, *rest: object, **options: object) -> None:
        if path == b"notes.md":
            raise OSError(28, "No space left on device")
        write_really(self, path, *rest, **options)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(ProjectFiles, "write_aside", fail_for_one)
        done = product.ask("rollback.restore", hash="1")
    assert not done["success"]
    assert done["restored_files"] == ["a.py", "sub/b.py"]
    assert done["failed"] == [{"path": "notes.md", "reason": "No space left on device"}]
    assert product.ask("rollback.restore", hash=done["pre_rollback"], all=True)["success"]
    assert photograph(product.project) == before


def test_there_is_nothing_to_settle_without_a_rollback_that_was_cut_off(product: InProcess) -> None:
    for action in ("resume", "abort"):
        with pytest.raises(CheckpointError, match="cut off"):
            product.ask("rollback.settle", action=action)


def test_undoing_the_undo_goes_on_for_ever(product: InProcess) -> None:
    product.agent_writes("a.py", "by the agent\n", turn="t1")
    write(product.project / "notes.md", "by hand\n")
    changed = photograph(product.project)
    product.ask("rollback.restore", hash="1", all=True)
    restored = photograph(product.project)
    for _ in range(12):
        assert product.ask("rollback.restore", hash="1", all=True)["success"]
        assert photograph(product.project) == changed
        assert product.ask("rollback.restore", hash="1", all=True)["success"]
        assert photograph(product.project) == restored


def test_an_id_lives_until_its_checkpoint_is_trimmed_and_then_says_so(product: InProcess) -> None:
    product.agent_writes("a.py", "by the agent\n", turn="t1")
    done = product.ask("rollback.restore", hash="1")
    safety = done["pre_rollback"]
    for number in range(19):
        write(product.project / "a.py", f"{number}\n")
        product.ask("take")
    assert product.ask("rollback.restore", hash=safety, all=True, dry_run=True)["restored_files"] == ["a.py"]
    write(product.project / "a.py", "one more\n")
    product.ask("take")
    with pytest.raises(CheckpointError, match="not found"):
        product.ask("rollback.restore", hash=safety)


def test_a_call_that_goes_on_over_a_rollback_is_not_blamed_for_it(product: InProcess) -> None:
    product.agent_writes("a.py", "by the agent\n", turn="t1")
    write(product.project / "notes.md", "by hand\n")
    start = {"turn": "t2", "tool": "terminal", "command": "make", "call": "c9"}
    product.event("before_tool", **start)
    assert product.ask("rollback.restore", hash="2", all=True)["success"]
    write(product.project / "sub" / "b.py", "by the call\n")
    product.event("after_tool", **start, status="ok")
    ledger = read_ledger()
    assert ledger[str(product.project / "sub" / "b.py")]["tool"] == "terminal"
    assert ledger[str(product.project / "notes.md")]["tool"] == "rollback"


def test_a_call_that_was_refused_is_forgotten(product: InProcess) -> None:
    start = {"turn": "t1", "tool": "terminal", "command": "rm -r sub", "call": "c1"}
    product.event("before_tool", **start)
    product.event("after_tool", **start, status="blocked")
    write(product.project / "a.py", "by hand\n")
    product.event("after_tool", **start, status="ok")
    assert str(product.project / "a.py") not in read_ledger()


def test_calls_without_ids_that_overlap_leave_nothing_out(product: InProcess) -> None:
    start = {"turn": "t1", "tool": "terminal", "command": "make"}
    product.event("before_tool", **start)
    write(product.project / "a.py", "by the first\n")
    product.event("before_tool", **start)
    product.event("after_tool", **start, status="ok")
    write(product.project / "notes.md", "by one of them\n")
    product.event("after_tool", **start, status="ok")
    write(product.project / "sub" / "b.py", "by hand\n")
    done = product.ask("rollback.restore", hash="1")
    assert done["restored_files"] == ["a.py", "notes.md"]
    assert done["skipped_user_edits"] == ["sub/b.py"]
