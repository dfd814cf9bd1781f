"""Sessions on disk: what others wrote or damaged is taken for what it is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from store.layout import ProjectHash
from watcher.sessions import Sessions
from watcher.turns import OpenCall, Session, Turn, begin_call, mark_served

if TYPE_CHECKING:
    from pathlib import Path

P, Q = ProjectHash("a" * 16), ProjectHash("b" * 16)
OID, OTHER = "1" * 40, "2" * 40


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "sessions"


def make_session() -> Session:
    session = mark_served(Session((Turn("t1"),), last_event=1000.0), "t1", P, OID)
    return begin_call(session, "c", OpenCall({P: OTHER}, "t1", "terminal", 999.0))


def test_what_is_kept_is_found_again_by_another_process(folder: Path) -> None:
    Sessions(str(folder)).keep("s", make_session())
    assert Sessions(str(folder)).find("s") == make_session()


def test_a_rollback_reopens_the_turns_of_every_session(folder: Path) -> None:
    for name in ("one", "two"):
        Sessions(str(folder)).keep(name, mark_served(make_session(), "t1", Q, OTHER))
    Sessions(str(folder)).reopen(P, notice="it was rolled back")
    for name in ("one", "two"):
        found = Sessions(str(folder)).find(name)
        assert found is not None
        assert (found.find_served("t1", P), found.find_served("t1", Q)) == (None, OTHER)
        assert found.notices == ("it was rolled back",)
        assert [json.loads(path.read_text())["name"] for path in folder.iterdir()].count(name) == 1


def test_a_time_that_went_back_is_kept(folder: Path) -> None:
    sessions = Sessions(str(folder))
    sessions.keep("s", Session((Turn("t1"),), last_event=10_000.0))
    sessions.keep("s", Session((Turn("t1"),), last_event=10.0))
    found = Sessions(str(folder)).find("s")
    assert found is not None
    assert found.last_event == 10.0


@pytest.mark.parametrize("damaged", ["zz", "11", "", OID + "0", OID.upper()[:-1] + "G", 7, None, [], {"a": 1}])
def test_an_id_that_is_none_counts_as_not_said(folder: Path, damaged: object) -> None:
    Sessions(str(folder)).keep("s", make_session())
    (file,) = folder.iterdir()
    raw = json.loads(file.read_text())
    raw["turns"][0]["served"][P] = damaged
    raw["open_calls"]["c"]["states"] = {P: damaged, Q: OTHER}
    file.write_text(json.dumps(raw))
    found = Sessions(str(folder)).find("s")
    assert found is not None
    assert found.find_served("t1", P) is None
    assert found.open_calls["c"].states == {Q: OTHER}


@pytest.mark.parametrize("damaged", ["soon", 10**40, True, None, []])
def test_a_time_that_is_none_counts_as_long_ago(folder: Path, damaged: object) -> None:
    Sessions(str(folder)).keep("s", make_session())
    (file,) = folder.iterdir()
    file.write_text(json.dumps(json.loads(file.read_text()) | {"last_event": damaged}))
    found = Sessions(str(folder)).find("s")
    assert found is not None
    assert found.last_event == 0.0
