"""The table of who keeps what, row by row."""

from __future__ import annotations

import pytest

from store.entries import DIRECTORY, MODE_FILE, MODE_GITLINK, Entry, Node, Oid
from store.ledger import Author
from store.plan import LeftInPlace, Mode, Standing, plan_rollback

OLD = Node(Entry(MODE_FILE, Oid(b"o" * 20)), 0o644)
NEW = Node(Entry(MODE_FILE, Oid(b"n" * 20)), 0o644)
OTHER_BITS = Node(OLD.entry, 0o600)
FOLDER = Node(DIRECTORY, 0o755)
NESTED = Node(Entry(MODE_GITLINK, Oid(b"g" * 20)))

WRITE, REMOVE, KEEP, LEAVE = "write", "remove", "keep", "leave"


def outcome(mode: Mode, *standings: Standing, uncaptured: frozenset[bytes] = frozenset()) -> dict[bytes, str]:
    plan = plan_rollback(standings, mode, uncaptured)
    return {
        **dict.fromkeys(plan.write, WRITE),
        **dict.fromkeys(plan.remove, REMOVE),
        **dict.fromkeys(plan.kept, KEEP),
        **{left.path: LEAVE for left in plan.left},
    }


@pytest.mark.parametrize(
    ("target", "current", "author", "default", "everything", "selected"),
    [
        (OLD, NEW, Author.AGENT, WRITE, WRITE, WRITE),
        (OLD, OTHER_BITS, Author.AGENT, WRITE, WRITE, WRITE),
        (OLD, OTHER_BITS, Author.USER, KEEP, WRITE, WRITE),
        (OLD, FOLDER, Author.AGENT, WRITE, WRITE, WRITE),
        (FOLDER, OLD, Author.AGENT, WRITE, WRITE, WRITE),
        (FOLDER, None, Author.AGENT, WRITE, WRITE, WRITE),
        (FOLDER, None, Author.UNKNOWN, KEEP, WRITE, WRITE),
        (None, FOLDER, Author.AGENT, REMOVE, REMOVE, REMOVE),
        (None, FOLDER, Author.UNKNOWN, KEEP, REMOVE, REMOVE),
        (OLD, None, Author.AGENT, WRITE, WRITE, WRITE),
        (OLD, NEW, Author.USER, KEEP, WRITE, WRITE),
        (OLD, None, Author.USER, KEEP, WRITE, WRITE),
        (OLD, NEW, Author.UNKNOWN, KEEP, WRITE, WRITE),
        (OLD, None, Author.UNKNOWN, KEEP, WRITE, WRITE),
        (None, NEW, Author.AGENT, REMOVE, REMOVE, REMOVE),
        (None, NEW, Author.USER, KEEP, REMOVE, REMOVE),
        (None, NEW, Author.UNKNOWN, KEEP, REMOVE, REMOVE),
    ],
)
def test_each_row_of_the_table(
    target: Node | None, current: Node | None, author: Author, default: str, everything: str, selected: str
) -> None:
    standing = Standing(b"f", target, current, author)
    assert outcome(Mode.DEFAULT, standing) == {b"f": default}
    assert outcome(Mode.ALL, standing) == {b"f": everything}
    assert outcome(Mode.SELECTED, standing) == {b"f": selected}


def test_without_a_ledger_everything_recorded_comes_back_and_nothing_is_removed() -> None:
    changed = Standing(b"changed", OLD, NEW, Author.UNKNOWN)
    created = Standing(b"created", None, NEW, Author.UNKNOWN)
    assert outcome(Mode.EVERYTHING_RECORDED, changed, created) == {b"changed": WRITE, b"created": KEEP}


@pytest.mark.parametrize("mode", list(Mode))
def test_a_nested_repository_is_never_removed(mode: Mode) -> None:
    assert outcome(mode, Standing(b"nested", None, NESTED, Author.AGENT)) == {b"nested": LEAVE}


@pytest.mark.parametrize("mode", list(Mode))
def test_what_could_not_be_recorded_is_never_overwritten(mode: Mode) -> None:
    standing = Standing(b"f", OLD, None, Author.AGENT, obstacle="it can't be read")
    assert plan_rollback([standing], mode, ()).left == [LeftInPlace(b"f", "it can't be read")]


def test_a_file_does_not_come_back_where_a_directory_holds_what_the_user_made() -> None:
    back = Standing(b"d", OLD, None, Author.AGENT)
    mine = Standing(b"d/mine", None, NEW, Author.USER)
    assert outcome(Mode.DEFAULT, back, mine) == {b"d": LEAVE, b"d/mine": KEEP}
    assert outcome(Mode.ALL, back, mine) == {b"d": WRITE, b"d/mine": REMOVE}


def test_a_file_does_not_come_back_where_a_directory_holds_what_no_checkpoint_holds() -> None:
    back = Standing(b"d", OLD, None, Author.AGENT)
    for mode in Mode:
        assert outcome(mode, back, uncaptured=frozenset({b"d"})) == {b"d": LEAVE}


def test_a_file_does_not_come_back_below_a_file_that_the_user_made() -> None:
    back = Standing(b"d/f", OLD, None, Author.AGENT)
    mine = Standing(b"d", None, NEW, Author.USER)
    assert outcome(Mode.DEFAULT, back, mine) == {b"d/f": LEAVE, b"d": KEEP}
    assert outcome(Mode.ALL, back, mine) == {b"d/f": WRITE, b"d": REMOVE}


def test_a_directory_that_stays_is_not_in_the_way_of_what_goes_into_it() -> None:
    bits = Standing(b"d", Node(DIRECTORY, 0o755), Node(DIRECTORY, 0o700), Author.USER)
    below = Standing(b"d/f", OLD, None, Author.AGENT)
    assert outcome(Mode.DEFAULT, bits, below) == {b"d": KEEP, b"d/f": WRITE}


def test_what_stays_in_a_directory_is_not_in_the_way_of_its_bits() -> None:
    bits = Standing(b"d", Node(DIRECTORY, 0o755), Node(DIRECTORY, 0o700), Author.AGENT)
    mine = Standing(b"d/mine", None, NEW, Author.USER)
    assert outcome(Mode.DEFAULT, bits, mine) == {b"d": WRITE, b"d/mine": KEEP}
