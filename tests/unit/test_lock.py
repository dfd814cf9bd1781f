"""The one lock: first come, first served; a holder that dies lets go; nobody waits for ever."""

from __future__ import annotations

import stat
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest

from store.errors import StoreBusyError
from store.layout import Layout
from store.lock import StoreLock
from tests.support.steps import command_environment, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_HOLD = """
import sys
from store.layout import Layout
from store.lock import StoreLock
with StoreLock(Layout(sys.argv[1], sys.argv[2])).hold(wait_s=10):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(str(tmp_path / "hermes" / "checkpoints"), str(tmp_path / "hermes" / ".checkpoints.lock"))


@contextmanager
def another_process_holding(layout: Layout) -> Iterator[subprocess.Popen[bytes]]:
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD, layout.base, layout.lock_file],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=command_environment(),
    )
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == b"held\n"
        yield holder
    finally:
        holder.kill()
        holder.communicate(timeout=10)


def has_waiting(lock: StoreLock, count: int) -> bool:
    return waiting_count(lock) == count


def waiting_count(lock: StoreLock) -> int:
    return len(lock._waiting)


def test_threads_are_served_in_the_order_they_came(layout: Layout) -> None:
    lock, served = StoreLock(layout), []

    def work(number: int) -> None:
        with lock.hold(wait_s=30):
            served.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    with lock.hold(wait_s=5):
        for count, thread in enumerate(threads, 2):
            thread.start()
            wait_until(partial(has_waiting, lock, count))
    for thread in threads:
        thread.join(30)
    assert served == list(range(8))


def test_only_one_thread_is_inside_at_a_time(layout: Layout) -> None:
    lock, inside, most = StoreLock(layout), [], [0]

    def work() -> None:
        for _ in range(20):
            with lock.hold(wait_s=30):
                inside.append(1)
                most[0] = max(most[0], len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert most == [1]


def test_two_locks_of_one_process_exclude_each_other(layout: Layout) -> None:
    with StoreLock(layout).hold(wait_s=5), pytest.raises(StoreBusyError), StoreLock(layout).hold(wait_s=0.05):
        pytest.fail("both are inside")


def test_one_who_gives_up_does_not_hold_up_those_behind(layout: Layout) -> None:
    lock, outcome = StoreLock(layout), []

    def work(wait_s: float) -> None:
        try:
            with lock.hold(wait_s=wait_s):
                outcome.append("served")
        except StoreBusyError:
            outcome.append("busy")

    impatient, patient = (threading.Thread(target=work, args=(wait_s,)) for wait_s in (0.05, 30))
    with lock.hold(wait_s=5):
        impatient.start()
        wait_until(lambda: waiting_count(lock) == 2)
        patient.start()
        impatient.join(10)
        assert outcome == ["busy"]
    patient.join(10)
    assert outcome == ["busy", "served"]
    assert waiting_count(lock) == 0


def test_a_lock_held_by_another_process_is_reported_busy_within_the_wait(layout: Layout) -> None:
    lock = StoreLock(layout)
    with another_process_holding(layout):
        started = time.monotonic()
        with pytest.raises(StoreBusyError) as caught, lock.hold(wait_s=0.2):
            pytest.fail("both are inside")
        assert 0.2 <= time.monotonic() - started < 2
    assert (caught.value.kind, caught.value.exit_code) == ("busy", 75)
    assert layout.base in caught.value.message


def test_without_waiting_a_busy_lock_is_reported_at_once(layout: Layout) -> None:
    with another_process_holding(layout):
        started = time.monotonic()
        with pytest.raises(StoreBusyError), StoreLock(layout).hold(wait_s=0):
            pytest.fail("both are inside")
        assert time.monotonic() - started < 1


def test_a_free_lock_is_got_without_waiting(layout: Layout) -> None:
    with StoreLock(layout).hold(wait_s=0):
        pass


def test_a_holder_that_is_killed_lets_go(layout: Layout) -> None:
    lock, served = StoreLock(layout), threading.Event()

    def work() -> None:
        with lock.hold(wait_s=30):
            served.set()

    with another_process_holding(layout) as holder:
        waiter = threading.Thread(target=work)
        waiter.start()
        wait_until(lambda: waiting_count(lock) == 1)
        assert not served.is_set()
        holder.kill()
        waiter.join(10)
        assert served.is_set()


def test_a_body_that_fails_lets_go(layout: Layout) -> None:
    lock = StoreLock(layout)
    with pytest.raises(ZeroDivisionError), lock.hold(wait_s=5):
        raise ZeroDivisionError
    with another_process_holding(layout):
        pass
    with lock.hold(wait_s=5):
        pass


def test_the_lock_file_stays_private_empty_and_the_same(layout: Layout, tmp_path: Path) -> None:
    lock, path = StoreLock(layout), tmp_path / "hermes" / ".checkpoints.lock"
    inodes = set()
    for _ in range(3):
        with lock.hold(wait_s=5):
            inodes.add(path.stat().st_ino)
        assert path.exists()
        assert path.read_bytes() == b""
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with another_process_holding(layout):
        inodes.add(path.stat().st_ino)
    inodes.add(path.stat().st_ino)
    assert len(inodes) == 1
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
