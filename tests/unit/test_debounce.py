"""When changes that nobody announced are looked at, and when they begin a burst."""

from __future__ import annotations

import pytest

from watcher.debounce import Changes, Pace, calm_down, next_look, note_change, note_look, note_restless

PACE = Pace(quiet_s=0.3, idle_gap_s=60, max_wait_s=30)
LOG = frozenset({b"app.log"})


def change(*times: float, after: Changes | None = None) -> Changes:
    changes = after or Changes()
    for now in times:
        changes = note_change(changes, now, PACE)
    return changes


def test_nothing_is_looked_at_while_nothing_changes() -> None:
    assert next_look(Changes(), PACE) is None
    assert next_look(note_look(change(1), LOG, 2), PACE) is None


def test_a_burst_is_looked_at_when_it_is_quiet() -> None:
    assert next_look(change(100), PACE) == pytest.approx(100.3)
    assert next_look(change(100, 100.2, 100.4), PACE) == pytest.approx(100.7)


def test_constant_change_is_looked_at_after_the_longest_wait() -> None:
    assert next_look(change(*(100 + number / 5 for number in range(1000))), PACE) == pytest.approx(130)


def test_a_burst_that_goes_on_is_looked_at_again_when_it_is_over() -> None:
    looked = note_look(change(100), frozenset({b"a"}), 100.3)
    again = change(105, 110, after=looked)
    assert next_look(again, PACE) == pytest.approx(135), "the longest wait after 105 is over before a gap after 110"
    late = note_look(change(after=looked), frozenset(), 101)
    for _ in range(4):
        late = note_look(change(110, after=late), frozenset(), 110)
    assert next_look(change(111, after=late), PACE) == pytest.approx(171), "a gap after 111"


def test_a_gap_begins_another_burst() -> None:
    looked = note_look(change(100), frozenset({b"a"}), 100.3)
    assert change(161, after=looked).look_count == 0
    assert change(160, after=looked).look_count == 1


def test_what_never_rests_keeps_no_burst_alive() -> None:
    changes, now = Changes(), 100.0
    for _ in range(3):
        changes = note_look(change(now, after=changes), LOG, now + 1)
        now += 2
    assert changes.restless == LOG
    assert next_look(note_restless(changes, now), PACE) is None


def test_looks_at_a_burst_without_end_become_rare() -> None:
    changes, now, looks = Changes(), 0.0, 0
    while now < 24 * 3600:
        changes = change(now, after=changes)
        at = next_look(changes, PACE)
        assert at is not None
        if now >= at:
            changes, looks = note_look(changes, {b"%d" % looks}, now), looks + 1
        now += 5
    assert looks < 60


def test_what_rests_again_counts_again() -> None:
    changes = note_restless(Changes(restless=LOG), 100)
    assert calm_down(changes, 150, PACE).restless == LOG
    assert not calm_down(changes, 161, PACE).restless
