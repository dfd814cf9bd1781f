"""Small files that survive a crash, and JSON that is read back or refused."""

from __future__ import annotations

import errno
import json
import os
import stat
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store.errors import CorruptFileError
from store.files import (
    find_free_bytes,
    flush_file_system,
    is_disk_full,
    make_private_directory,
    measure_bytes,
    read_file,
    read_json_object,
    write_atomically,
    write_json,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def permissions(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.usefixtures("usual_umask")
def test_a_private_directory_and_every_new_one_above_it_are_the_users_alone(tmp_path: Path) -> None:
    make_private_directory(str(tmp_path / "a" / "b" / "c"))
    made = [tmp_path / "a" / "b" / "c", tmp_path / "a" / "b", tmp_path / "a"]
    assert [permissions(directory) for directory in made] == [0o700, 0o700, 0o700]


def test_a_directory_that_exists_keeps_its_permissions(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir(mode=0o755)
    (tmp_path / "shared").chmod(0o755)
    make_private_directory(str(tmp_path / "shared"))
    assert permissions(tmp_path / "shared") == 0o755


def test_many_threads_make_the_same_directory_at_once(tmp_path: Path) -> None:
    target, failures = str(tmp_path / "x" / "y" / "z"), []
    start = threading.Barrier(8)

    def make() -> None:
        start.wait(10)
        try:
            make_private_directory(target)
        except OSError as error:
            failures.append(error)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert failures == []
    assert os.path.isdir(target)


@pytest.mark.usefixtures("usual_umask")
@pytest.mark.parametrize("flush", [True, False])
def test_a_file_is_replaced_whole_and_readable_by_the_user_alone(tmp_path: Path, flush: bool) -> None:
    path = tmp_path / "new" / "file"
    write_atomically(str(path), b"old", flush=flush)
    write_atomically(str(path), b"new", flush=flush)
    assert path.read_bytes() == b"new"
    assert permissions(path) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["file"]


def test_a_reader_sees_the_old_content_or_the_new_and_never_a_part(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    contents = [bytes([letter]) * 200_000 for letter in b"ab"]
    write_atomically(path, contents[0])
    done = threading.Event()

    def rewrite() -> None:
        for number in range(100):
            write_atomically(path, contents[number % 2], flush=False)
        done.set()

    writer = threading.Thread(target=rewrite)
    writer.start()
    seen = set()
    while not done.is_set():
        seen.add(read_file(path))
    writer.join(10)
    assert seen <= set(contents)


def test_a_write_that_fails_leaves_nothing_aside(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_atomically(str(tmp_path / "taken"), b"content")
    assert [each.name for each in tmp_path.iterdir() if each.name not in ("home", "taken")] == []


def test_a_link_is_replaced_and_its_target_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"theirs")
    (tmp_path / "link").symlink_to("target")
    write_atomically(str(tmp_path / "link"), b"ours")
    assert (tmp_path / "target").read_bytes() == b"theirs"
    assert not (tmp_path / "link").is_symlink()


def test_a_missing_file_is_nothing(tmp_path: Path) -> None:
    assert read_file(str(tmp_path / "none")) is None
    assert read_json_object(str(tmp_path / "none")) is None


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\0" * 64, b"[]", b"null", b"1", b'"x"', b"{", b'{"a": }', b"\xff\xfe{}", b'{"a": "\xff"}',
        b"[" * 100_000, b'{"a": ' + b"1" * 5000 + b"}",
    ],
    ids=range(12),
)  # fmt: skip
def test_what_is_no_json_object_is_reported_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    with pytest.raises(CorruptFileError, match=r"file\.json can't be understood"):
        read_json_object(str(path))
    assert path.read_bytes() == content


def test_a_directory_in_the_place_of_a_json_file_is_a_corrupt_file(tmp_path: Path) -> None:
    (tmp_path / "file.json").mkdir()
    with pytest.raises(CorruptFileError):
        read_json_object(str(tmp_path / "file.json"))


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "file.json").write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_json_object(str(tmp_path / "file.json")) == {"a": 1}


@given(st.dictionaries(st.binary(max_size=6).map(os.fsdecode), st.none() | st.booleans() | st.floats(allow_nan=False)))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_json_comes_back_as_it_was_written_names_that_are_not_utf8_included(
    tmp_path: Path, value: dict[str, object]
) -> None:
    path = tmp_path / "file.json"
    write_json(str(path), value)
    assert read_json_object(str(path)) == value
    assert path.read_bytes().isascii()
    assert json.loads(path.read_text()) == value


def test_sizes_are_counted_through_folders_and_never_through_links(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "below").mkdir(parents=True)
    (folder / "one").write_bytes(bytes(100))
    (folder / "below" / "two").write_bytes(bytes(23))
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "big").write_bytes(bytes(5000))
    (folder / "link").symlink_to("../outside")
    (folder / "to-file").symlink_to("../outside/big")
    assert measure_bytes(str(folder)) == 123 + len("../outside/big")
    assert measure_bytes(str(tmp_path / "none")) == 0


def test_a_file_system_tells_its_free_bytes_and_can_be_flushed(tmp_path: Path) -> None:
    assert find_free_bytes(str(tmp_path)) > 0
    flush_file_system(str(tmp_path))


def wrap(error: Exception) -> Exception:
    """Return an error that was raised for another one, as the store does."""
    wrapped = CorruptFileError("It can't be written.")
    wrapped.__cause__ = error
    return wrapped


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_from_other_failures_however_it_is_said(code: int) -> None:
    full = OSError(code, os.strerror(code), "/x")
    for error in (full, wrap(full), wrap(wrap(full)), CorruptFileError(f"failed to write: {os.strerror(code)}.")):
        assert is_disk_full(error)
    for other in (OSError(errno.EIO, os.strerror(errno.EIO)), wrap(OSError(errno.EFBIG, "")), ValueError()):
        assert not is_disk_full(other)
