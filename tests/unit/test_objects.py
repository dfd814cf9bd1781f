"""Objects and refs of the store, in process."""

from __future__ import annotations

import hashlib
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store.entries import EMPTY_TREE, MODE_EXECUTABLE, MODE_FILE, MODE_GITLINK, MODE_LINK, MODE_TREE, Entry, Oid
from store.errors import CheckpointNotFoundError, GitFailedError, ObjectMissingError
from store.objects import Commit, ObjectStore, Tree, format_tree, parse_tree
from tests.support.stores import make_layout, make_objects

_NOWHERE = Oid(b"\x01" * 20)


@pytest.fixture
def objects(tmp_path: Path) -> ObjectStore:
    return make_objects(tmp_path)


def commit_of(tree: Oid, **changes: object) -> Commit:
    return replace(Commit(Oid(b""), tree, None, 1_700_000_000, 60, "before patch", {"v": 1}), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("content", [b"", b"text\n", b"a\r\nb\r\n", b"\0\xff" * 50, b"$Id$\n", bytes(300_000)])
def test_content_comes_back_byte_for_byte_under_gits_id(objects: ObjectStore, content: bytes) -> None:
    oid = objects.write_blob(content)
    assert oid == hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).digest()
    assert objects.read_blob(oid) == content
    assert objects.has(oid)


_names = st.binary(min_size=1, max_size=8).filter(lambda name: not set(name) & set(b"/\0"))
_entries = st.builds(
    Entry,
    st.sampled_from([MODE_FILE, MODE_EXECUTABLE, MODE_LINK, MODE_GITLINK, MODE_TREE]),
    st.binary(min_size=20, max_size=20).map(Oid),
)


@given(st.dictionaries(_names, _entries, max_size=8))
def test_any_tree_reads_back_as_it_was_formatted(tree: Tree) -> None:
    raw = format_tree(tree)
    assert parse_tree(raw) == tree
    assert format_tree(parse_tree(raw)) == raw


def test_the_empty_tree_is_known_without_being_stored(objects: ObjectStore) -> None:
    assert objects.read_tree(EMPTY_TREE) == {}
    assert objects.write_tree({}) == EMPTY_TREE


def test_a_missing_object_is_reported_by_its_id(objects: ObjectStore) -> None:
    for read in (objects.read_blob, objects.read_tree, objects.read_commit):
        with pytest.raises(ObjectMissingError, match=_NOWHERE.hex()):
            read(_NOWHERE)


def test_an_object_of_another_kind_is_no_checkpoint(objects: ObjectStore) -> None:
    blob = objects.write_blob(b"x")
    for read in (objects.read_tree, objects.read_commit):
        with pytest.raises(CheckpointNotFoundError):
            read(blob)


@pytest.mark.parametrize("damage", [b"", b"\0" * 40, b"garbage"])
def test_a_damaged_object_is_reported_as_missing(objects: ObjectStore, tmp_path: Path, damage: bytes) -> None:
    oid = objects.write_blob(b"content")
    path = tmp_path / "checkpoints" / "store" / "objects" / oid.hex()[:2] / oid.hex()[2:]
    path.chmod(0o600)
    path.write_bytes(damage)
    with pytest.raises(ObjectMissingError):
        make_objects(tmp_path).read_blob(oid)


_texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30)


@given(
    subject=_texts,
    seconds=st.integers(0, 2**40),
    offset_min=st.integers(-14 * 60, 14 * 60),
    note=st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5) | st.none(), max_size=3),
    has_parent=st.booleans(),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_commit_reads_back_as_it_was_written(
    objects: ObjectStore, subject: str, seconds: int, offset_min: int, note: dict[str, object], has_parent: bool
) -> None:
    parent = objects.write_commit(commit_of(objects.write_tree({}))) if has_parent else None
    commit = Commit(Oid(b""), EMPTY_TREE, parent, seconds, offset_min, subject, note)
    oid = objects.write_commit(commit)
    assert objects.read_commit(oid) == replace(commit, oid=oid)


def test_a_subject_with_bytes_that_are_not_utf8_can_be_written(objects: ObjectStore) -> None:
    oid = objects.write_commit(commit_of(objects.write_tree({}), subject=os.fsdecode(b"before write: \xff.py")))
    assert objects.read_commit(oid).subject == "before write: ?.py"


@pytest.mark.parametrize(
    "message",
    [b"", b"subject", b"subject\n", b"subject\n\nmore\n", b"subject\n\n{broken\n", b"subject\n\n{}\n", b"\xff\n\n\xff",
     b"subject\n\n[1]\n", b"subject\n\n" + b"[" * 50_000, b"subject\n\n{" + b'"a":{' * 50_000],
    ids=range(10),
)  # fmt: skip
def test_a_commit_of_another_program_is_read_without_a_note(
    objects: ObjectStore, tmp_path: Path, message: bytes
) -> None:
    objects.write_tree({})
    head = b"tree %s\nauthor A <a@b> -5 -0330\ncommitter B <b@c> 9 +0000\n\n" % EMPTY_TREE.hex().encode()
    commit = make_objects(tmp_path).read_commit(write_raw(tmp_path, b"commit", head + message))
    assert (commit.note, commit.parent, commit.seconds, commit.offset_min) == ({}, None, -5, -210)


def write_raw(tmp_path: Path, kind: bytes, content: bytes) -> Oid:
    """Put a loose object into the store, as another program would."""
    import zlib

    raw = b"%s %d\0%s" % (kind, len(content), content)
    oid = hashlib.sha1(raw, usedforsecurity=False).digest()
    path = tmp_path / "checkpoints" / "store" / "objects" / oid.hex()[:2] / oid.hex()[2:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(zlib.compress(raw))
    return Oid(oid)


def test_a_ref_is_made_moved_and_listed(objects: ObjectStore) -> None:
    one, two = objects.write_blob(b"1"), objects.write_blob(b"2")
    assert objects.read_ref("refs/hermes/x") is None
    objects.move_ref("refs/hermes/x", old=None, new=one)
    objects.move_ref("refs/hermes/x", old=one, new=two)
    objects.move_ref("refs/watch/x", old=None, new=one)
    assert objects.list_refs("refs/hermes/") == {"refs/hermes/x": two}
    assert objects.list_refs("refs/") == {"refs/hermes/x": two, "refs/watch/x": one}


def test_a_ref_that_is_not_as_expected_does_not_move(objects: ObjectStore) -> None:
    one, two = objects.write_blob(b"1"), objects.write_blob(b"2")
    with pytest.raises(GitFailedError):
        objects.move_ref("refs/hermes/x", old=one, new=two)
    objects.move_ref("refs/hermes/x", old=None, new=one)
    with pytest.raises(GitFailedError):
        objects.move_ref("refs/hermes/x", old=None, new=two)
    with pytest.raises(GitFailedError):
        objects.move_ref("refs/hermes/x", old=two, new=two)
    assert objects.read_ref("refs/hermes/x") == one


def test_a_ref_never_points_at_what_is_not_there(objects: ObjectStore) -> None:
    with pytest.raises(GitFailedError):
        objects.move_ref("refs/hermes/x", old=None, new=_NOWHERE)
    assert objects.read_ref("refs/hermes/x") is None


@pytest.mark.parametrize("damage", [b"", b"\0" * 41, b"not an id\n", b"ref: refs/hermes/nowhere\n"], ids=range(4))
def test_one_damaged_ref_does_not_hide_the_others(objects: ObjectStore, tmp_path: Path, damage: bytes) -> None:
    good = objects.write_blob(b"1")
    for name in ("a", "b", "c"):
        objects.move_ref(f"refs/hermes/{name}", old=None, new=good)
    (tmp_path / "checkpoints" / "store" / "refs" / "hermes" / "b").write_bytes(damage)
    listed = make_objects(tmp_path).list_refs("refs/hermes/")
    assert {"refs/hermes/a": good, "refs/hermes/c": good}.items() <= listed.items()


@pytest.mark.parametrize("damage", [b"", b"\0" * 41, b"not an id\n"], ids=range(3))
def test_a_damaged_ref_is_reported_in_our_own_words(objects: ObjectStore, tmp_path: Path, damage: bytes) -> None:
    objects.move_ref("refs/hermes/a", old=None, new=objects.write_blob(b"1"))
    (tmp_path / "checkpoints" / "store" / "refs" / "hermes" / "a").write_bytes(damage)
    try:
        assert make_objects(tmp_path).read_ref("refs/hermes/a") is None
    except GitFailedError:
        return


def test_a_directory_that_is_no_store_can_not_be_opened(tmp_path: Path) -> None:
    with pytest.raises(GitFailedError):
        ObjectStore(str(tmp_path / "none"))


def test_many_objects_are_written_into_one_pack_by_several_threads(tmp_path: Path) -> None:
    objects, oids = make_objects(tmp_path), {}
    contents = [b"%d" % number * 50 for number in range(200)]

    def write(part: list[bytes]) -> None:
        for content in part:
            oids[content] = objects.write_blob(content)

    with objects.in_one_pack():
        threads = [threading.Thread(target=write, args=(contents[start::4] + contents[:5],)) for start in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        tree = objects.write_tree({b"x": Entry(MODE_FILE, oids[contents[0]])})
        assert not make_objects(tmp_path).has(tree)
    fresh = make_objects(tmp_path)
    assert {content: fresh.read_blob(oid) for content, oid in oids.items()} == {each: each for each in contents}
    assert list(fresh.read_tree(tree)) == [b"x"]
    pack = Path(make_layout(tmp_path).store) / "objects" / "pack"
    assert sorted(path.suffix for path in pack.iterdir()) == [".idx", ".pack"]


def test_a_pack_that_is_broken_off_leaves_nothing(tmp_path: Path) -> None:
    objects = make_objects(tmp_path)

    def write_and_stop() -> None:
        with objects.in_one_pack():
            objects.write_blob(b"x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_and_stop()
    assert not objects.has(Oid(hashlib.sha1(b"blob 1\0x", usedforsecurity=False).digest()))
    assert list((Path(make_layout(tmp_path).store) / "objects" / "pack").iterdir()) == []
    assert objects.read_blob(objects.write_blob(b"x")) == b"x"


def test_a_pack_of_nothing_is_no_pack(tmp_path: Path) -> None:
    objects = make_objects(tmp_path)
    with objects.in_one_pack():
        pass
    assert list((Path(make_layout(tmp_path).store) / "objects" / "pack").iterdir()) == []
