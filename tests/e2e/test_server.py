"""The service's socket against real clients: good ones, slow ones, broken ones and hostile ones."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import stat
import tempfile
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from config.errors import CheckpointError
from store.errors import NestedRepositoriesError, StoreBusyError
from watcher import client as client_module
from watcher import protocol, server
from watcher.client import Client
from watcher.errors import (
    ProtocolError,
    RemoteError,
    ServiceBusy,
    ServiceRunning,
    ServiceTimeout,
    ServiceUnreachable,
    WatcherError,
)
from watcher.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from watcher.progress import Progress

DEADLINE_S = 30.0
MIB = 1024 * 1024


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.002)


class Service:
    """What the server serves: an echo, failures, and a call that waits until it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.released = threading.Event()
        self.methods: list[str] = []

    def dispatch(self, method: str, params: dict[str, object], on_progress: Progress | None) -> object:
        self.methods.append(method)
        match method:
            case "echo":
                return params
            case "measure":
                return len(str(params["text"]))
            case "large":
                return "x" * (20 * MIB)
            case "wait":
                self.entered.set()
                assert self.released.wait(DEADLINE_S)
                return "done"
            case "nested":
                raise NestedRepositoriesError(["vendor"], hint="Name files.")
            case "long":
                for done in range(3):
                    if on_progress is not None:
                        on_progress(done, 3)
                return on_progress is not None
            case "busy":
                raise StoreBusyError("The store is busy.")
            case "bug":
                raise KeyError("a secret detail")
            case "set":
                return {1, 2}
            case _:
                raise ProtocolError(f"Unknown method {method!r}.", code=protocol.METHOD_NOT_FOUND)


@pytest.fixture
def directory() -> Iterator[Path]:
    """Give a directory with a name that is short enough for a socket."""
    made = Path(tempfile.mkdtemp(prefix="hc-", dir="/tmp"))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def path(directory: Path) -> str:
    return str(directory / "s")


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def running(path: str, service: Service) -> Iterator[Server]:
    running = Server(path, service.dispatch)
    running.start()
    yield running
    service.released.set()
    running.stop(DEADLINE_S)


@contextlib.contextmanager
def raw(path: str) -> Iterator[socket.socket]:
    """Give a connection that may send anything."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(DEADLINE_S)
        connection.connect(path)
        yield connection


def read_answers(connection: socket.socket, count: int) -> list[dict[str, object]]:
    lines = protocol.LineBuffer()
    answers: list[dict[str, object]] = []
    while len(answers) < count:
        piece = connection.recv(65536)
        assert piece, "the server hung up"
        lines.feed(piece)
        while (line := lines.take_line()) is not None:
            answers.append(json.loads(line))
    return answers


def error_code(answer: dict[str, object]) -> object:
    error = answer["error"]
    assert isinstance(error, dict)
    return error["code"]


def ask(path: str, method: str, /, **params: object) -> object:
    with Client(path, timeout_s=DEADLINE_S) as client:
        return client.call(method, **params)


def answers(path: str) -> bool:
    return ask(path, "echo", n=1) == {"n": 1}


def hang_ups(connection: socket.socket) -> bool:
    """Say that the server has closed the connection, whatever was left to read."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.mark.usefixtures("running")
class TestAnswers:
    def test_what_is_asked_is_answered_and_names_that_are_not_utf_8_survive(self, path: str) -> None:
        name = os.fsdecode(b"\xff\xe9 \xf0\x9f\x93\xb8")
        assert ask(path, "echo", path=name, method="m", self="s") == {"path": name, "method": "m", "self": "s"}

    def test_requests_on_one_connection_are_answered_in_order(self, path: str) -> None:
        lines = [protocol.format_request(n, "echo", {"n": n}) for n in range(500)]
        with raw(path) as connection:
            connection.sendall(b"".join(lines))
            assert [answer["id"] for answer in read_answers(connection, 500)] == list(range(500))

    def test_a_client_calls_many_times_on_one_connection(self, path: str) -> None:
        with Client(path, timeout_s=DEADLINE_S) as client:
            for n in range(100):
                assert client.call("echo", n=n) == {"n": n}
            with pytest.raises(StoreBusyError):
                client.call("busy")
            assert client.call("echo", n=1) == {"n": 1}

    def test_a_line_of_60_mib_is_answered_in_linear_time(self, path: str) -> None:
        begin = time.monotonic()
        assert ask(path, "measure", text="x" * (60 * MIB)) == 60 * MIB
        assert time.monotonic() - begin < DEADLINE_S

    def test_a_large_answer_arrives_whole(self, path: str) -> None:
        assert ask(path, "large") == "x" * (20 * MIB)

    def test_200_quick_connections_are_all_answered(self, path: str) -> None:
        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(lambda _: answers(path), range(200)))

    def test_an_error_arrives_as_the_same_class(self, path: str) -> None:
        with pytest.raises(NestedRepositoriesError) as caught:
            ask(path, "nested")
        assert caught.value.fields == {"nested_repositories": ["vendor"]}
        assert caught.value.hint == "Name files."

    @pytest.mark.parametrize("method", ["bug", "set"])
    def test_a_bug_is_logged_with_its_traceback_and_answered_without_it(
        self, path: str, method: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        with pytest.raises(RemoteError) as caught:
            ask(path, method)
        assert caught.value.message == "hermes-checkpoints failed unexpectedly; see the log."
        assert caught.value.kind == "internal"
        assert "Traceback" in caplog.text
        assert answers(path)

    def test_an_unknown_method_is_answered_with_an_error(self, path: str) -> None:
        with pytest.raises(ProtocolError) as caught:
            ask(path, "no-such-thing")
        assert caught.value.code == protocol.METHOD_NOT_FOUND


@pytest.mark.usefixtures("running")
class TestBadClients:
    @pytest.mark.parametrize("garbage", [b"hello", b"\x00\x01\xff\xfe" * 1000, b"[]", b"", b"[" * 100_000])
    def test_garbage_is_answered_with_an_error_and_the_connection_goes_on(self, path: str, garbage: bytes) -> None:
        with raw(path) as connection:
            connection.sendall(garbage + b"\n" + protocol.format_request(2, "echo", {}))
            refused, answered = read_answers(connection, 2)
            assert error_code(refused) in (protocol.PARSE_ERROR, protocol.INVALID_REQUEST)
            assert answered == {"jsonrpc": "2.0", "id": 2, "result": {}}

    def test_a_line_of_100_mib_is_refused_while_others_are_answered(self, path: str) -> None:
        sent = threading.Event()

        def flood() -> list[dict[str, object]]:
            with raw(path) as connection:
                piece = b"x" * MIB
                for _ in range(100):
                    connection.sendall(piece)
                connection.sendall(b"\n" + protocol.format_request(2, "echo", {}))
                sent.set()
                return read_answers(connection, 2)

        with ThreadPoolExecutor(1) as pool, Client(path, timeout_s=DEADLINE_S) as client:
            flooding = pool.submit(flood)
            answered_count = 0
            while not sent.is_set() and not flooding.done():
                assert client.call("echo", n=1) == {"n": 1}
                answered_count += 1
            refused, answered = flooding.result()
        assert answered_count > 0
        assert error_code(refused) == protocol.INVALID_REQUEST
        assert answered["id"] == 2

    def test_a_slow_writer_is_answered_and_blocks_nobody(self, path: str) -> None:
        line = protocol.format_request(1, "echo", {"n": 1})
        with raw(path) as slow:
            for position in range(len(line)):
                slow.sendall(line[position : position + 1])
                assert answers(path)
            assert read_answers(slow, 1) == [{"jsonrpc": "2.0", "id": 1, "result": {"n": 1}}]

    def test_a_client_that_leaves_in_the_middle_of_a_request_hurts_nobody(self, path: str) -> None:
        for _ in range(100):
            with raw(path) as connection:
                connection.sendall(b'{"method": "ec')
        assert answers(path)

    def test_a_client_that_leaves_before_its_answer_hurts_nobody(self, path: str, service: Service) -> None:
        with raw(path) as connection:
            connection.sendall(protocol.format_request(1, "wait", {}))
            until(service.entered.is_set)
        service.released.set()
        assert answers(path)

    def test_a_client_that_never_reads_is_given_up_and_blocks_nobody(
        self, path: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(server, "SEND_TIMEOUT_S", 0.2)
        with raw(path) as connection:
            connection.sendall(protocol.format_request(1, "large", {}))
            assert answers(path)
            until(lambda: not any(thread.name == "connection" for thread in threading.enumerate()))
            assert hang_ups(connection)
        assert answers(path)

    def test_more_than_64_clients_are_told_that_it_is_busy(self, path: str) -> None:
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(Client(path, timeout_s=DEADLINE_S)) for _ in range(server.MAX_CONNECTIONS)]
            for client in clients:
                client.call("echo")
            with pytest.raises(ServiceBusy) as caught:
                ask(path, "echo", text="x" * MIB)
            assert caught.value.exit_code == 75
            assert clients[0].call("echo", n=1) == {"n": 1}
        until(lambda: not any(thread.name == "connection" for thread in threading.enumerate()))
        assert answers(path)

    def test_another_users_process_is_closed_silently(
        self, path: str, service: Service, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(server, "is_own_peer", lambda _: False)
        with raw(path) as connection:
            with contextlib.suppress(BrokenPipeError):
                connection.sendall(protocol.format_request(1, "echo", {}))
            assert hang_ups(connection)
        assert service.methods == []


def test_a_line_over_the_limit_is_not_kept_in_memory(path: str, service: Service) -> None:
    running = Server(path, service.dispatch, max_line_bytes=MIB)
    running.start()
    piece = b"x" * MIB
    tracemalloc.start()
    try:
        with raw(path) as connection:
            for _ in range(50):
                connection.sendall(piece)
            connection.sendall(b"\n" + protocol.format_request(2, "echo", {}))
            assert error_code(read_answers(connection, 2)[0]) == protocol.INVALID_REQUEST
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        running.stop(DEADLINE_S)
    assert peak_bytes < 6 * MIB


@pytest.mark.usefixtures("running")
class TestSocketFile:
    def test_only_the_user_can_use_the_socket(self, path: str) -> None:
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600

    def test_a_second_server_on_the_same_path_is_refused_and_the_first_goes_on(
        self, path: str, service: Service
    ) -> None:
        second = Server(path, service.dispatch)
        with pytest.raises(ServiceRunning):
            second.start()
        second.stop(0)
        assert answers(path)

    def test_a_socket_file_that_is_another_servers_by_now_is_left(
        self, running: Server, path: str, service: Service
    ) -> None:
        os.unlink(path)
        second = Server(path, service.dispatch)
        second.start()
        running.stop(DEADLINE_S)
        assert answers(path)
        second.stop(DEADLINE_S)
        assert not os.path.lexists(path)

    def test_stopping_twice_does_no_harm(self, running: Server, path: str) -> None:
        running.stop(DEADLINE_S)
        running.stop(DEADLINE_S)
        assert not os.path.lexists(path)


def start_and_stop(path: str) -> None:
    running = Server(path, lambda _, params, __: params)
    running.start()
    try:
        assert answers(path)
    finally:
        running.stop(DEADLINE_S)
    assert not os.path.lexists(path)


def test_a_stale_socket_file_is_replaced(path: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as killed:
        killed.bind(path)
    start_and_stop(path)


def test_a_file_that_is_no_socket_is_left_alone(path: str) -> None:
    Path(path).write_text("precious")
    with pytest.raises(WatcherError, match="not a socket"):
        start_and_stop(path)
    assert Path(path).read_text() == "precious"


def test_a_missing_directory_is_made_for_the_user_alone(directory: Path) -> None:
    start_and_stop(str(directory / "run" / "s"))
    assert stat.S_IMODE((directory / "run").stat().st_mode) == 0o700


def test_a_directory_among_the_shared_temporary_files_that_others_can_enter_is_refused(directory: Path) -> None:
    directory.chmod(0o755)
    with pytest.raises(WatcherError, match="other users can enter it"):
        start_and_stop(str(directory / "s"))


def test_a_directory_of_another_user_is_refused(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with pytest.raises(WatcherError, match="belongs to another user"):
        start_and_stop(path)


def test_a_path_that_is_too_long_for_a_socket_is_refused_with_a_sentence(directory: Path) -> None:
    with pytest.raises(WatcherError, match="can't listen"):
        start_and_stop(str(directory / ("n" * 120)))


class TestStopping:
    def test_a_running_request_is_still_answered(self, running: Server, path: str, service: Service) -> None:
        with ThreadPoolExecutor(2) as pool:
            waiting = pool.submit(ask, path, "wait")
            until(service.entered.is_set)
            stopping = pool.submit(running.stop, DEADLINE_S)
            until(lambda: not os.path.lexists(path))
            assert not waiting.done()
            service.released.set()
            assert waiting.result() == "done"
            stopping.result()

    def test_a_request_that_does_not_end_is_given_up(
        self, running: Server, path: str, service: Service, caplog: pytest.LogCaptureFixture
    ) -> None:
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(ask, path, "wait")
            until(service.entered.is_set)
            running.stop(0.05)
            with pytest.raises(ServiceUnreachable):
                waiting.result()
        assert "did not end" in caplog.text

    def test_idle_connections_do_not_hold_it_up(self, running: Server, path: str) -> None:
        with Client(path, timeout_s=DEADLINE_S) as idle:
            idle.call("echo")
            begin = time.monotonic()
            running.stop(DEADLINE_S)
            assert time.monotonic() - begin < DEADLINE_S / 2
            with pytest.raises(ServiceUnreachable):
                idle.call("echo")


class TestClient:
    def test_a_missing_socket_is_reported(self, path: str) -> None:
        with pytest.raises(ServiceUnreachable) as caught:
            ask(path, "echo")
        assert caught.value.kind == "unreachable"

    def test_a_socket_that_nobody_listens_at_is_reported(self, path: str) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as killed:
            killed.bind(path)
        with pytest.raises(ServiceUnreachable):
            ask(path, "echo")

    @pytest.mark.usefixtures("running")
    def test_an_answer_that_does_not_come_in_time_is_reported_and_the_next_call_is_not_confused(
        self, path: str, service: Service
    ) -> None:
        with Client(path, timeout_s=0.5) as client:
            with pytest.raises(ServiceTimeout) as caught:
                client.call("wait")
            assert caught.value.kind == "timeout"
            service.released.set()
            assert client.call("echo", n=2) == {"n": 2}

    @pytest.mark.usefixtures("running")
    def test_a_socket_of_another_user_is_not_talked_to(
        self, path: str, service: Service, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        user = os.geteuid()
        with monkeypatch.context() as patch:
            patch.setattr(os, "geteuid", lambda: user + 1)
            with pytest.raises(ServiceUnreachable, match="another user"):
                ask(path, "echo")
        with monkeypatch.context() as patch:
            patch.setattr(client_module, "is_own_peer", lambda _: False)
            with pytest.raises(ServiceUnreachable, match="another user"):
                ask(path, "echo")
        assert service.methods == []

    def test_a_request_over_the_limit_is_not_sent(self, path: str) -> None:
        with pytest.raises(ProtocolError, match="longer than"):
            ask(path, "echo", text="x" * protocol.MAX_LINE_BYTES)

    @pytest.mark.usefixtures("running")
    def test_every_error_is_a_checkpoint_error(self, path: str) -> None:
        for method in ("nested", "busy", "bug", "no-such-thing"):
            with pytest.raises(CheckpointError):
                ask(path, method)


@pytest.mark.usefixtures("running")
def test_a_client_that_asks_is_told_how_far_the_work_is(path: str) -> None:
    told: list[tuple[int, int]] = []
    with Client(path, timeout_s=DEADLINE_S) as client:
        assert client.call("long", lambda done, total: told.append((done, total))) is True
        assert client.call("long") is False
        assert client.call("echo", text='"method":"progress"') == {"text": '"method":"progress"'}
    assert told == [(0, 3), (1, 3), (2, 3)]


@pytest.mark.usefixtures("running")
def test_work_goes_on_when_who_asked_for_it_has_gone(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(protocol.format_request(1, "long", {"progress": True}))
    with Client(path, timeout_s=DEADLINE_S) as client:
        assert client.call("long") is False
