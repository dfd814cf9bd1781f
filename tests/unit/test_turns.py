"""When a turn begins, for agents that say so and for those that don't."""

from __future__ import annotations

from store.layout import ProjectHash
from watcher.events import Event, EventKind
from watcher.turns import (
    NOT_BY_NAME,
    OpenCall,
    Session,
    advance,
    begin_call,
    count_turns_since,
    end_call,
    mark_served,
    reopen,
)

P, Q = ProjectHash("p" * 16), ProjectHash("q" * 16)


def follow(*events: tuple[Event, float], session: Session | None = None) -> tuple[Session, list[str]]:
    """Return a session after some events at some times, and the turn of each."""
    turns = []
    for event, at in events:
        session, turn = advance(session, event, now=at, idle_gap_s=60)
        turns.append(turn)
    assert session is not None
    return session, turns


BEFORE = Event(EventKind.BEFORE_TOOL)
START = Event(EventKind.TURN_START)
END = Event(EventKind.TURN_END)


def named(turn: str) -> Event:
    return Event(EventKind.BEFORE_TOOL, turn=turn)


def test_the_agents_own_name_for_a_turn_counts() -> None:
    _, turns = follow((named("a"), 0), (named("a"), 1000), (named("b"), 1001))
    assert turns == ["a", "a", "b"]


def test_a_call_that_comes_late_belongs_to_its_own_turn() -> None:
    session, turns = follow((named("a"), 0), (named("b"), 1), (named("a"), 2), (BEFORE, 3))
    assert turns == ["a", "b", "a", "b"]
    assert [turn.name for turn in session.turns] == ["a", "b"]


def test_an_announced_turn_lasts_until_the_next_one_however_long_it_takes() -> None:
    _, turns = follow((START, 0), (BEFORE, 1), (BEFORE, 10_000), (START, 10_001), (BEFORE, 10_002))
    assert turns == ["t1", "t1", "t1", "t2", "t2"]


def test_work_after_an_announced_end_is_a_new_turn() -> None:
    _, turns = follow((BEFORE, 0), (END, 1), (BEFORE, 2), (BEFORE, 3))
    assert turns == ["t1", "t1", "t2", "t2"]


def test_a_pause_ends_the_turn_of_an_agent_that_announces_none() -> None:
    _, turns = follow((BEFORE, 0), (BEFORE, 60), (BEFORE, 120.5))
    assert turns == ["t1", "t1", "t2"]


def test_the_clock_going_back_a_little_ends_nothing() -> None:
    _, turns = follow((BEFORE, 1000), (BEFORE, 990), (BEFORE, 1010))
    assert turns == ["t1", "t1", "t1"]


def test_the_clock_going_back_far_may_hide_a_pause_and_stops_no_later_turn() -> None:
    _, turns = follow((BEFORE, 10_000), (BEFORE, 10), (BEFORE, 20), (BEFORE, 100), (BEFORE, 110), (BEFORE, 200))
    assert turns == ["t1", "t2", "t2", "t3", "t3", "t4"]


def test_the_clock_going_back_ends_no_turn_that_the_agent_announces() -> None:
    _, turns = follow((START, 10_000), (BEFORE, 10), (BEFORE, 1000))
    assert turns == ["t1", "t1", "t1"]


def test_a_turn_is_served_once_for_each_project() -> None:
    session, (turn,) = follow((named("a"), 0))
    session = mark_served(session, turn, P, "11")
    assert session.find_served("a", P) == "11"
    assert session.find_served("a", Q) is None
    assert session.find_served("b", P) is None


def test_after_a_rollback_every_turn_may_be_served_again() -> None:
    session, _ = follow((named("a"), 0), (named("b"), 1))
    for turn, checkpoint in (("a", "11"), ("b", "22")):
        session = mark_served(session, turn, P, checkpoint)
    session = reopen(mark_served(session, "b", Q, "33"), P, "it was rolled back")
    assert [session.find_served(turn, P) for turn in ("a", "b")] == [None, None]
    assert session.find_served("b", Q) == "33"
    assert count_turns_since(session, P, {"22", "11"}) == 2
    session = mark_served(session, "b", P, "44")
    assert [session.find_served(turn, P) for turn in ("a", "b")] == [None, "44"]


def test_turns_are_counted_back_to_the_checkpoint() -> None:
    session, _ = follow((named("a"), 0), (named("b"), 1), (named("c"), 2))
    for turn, checkpoint in (("a", "11"), ("b", "22"), ("c", "33")):
        session = mark_served(session, turn, P, checkpoint)
    assert count_turns_since(session, P, {"33"}) == 1
    assert count_turns_since(session, P, {"33", "22"}) == 2
    assert count_turns_since(session, P, {"44"}) == 0
    assert count_turns_since(session, Q, {"33"}) == 0


def test_a_session_remembers_a_limited_number_of_turns() -> None:
    session, _ = follow(*((named(f"turn {number}"), number) for number in range(500)))
    assert len(session.turns) == 50
    assert session.turns[-1].name == "turn 499"


def test_a_call_is_open_until_it_ends() -> None:
    session = begin_call(Session(), "c", OpenCall({P: "11"}, "t", "terminal"))
    assert "c" in session.open_calls
    assert "c" not in end_call(session, "c", P).open_calls


def test_a_call_in_two_projects_ends_in_each() -> None:
    session = begin_call(Session(), "c", OpenCall({P: "11"}, "t", "terminal"))
    session = begin_call(session, "c", OpenCall({Q: "22"}, "t", "terminal"))
    assert session.open_calls["c"].states == {P: "11", Q: "22"}
    assert end_call(session, "c", P).open_calls["c"].states == {Q: "22"}
    assert not end_call(end_call(session, "c", P), "c", Q).open_calls


def test_of_calls_without_ids_the_first_state_counts_until_all_have_ended() -> None:
    session = begin_call(Session(), "", OpenCall({P: "11"}, "t", "terminal"))
    session = begin_call(session, "", OpenCall({P: "22"}, "t", "terminal"))
    session = end_call(session, "", P)
    assert session.open_calls[NOT_BY_NAME].states == {P: "11"}
    assert not end_call(session, "", P).open_calls


def test_a_call_that_is_announced_twice_ends_once() -> None:
    session = begin_call(Session(), "c", OpenCall({P: "11"}, "t", "terminal"))
    session = begin_call(session, "c", OpenCall({P: "22"}, "t", "terminal"))
    assert session.open_calls["c"].states == {P: "11"}
    assert not end_call(session, "c", P).open_calls
