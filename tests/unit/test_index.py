"""The stat cache: git's own format, read back exactly, and as good as none when it is damaged."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store.entries import EMPTY_TREE, MODE_EXECUTABLE, MODE_FILE, MODE_GITLINK, MODE_LINK, Entry, Oid
from store.index import (
    Beside,
    Signature,
    StatCache,
    entries_of,
    is_racy,
    load_index,
    load_summary,
    mode_of,
    save_index,
    sign,
    smudge,
)
from store.permissions import Permissions

if TYPE_CHECKING:
    from collections.abc import Callable

_TREE = Oid(b"\x07" * 20)
_MODES = [MODE_FILE, MODE_EXECUTABLE, MODE_LINK, MODE_GITLINK]

_paths = st.lists(
    st.binary(min_size=1, max_size=12).filter(lambda name: not set(name) & set(b"/\0")), min_size=1, max_size=3
).map(b"/".join)
_entries = st.builds(Entry, st.sampled_from(_MODES), st.binary(min_size=20, max_size=20).map(Oid))


def with_modes(entry: Entry, stat_data: bytes) -> tuple[Signature, Oid]:
    known, oid = entries_of({b"x": entry})[b"x"]
    return stat_data[:24] + known[24:28] + stat_data[28:], oid


_known = st.builds(with_modes, _entries, st.binary(min_size=40, max_size=40))
_caches = st.builds(
    StatCache,
    st.binary(min_size=20, max_size=20).map(Oid),
    st.dictionaries(_paths, _known, max_size=6),
    st.builds(
        Beside,
        st.text("0123456789abcdef", max_size=8),
        st.dictionaries(_paths, st.sampled_from(["too-large", "special-file"]), max_size=3),
        st.builds(Permissions, st.integers(0, 0o7777), st.dictionaries(_paths, st.integers(0, 0o7777), max_size=3)),
        st.frozensets(_paths, max_size=3),
        st.dictionaries(_paths, st.sampled_from(["1 2 3 4", "racy"]), max_size=2),
        st.frozensets(_paths, max_size=2),
    ),
)


@given(_caches)
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_cache_comes_back_as_it_was_saved(tmp_path: Path, cache: StatCache) -> None:
    path = str(tmp_path / "index")
    save_index(path, cache)
    assert load_index(path) == cache
    summary = load_summary(path)
    assert summary is not None
    assert (summary.tree, summary.file_count) == (cache.tree, len(cache.entries))
    assert summary.beside == cache.beside


@pytest.mark.parametrize("length", [1, 7, 8, 9, 0xFFE, 0xFFF, 0x1000, 5000])
def test_names_of_any_length_come_back(tmp_path: Path, length: int) -> None:
    path, name = str(tmp_path / "index"), b"n" * length
    cache = StatCache(_TREE, entries_of({name: Entry(MODE_FILE, _TREE), name + b"/x": Entry(MODE_LINK, _TREE)}))
    save_index(path, cache)
    assert load_index(path) == cache


def test_entries_stand_in_gits_order(tmp_path: Path) -> None:
    names = [b"b", b"a/x", b"a-b", b"a.txt", b"a0", b"\xff", b"A"]
    save_index(str(tmp_path / "index"), StatCache(_TREE, entries_of(dict.fromkeys(names, Entry(MODE_FILE, _TREE)))))
    cache = load_index(str(tmp_path / "index"))
    assert cache is not None
    assert list(cache.entries) == [b"A", b"a-b", b"a.txt", b"a/x", b"a0", b"b", b"\xff"]


def test_the_file_is_the_users_alone_and_no_cache_is_nothing(tmp_path: Path) -> None:
    assert load_index(str(tmp_path / "none")) is None
    assert load_summary(str(tmp_path / "none")) is None
    save_index(str(tmp_path / "indexes" / "x"), StatCache(EMPTY_TREE))
    assert stat.S_IMODE((tmp_path / "indexes" / "x").stat().st_mode) == 0o600


def index_of(tmp_path: Path) -> bytes:
    entries = entries_of({b"a": Entry(MODE_FILE, _TREE), b"sub/b": Entry(MODE_EXECUTABLE, _TREE)})
    save_index(str(tmp_path / "index"), StatCache(_TREE, entries, Beside("d1", {b"big": "too-large"})))
    return (tmp_path / "index").read_bytes()


def load_both(tmp_path: Path, raw: bytes) -> tuple[object, object]:
    (tmp_path / "index").write_bytes(raw)
    return load_index(str(tmp_path / "index")), load_summary(str(tmp_path / "index"))


def test_a_damaged_byte_anywhere_makes_the_cache_worthless(tmp_path: Path) -> None:
    raw = index_of(tmp_path)
    for place in range(len(raw)):
        damaged = raw[:place] + bytes([raw[place] ^ 0x55]) + raw[place + 1 :]
        assert load_both(tmp_path, damaged) == (None, None), place


def test_a_cache_cut_off_anywhere_is_worthless(tmp_path: Path) -> None:
    raw = index_of(tmp_path)
    for end in range(len(raw)):
        assert load_both(tmp_path, raw[:end]) == (None, None), end


@pytest.mark.parametrize("content", [b"", b"\0" * 500, b"DIRC", b"DIRC\0\0\0\x02" + b"\0" * 40], ids=range(4))
def test_what_is_no_index_is_as_good_as_none(tmp_path: Path, content: bytes) -> None:
    assert load_both(tmp_path, content) == (None, None)


def sealed(body: bytes) -> bytes:
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


@given(place=st.integers(0, 400), change=st.binary(min_size=1, max_size=8))
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_index_that_another_program_wrote_in_its_own_way_never_raises(
    tmp_path: Path, place: int, change: bytes
) -> None:
    body = index_of(tmp_path)[:-20]
    load_both(tmp_path, sealed(body[:place] + change + body[place + len(change) :]))


@pytest.mark.parametrize("note", [b"", b"[]", b"null", b"{", b'{"left_out": []}', b'{"left_out": {"\\ud800": "x"}}'])
def test_a_note_of_ours_that_cannot_be_understood_never_raises(tmp_path: Path, note: bytes) -> None:
    body = index_of(tmp_path)[:-20]
    start = body.index(b"HCKP")
    size = int.from_bytes(body[start + 4 : start + 8], "big")
    changed = body[:start] + b"HCKP" + len(note).to_bytes(4, "big") + note + body[start + 8 + size :]
    load_both(tmp_path, sealed(changed))


def test_a_tree_that_git_marked_invalid_is_not_trusted(tmp_path: Path) -> None:
    body = index_of(tmp_path)[:-20]
    start = body.index(b"TREE")
    size = int.from_bytes(body[start + 4 : start + 8], "big")
    invalid = b"TREE" + (6).to_bytes(4, "big") + b"\0-1 0\n"
    assert load_both(tmp_path, sealed(body[:start] + invalid + body[start + 8 + size :])) == (None, None)


def test_an_index_with_unmerged_entries_is_not_used(tmp_path: Path) -> None:
    body = bytearray(index_of(tmp_path)[:-20])
    body[12 + 60] |= 0x10
    (tmp_path / "index").write_bytes(sealed(bytes(body)))
    assert load_index(str(tmp_path / "index")) is None


def look_after(path: Path, change: Callable[[], object]) -> tuple[bytes, bytes]:
    before = sign(path.lstat(), MODE_FILE)
    change()
    return before, sign(path.lstat(), MODE_FILE)


def test_a_file_that_was_left_alone_has_the_same_signature(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    before, after = look_after(path, path.read_bytes)
    assert before == after
    assert len(before) == 40


def test_a_changed_file_has_another_signature_though_its_size_and_time_are_put_back(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    os.utime(path, ns=(1, 1_000_000_000_000_000_001))

    def replace_in_place() -> None:
        path.write_bytes(b"new")
        os.utime(path, ns=(1, 1_000_000_000_000_000_001))

    before, after = look_after(path, replace_in_place)
    assert before != after


@pytest.mark.parametrize("time_ns", [-5_000_000_000, -1, 0, 2**32 * 10**9 + 5, 2**33 * 10**9])
def test_times_before_1970_and_after_2106_have_signatures(tmp_path: Path, time_ns: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    try:
        os.utime(path, ns=(time_ns, time_ns))
    except OSError:
        pytest.skip("this file system knows no such time")
    assert len(sign(path.lstat(), MODE_FILE)) == 40


@pytest.mark.parametrize("content", [b"x", b""])
def test_a_smudged_signature_fits_no_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    signature = sign(path.lstat(), MODE_FILE)
    assert smudge(signature) != signature
    assert smudge(signature)[36:] == bytes(4)
    assert smudge(signature)[:8] == bytes(8)
    assert smudge(signature)[8:36] == signature[8:36]


@pytest.mark.parametrize(
    ("mtime_ns", "read_after_ns", "racy"),
    [
        (1_000_000_500, 1_000_000_500, True),
        (1_000_000_500, 1_010_000_000, True),
        (1_000_000_500, 1_100_000_000, False),
        (1_000_000_500, 900_000_000, True),
        (1_000_000_000, 2_900_000_000, True),
        (1_000_000_000, 3_100_000_000, False),
    ],
)
def test_a_file_read_soon_after_it_changed_is_racy(
    tmp_path: Path, mtime_ns: int, read_after_ns: int, racy: bool
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    status = path.lstat()
    fields = list(status)
    attributes = {"st_mtime_ns": mtime_ns, "st_ctime_ns": mtime_ns - 1 if mtime_ns % 10**9 else 0}
    assert is_racy(os.stat_result(fields, attributes), read_after_ns) is racy


def test_a_file_whose_time_was_put_back_is_racy_by_its_change_time(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    os.utime(path, ns=(1, 1))
    assert is_racy(path.lstat(), path.lstat().st_ctime_ns)


def test_only_files_and_links_have_a_mode(tmp_path: Path) -> None:
    plain, script, odd, link, fifo = (tmp_path / name for name in ("plain", "script", "odd", "link", "fifo"))
    for path, bits in ((plain, 0o644), (script, 0o700), (odd, 0o611)):
        path.write_bytes(b"")
        path.chmod(bits)
    link.symlink_to("nowhere")
    os.mkfifo(fifo)
    modes = [mode_of(path.lstat()) for path in (plain, script, odd, link, fifo, tmp_path)]
    assert modes == [MODE_FILE, MODE_EXECUTABLE, MODE_FILE, MODE_LINK, None, None]


def test_an_entry_tells_what_the_tree_has_at_its_path() -> None:
    entries = {mode: Entry(mode, Oid(mode.ljust(20))) for mode in _MODES}
    cache = StatCache(_TREE, entries_of(entries))
    assert {mode: cache.entry(mode) for mode in _MODES} == entries
    assert cache.entry(b"other") is None
