"""What goes and what stays, against a brute force over every case."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from store.layout import ProjectHash
from store.mounts import WorkdirState
from store.retention import (
    Candidate,
    Verdict,
    count_drops,
    decide_project,
    is_from_other_clock,
    is_stale,
    is_sweep_due,
    list_droppable,
)

_HASH = ProjectHash("0" * 16)


_CANDIDATES = st.builds(
    Candidate,
    hash=st.just(_HASH),
    workdir=st.sampled_from(["/x", None]),
    last_touch=st.floats(0, 1e9),
    state=st.sampled_from(WorkdirState),
    is_cut_off=st.booleans(),
)


@given(_CANDIDATES, st.floats(0, 1e9), st.floats(0, 1000), st.booleans())
def test_a_project_goes_only_when_stale_or_a_confirmed_orphan(
    candidate: Candidate, now: float, days: float, confirmed: bool
) -> None:
    decision = decide_project(candidate, now=now, retention_days=days, confirmed={_HASH} if confirmed else ())
    may_go = candidate.workdir is not None and not candidate.is_cut_off
    is_old = days > 0 and candidate.last_touch < now - days * 86400
    assert (decision.verdict is Verdict.ORPHAN) == (may_go and confirmed and candidate.state is WorkdirState.ORPHAN)
    assert (decision.verdict is Verdict.STALE) == (may_go and is_old and candidate.state is not WorkdirState.ORPHAN)
    assert decision.reason


def test_zero_days_keep_everything_and_the_limit_itself_is_kept() -> None:
    assert not is_stale(0, now=1e9, retention_days=0)
    assert not is_stale(1e9 - 7 * 86400, now=1e9, retention_days=7)
    assert is_stale(1e9 - 7 * 86400 - 1, now=1e9, retention_days=7)


def test_a_sweep_is_due_after_its_interval_or_when_its_time_is_from_another_clock() -> None:
    assert is_sweep_due(None, now=1000.0, interval_s=60)
    assert not is_sweep_due(950.0, now=1000.0, interval_s=60)
    assert is_sweep_due(940.0, now=1000.0, interval_s=60)
    assert not is_sweep_due(1010.0, now=1000.0, interval_s=60)
    assert is_sweep_due(90_000.0, now=1000.0, interval_s=60)
    assert is_from_other_clock(90_000.0, now=1000.0)


@given(st.dictionaries(st.text(max_size=2), st.integers(0, 6).map(lambda count: list(range(count))), max_size=5))
def test_checkpoints_go_round_by_round_and_each_history_keeps_one(histories: dict[str, list[int]]) -> None:
    order = list_droppable(histories)
    left = {name: list(history) for name, history in histories.items()}
    expected: list[str] = []
    while any(len(history) > 1 for history in left.values()):
        for name, history in left.items():
            if len(history) > 1:
                history.pop()
                expected.append(name)
    assert order == expected


@given(st.lists(st.integers(0, 50), max_size=12), st.integers(-5, 300))
def test_never_more_go_at_once_than_are_needed(freed: list[int], excess: int) -> None:
    count = count_drops(freed, excess)
    sums = [0, *accumulate(freed)]
    assert 0 <= count <= len(freed)
    if excess <= 0 or not freed:
        assert count == 0
    elif sums[-1] < excess:
        assert count == len(freed)
    else:
        needed = next(place for place, total in enumerate(sums) if total >= excess)
        assert count == max(1, needed - 1)
