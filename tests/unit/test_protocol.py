"""The wire: what is sent comes back, and what is no request is refused with a code."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.errors import CheckpointError, UsageError
from store.errors import NestedRepositoriesError, StoreBusyError
from watcher import protocol
from watcher.errors import ProtocolError, RemoteError, ServiceRunning, error_from_reply
from watcher.protocol import LineBuffer, Request

if TYPE_CHECKING:
    from collections.abc import Callable

file_names = st.binary(max_size=40).map(os.fsdecode)
texts = file_names | st.text(max_size=40)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def strip(line: bytes) -> bytes:
    """Return a line's content, having checked that it is one line of ASCII."""
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert line.isascii()
    return line[:-1]


def failure(line: Callable[[], object]) -> CheckpointError:
    with pytest.raises(CheckpointError) as caught:
        line()
    return caught.value


def over_the_wire(error: CheckpointError) -> CheckpointError:
    line = strip(protocol.format_failure(1, error))
    return failure(lambda: protocol.parse_reply(line))


@given(st.none() | st.integers() | texts, texts, st.dictionaries(texts, values, max_size=5))
def test_a_request_comes_back_as_it_was_sent(
    request_id: str | int | None, method: str, params: dict[str, object]
) -> None:
    line = strip(protocol.format_request(request_id, method, params))
    assert protocol.parse_request(line) == Request(request_id, method, params)


@given(values)
def test_a_result_comes_back_as_it_was_sent(result: object) -> None:
    assert protocol.parse_reply(strip(protocol.format_result(7, result))) == result


def test_a_file_name_that_is_not_utf_8_survives() -> None:
    name = os.fsdecode(b"caf\xe9-\xff\x80")
    received = protocol.parse_reply(strip(protocol.format_result(1, name)))
    assert isinstance(received, str)
    assert os.fsencode(received) == b"caf\xe9-\xff\x80"


def test_an_error_of_ours_is_raised_as_the_same_class_with_its_hint_and_fields() -> None:
    raised = over_the_wire(NestedRepositoriesError(["vendor/a", "b\udcff"], hint="Name files."))
    assert type(raised) is NestedRepositoriesError
    assert raised.fields == {"nested_repositories": ["vendor/a", "b\udcff"]}
    assert raised.hint == "Name files."
    assert "vendor/a" in raised.message
    assert str(raised) == raised.message


@pytest.mark.parametrize("original", [StoreBusyError("a"), UsageError("b"), ServiceRunning("c"), CheckpointError("d")])
def test_each_kind_finds_its_class_again(original: CheckpointError) -> None:
    raised = over_the_wire(original)
    assert type(raised) is type(original)
    assert raised.message == original.message
    assert raised.exit_code == original.exit_code


def test_a_domain_error_has_the_code_and_data_that_clients_rely_on() -> None:
    answer = json.loads(protocol.format_failure("x", StoreBusyError("Busy.", hint="Wait.")))
    assert answer == {
        "jsonrpc": "2.0",
        "id": "x",
        "error": {"code": -32000, "message": "Busy.", "data": {"kind": "busy", "hint": "Wait.", "exit_code": 75}},
    }


def test_an_error_of_an_unknown_kind_keeps_its_kind_and_exit_code() -> None:
    raised = error_from_reply("Odd.", {"kind": "from-the-future", "exit_code": 42, "hint": "Update."})
    assert type(raised) is RemoteError
    assert (raised.kind, raised.exit_code, raised.hint) == ("from-the-future", 42, "Update.")
    assert (RemoteError.kind, RemoteError.exit_code) == ("remote", 1)


@given(values)
def test_whatever_comes_with_an_error_makes_an_error(data: object) -> None:
    assert error_from_reply("It failed.", data).message == "It failed."


def test_a_protocol_error_keeps_its_code() -> None:
    raised = over_the_wire(ProtocolError("No.", code=protocol.METHOD_NOT_FOUND))
    assert isinstance(raised, ProtocolError)
    assert raised.code == protocol.METHOD_NOT_FOUND


@pytest.mark.parametrize(
    ("line", "code", "request_id"),
    [
        (b"", protocol.PARSE_ERROR, None),
        (b"hello", protocol.PARSE_ERROR, None),
        (b"\x00\xff\xfe", protocol.PARSE_ERROR, None),
        (b'{"method": "ping", "params": {"n": NaN}}', protocol.PARSE_ERROR, None),
        (b'{"method": "ping", "params": {"n": -Infinity}}', protocol.PARSE_ERROR, None),
        (b'{"method": "ping", "params": {"n": ' + b"1" * 5000 + b"}}", protocol.PARSE_ERROR, None),
        (b'{"method": "ping", "params": {"n": ' + b"[" * 200_000 + b"]" * 200_000 + b"}}", protocol.PARSE_ERROR, None),
        (b"[" * 200_000, protocol.PARSE_ERROR, None),
        (b"[]", protocol.INVALID_REQUEST, None),
        (b'"ping"', protocol.INVALID_REQUEST, None),
        (b'{"id": 3}', protocol.INVALID_REQUEST, 3),
        (b'{"id": 3, "method": 5}', protocol.INVALID_REQUEST, 3),
        (b'{"id": {}, "method": "ping"}', protocol.INVALID_REQUEST, None),
        (b'{"id": true, "method": "ping"}', protocol.INVALID_REQUEST, None),
        (b'{"id": "a", "method": "ping", "params": [1]}', protocol.INVALID_PARAMS, "a"),
        (b'{"id": "a", "method": "ping", "params": null}', protocol.INVALID_PARAMS, "a"),
    ],
)
def test_what_is_no_request_is_refused_with_its_code(line: bytes, code: int, request_id: object) -> None:
    error = failure(lambda: protocol.parse_request(line))
    assert isinstance(error, ProtocolError)
    assert (error.code, error.request_id) == (code, request_id)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_a_protocol_error(line: bytes) -> None:
    for parse in (protocol.parse_request, protocol.parse_reply):
        try:
            parse(line)
        except ProtocolError:
            continue


@pytest.mark.parametrize("line", [b"{}", b'{"error": 5}', b"[1]", b"nonsense"])
def test_what_is_no_reply_is_refused(line: bytes) -> None:
    assert isinstance(failure(lambda: protocol.parse_reply(line)), ProtocolError)


def test_a_request_may_leave_params_and_id_out() -> None:
    assert protocol.parse_request(b'{"method": "ping"}') == Request(None, "ping", {})


def cut(pieces: list[bytes], max_line_bytes: int) -> list[bytes | None]:
    """Return the lines, nothing for one that was too long."""
    lines = LineBuffer(max_line_bytes)
    taken: list[bytes | None] = []
    for piece in pieces:
        lines.feed(piece)
        while True:
            try:
                line = lines.take_line()
            except ProtocolError:
                taken.append(None)
                continue
            if line is None:
                break
            taken.append(line)
    return taken


@given(st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"")), max_size=8), st.integers(1, 9))
def test_lines_do_not_depend_on_how_the_bytes_are_cut(lines: list[bytes], piece_bytes: int) -> None:
    sent = b"".join(line + b"\n" for line in lines)
    pieces = [sent[start : start + piece_bytes] for start in range(0, len(sent), piece_bytes)]
    assert cut(pieces, 8) == [line if len(line) <= 8 else None for line in lines]


def test_a_line_that_is_too_long_is_reported_before_its_end_and_not_kept() -> None:
    lines = LineBuffer(10)
    lines.feed(b"x" * 11)
    with pytest.raises(ProtocolError) as caught:
        lines.take_line()
    assert caught.value.code == protocol.INVALID_REQUEST
    for _ in range(100):
        lines.feed(b"x" * 1000)
        assert lines.take_line() is None
    lines.feed(b"x\nnext\n")
    assert lines.take_line() == b"next"
