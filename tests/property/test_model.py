"""Users, two agents, shell calls, rollbacks and restarts in any order, against a model that fits on one page.

The model knows what is on disk, what each agent last left where, and what each checkpoint holds. After every step the
disk has to be what the model says, every list that a rollback gives has to be true, and no content may be gone that no
checkpoint holds.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.support.steps import Following, InProcess

_NAMES = ["a.py", "b.py", "d/x.py", "d/y.py", "e/f/z.py"]
_CONTENTS = ["one\n", "two\n", "three\n", "four\n"]
_SESSIONS = ["s1", "s2"]

names = st.sampled_from(_NAMES)
contents = st.sampled_from(_CONTENTS)
sessions = st.sampled_from(_SESSIONS)
places = st.integers(0, 12)

Files = dict[str, str]


@dataclass
class Model:
    """What should be true."""

    disk: Files = field(default_factory=dict)
    left: dict[str, tuple[str | None, str]] = field(default_factory=dict)
    """By name: what was last left there by an agent or a rollback, nothing for a deletion, and by which session."""
    others: set[str] = field(default_factory=set)
    """Files that somebody else had made before an agent first changed them."""
    checkpoints: dict[str, Files] = field(default_factory=dict)

    def is_agents(self, name: str, session: str | None) -> bool:
        """Tell whether what stands there is what was left there."""
        if name not in self.left or self.left[name][0] != self.disk.get(name):
            return False
        return session is None or self.left[name][1] == session

    def roll_back(self, target: Files, mode: str, chosen: str, session: str | None) -> Files:
        """Return what a rollback makes of the disk."""
        after = dict(self.disk)
        knows_nothing = mode == "default" and not self.left and session is None
        for name in {*target, *self.disk}:
            if mode == "file" and name != chosen:
                continue
            if mode == "default" and not knows_nothing and not self.is_agents(name, session):
                continue
            if name in target:
                after[name] = target[name]
            elif not knows_nothing and not (mode == "default" and name in self.others):
                after.pop(name, None)
        return after

    def leave(self, name: str, session: str, before: str | None) -> None:
        """Note what an agent leaves at a name that held something, or nothing, before."""
        is_others = name not in self.left or name in self.others or self.left[name][0] is None
        if before is not None and is_others:
            self.others.add(name)
        else:
            self.others.discard(name)
        self.left[name] = (self.disk.get(name), session)


class Machine(RuleBasedStateMachine):
    """Do a step on the disk and in the model."""

    def __init__(self) -> None:
        super().__init__()
        self.area = Path(tempfile.mkdtemp(prefix="hc-model-", dir=os.environ["HERMES_MODEL_AREA"]))
        os.environ["HERMES_HOME"] = str(self.area / "hermes")
        self.project = self.area / "project"
        self.project.mkdir()
        self.model = Model()
        self.turn = dict.fromkeys(_SESSIONS, 0)
        self.served: dict[str, Files] = {}
        """By session: what the checkpoint of its turn holds."""
        self.product: InProcess = InProcess(self.project)

    def teardown(self) -> None:
        """End the home and clear up."""
        self._close()
        shutil.rmtree(self.area)

    def _close(self) -> None:
        if isinstance(self.product, Following):
            self.product.home.close()

    @initialize(following=st.booleans(), start=st.dictionaries(names, contents, max_size=3))
    def begin(self, *, following: bool, start: Files) -> None:
        """Opt a project in."""
        for name, content in start.items():
            self._write(name, content)
        self.product = Following(self.project) if following else InProcess(self.project)
        answer = self.product.ask("watch", action="add", path=str(self.project))
        self.model.checkpoints[answer["checkpoint"]["hash"]] = dict(self.model.disk)

    @rule()
    def restart(self) -> None:
        """End the service, or begin one."""
        following = isinstance(self.product, Following)
        self._close()
        self.product = InProcess(self.project) if following else Following(self.project)

    @rule(name=names, content=contents)
    def user_writes(self, name: str, content: str) -> None:
        """Write by hand."""
        self._write(name, content)

    @rule(name=names)
    def user_deletes(self, name: str) -> None:
        """Delete by hand."""
        self._delete(name)

    @rule(session=sessions)
    def begin_turn(self, session: str) -> None:
        """Give an agent a prompt."""
        self.turn[session] += 1
        self.served.pop(session, None)
        self._event("turn_start", session)

    @rule(session=sessions, name=names, content=contents)
    def agent_writes(self, session: str, name: str, content: str) -> None:
        """Have an agent write with a file tool."""
        self._note_checkpoint(session, self._event("before_tool", session, tool="write_file", paths=[name]))
        self._write(name, content)
        self._event("after_tool", session, tool="write_file", paths=[name], status="ok")
        self.model.leave(name, session, self.served[session].get(name))

    @rule(session=sessions, changes=st.dictionaries(names, contents | st.none(), min_size=1, max_size=3))
    def agent_runs(self, session: str, changes: dict[str, str | None]) -> None:
        """Have an agent change files by a shell command that names none of them."""
        call = {"tool": "terminal", "command": "make", "call": "c"}
        self._note_checkpoint(session, self._event("before_tool", session, **call))
        before = dict(self.model.disk)
        for name, content in changes.items():
            if content is None:
                self._delete(name)
            else:
                self._write(name, content)
        self._event("after_tool", session, **call, status="ok")
        for name in changes:
            if before.get(name) != self.model.disk.get(name):
                self.model.leave(name, session, before.get(name))

    @rule()
    def take(self) -> None:
        """Take a checkpoint by hand."""
        answer = self.product.ask("take")
        self.model.checkpoints[answer["checkpoint"]["hash"]] = dict(self.model.disk)

    @rule(place=st.integers(0, 3))
    def roll_back_as_usual(self, place: int) -> None:
        """Go back a little, hand edits kept."""
        self._roll_back(place, "default", "", None)

    @rule(session=sessions, name=names, contents=st.tuples(contents, contents))
    def user_corrects_an_agent(self, session: str, name: str, contents: tuple[str, str]) -> None:
        """Write by hand where an agent has just written, and go back."""
        self.begin_turn(session)
        self.agent_writes(session, name, contents[0])
        self._write(name, contents[1])
        self._roll_back(0, "default", "", None)

    @rule(
        place=places, mode=st.sampled_from(["default", "default", "all", "file"]), chosen=names,
        session=st.none() | sessions,
    )  # fmt: skip
    def roll_back(self, place: int, mode: str, chosen: str, session: str | None) -> None:
        """Go back to any checkpoint in any way."""
        self._roll_back(place, mode, chosen, session)

    def _roll_back(self, place: int, mode: str, chosen: str, session: str | None) -> None:
        listed = [each["hash"] for each in self.product.ask("rollback.list")["checkpoints"]]
        chosen_hash = listed[place % len(listed)]
        session = session if mode == "default" else None
        target, before = self.model.checkpoints[chosen_hash], dict(self.model.disk)
        if mode == "file" and chosen not in {**target, **before}:
            return
        after = self.model.roll_back(target, mode, chosen, session)
        arguments: dict[str, Any] = {"all": True} if mode == "all" else {"paths": [chosen]} if mode == "file" else {}
        plan = self.product.ask("rollback.restore", hash=chosen_hash, session=session, dry_run=True, **arguments)
        assert self._look() == before
        done = self.product.ask("rollback.restore", hash=chosen_hash, session=session, **arguments)
        assert done["success"], done
        assert (plan["restored_files"], plan["deleted_files"]) == (done["restored_files"], done["deleted_files"])
        self.model.disk = after
        if done["pre_rollback"] is not None:
            self.model.checkpoints[done["pre_rollback"]] = before
        changed = {name for name in {**before, **after} if before.get(name) != after.get(name)}
        said = {name for name in (*done["restored_files"], *done["deleted_files"]) if not name.endswith("/")}
        assert said == changed
        assert all(self.model.disk.get(name) == before.get(name) for name in done["skipped_user_edits"])
        assert done["left_in_place"] == []
        for name in changed:
            self.model.left[name] = (after.get(name), "")
            self.model.others.discard(name)
        if changed:
            self.served = {}

    @invariant()
    def the_disk_is_what_the_model_says(self) -> None:
        """Compare all files."""
        assert self._look() == self.model.disk

    @invariant()
    def every_listed_checkpoint_is_known(self) -> None:
        """Compare the newest checkpoint's content with the model's."""
        listed = self.product.ask("rollback.list")["checkpoints"]
        assert {each["hash"] for each in listed} <= self.model.checkpoints.keys()

    def _note_checkpoint(self, session: str, answer: dict[str, Any]) -> None:
        assert answer["ok"], answer
        if answer["why"] in (None, "unchanged"):
            self.served[session] = dict(self.model.disk)
            self.model.checkpoints[answer["checkpoint"]["hash"]] = dict(self.model.disk)
        else:
            assert answer["why"] == "already-this-turn", answer

    def _event(self, kind: str, session: str, **fields: object) -> dict[str, Any]:
        self.product.session = session
        return self.product.event(kind, turn=f"t{self.turn[session]}", **fields)

    def _write(self, name: str, content: str) -> None:
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        self.model.disk[name] = content

    def _delete(self, name: str) -> None:
        (self.project / name).unlink(missing_ok=True)
        self.model.disk.pop(name, None)

    def _look(self) -> Files:
        return {
            str(path.relative_to(self.project)): path.read_text()
            for path in sorted(self.project.rglob("*"))
            if path.is_file()
        }


@pytest.mark.usefixtures("without_flushes")
def test_any_history_is_what_the_model_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_MODEL_AREA", str(tmp_path))
    run_state_machine_as_test(
        Machine,
        settings=settings(
            settings.get_profile("quick"),
            max_examples=settings().max_examples,
            stateful_step_count=25,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )
