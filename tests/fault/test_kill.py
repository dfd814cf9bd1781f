"""Killed at any point: the store opens, fsck is clean, and the next checkpoint works."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from config.errors import CheckpointError
from config.paths import resolve_paths
from tests.support.steps import InProcess, Product, command_environment, start_service
from tests.support.workdir import git, make_project, photograph, write
from watcher.client import Client

if TYPE_CHECKING:
    from collections.abc import Sequence

_DYING = Path(__file__).with_name("dying.py")
_SIGKILL = -signal.SIGKILL


@pytest.fixture
def product(tmp_path: Path) -> Product:
    product = Product(make_project(tmp_path / "project"))
    assert product.run("watch", "add").code == 0
    return product


def store_of(product: Product) -> Path:
    return product.project.parent / "hermes" / "checkpoints" / "store"


def check_store(product: Product) -> None:
    """Hold the store against real git, and use it."""
    store = store_of(product)
    git(store, "fsck", "--full", "--strict", "--no-dangling")
    inside = InProcess(product.project, product.options)
    listed = inside.ask("rollback.list")["checkpoints"]
    assert listed
    trees = git(
        store, "cat-file", "--batch-check", stdin="".join(f"{each['hash']}^{{tree}}\n" for each in listed).encode()
    )
    assert "missing" not in trees
    (product.project / "after.txt").write_text(str(time.time_ns()))
    assert inside.ask("take")["taken"] is True


def die_at(product: Product, number: int, words: Sequence[str], stdin: str = "") -> int:
    """Run a command that dies before its n-th change, and return its exit code."""
    done = subprocess.run(
        [sys.executable, str(_DYING), str(number), *words],
        cwd=product.project,
        input=stdin.encode(),
        env=command_environment(),
        capture_output=True,
        check=False,
        timeout=60,
    )
    return done.returncode


def test_a_take_that_dies_at_any_change_leaves_a_store_that_works(product: Product) -> None:
    for number in range(1, 200):
        write(product.project / "a.py", f"take {number}\n")
        code = die_at(product, number, ["--no-service", "take"])
        if code == 0:
            break
        assert code == _SIGKILL
        check_store(product)
    assert 3 <= number < 199


def test_a_first_checkpoint_that_dies_at_any_change_can_be_taken_again(tmp_path: Path) -> None:
    number, code = 0, _SIGKILL
    while code == _SIGKILL:
        number += 1
        product = Product(make_project(tmp_path / f"p{number}"), options=["--home", str(tmp_path / f"home{number}")])
        code = die_at(product, number, [*product.options, "--no-service", "watch", "add"])
        inside = InProcess(product.project, product.options)
        inside.ask("watch", action="add", path=str(product.project))
        git(tmp_path / f"home{number}" / "checkpoints" / "store", "fsck", "--full", "--strict")
        assert inside.ask("rollback.list")["checkpoints"]
    assert code == 0
    assert number > 10


def test_a_hook_that_dies_at_any_change_leaves_a_store_that_works(product: Product) -> None:
    direct = Product(product.project, options=["--no-service"])
    for number in range(1, 200):
        write(product.project / "a.py", f"hook {number}\n")
        event = {
            "event": "before_tool", "session": "s", "turn": str(number), "tool": "w", "paths": ["a.py"],
            "cwd": str(product.project),
        }  # fmt: skip
        code = die_at(direct, number, ["--no-service", "hook", "generic"], json.dumps(event))
        if code == 0:
            break
        assert code == _SIGKILL
        check_store(direct)
    assert 3 <= number < 199


def test_a_rollback_that_dies_at_any_change_loses_nothing(product: Product) -> None:
    direct = InProcess(product.project)
    for number in range(1, 400):
        target = direct.ask("take")["checkpoint"]["hash"]
        for name in ("a.py", "sub/b.py", f"new{number}.py"):
            direct.agent_writes(name, f"agent {number}\n", turn=str(number))
        before = photograph(product.project)
        code = die_at(direct, number, ["--no-service", "rollback", target])
        assert code in (0, _SIGKILL)
        held = contents_of(store_of(direct))
        for path, (_, content) in before.items():
            now = photograph(product.project).get(path)
            assert (now is not None and now[1] == content) or content in held, path
        if direct.ask("rollback.list")["cut_off"] is not None:
            assert direct.ask("rollback.settle", action="abort")["success"]
            assert photograph(product.project) == before
        assert not list(product.project.rglob(".hermes-restore-*"))
        check_store(direct)
        if code == 0:
            break
    assert 10 <= number < 399


def contents_of(store: Path) -> set[bytes]:
    """Return every blob that a kept checkpoint holds."""
    listed = git(store, "rev-list", "--objects", "--all").split("\n")
    oids = "\n".join(line.split(" ")[0] for line in listed if line)
    kinds = git(store, "cat-file", "--batch-check", stdin=oids.encode()).splitlines()
    blobs = [line.split()[0] for line in kinds if line.split()[1] == "blob"]
    raw = git(store, "cat-file", "--batch", stdin="\n".join(blobs).encode()).encode("utf-8", "surrogateescape")
    contents, position = set(), 0
    while position < len(raw):
        end = raw.index(b"\n", position)
        size = int(raw[position:end].split()[2])
        contents.add(raw[end + 1 : end + 1 + size])
        position = end + 2 + size
    return contents


def test_a_service_killed_at_random_moments_leaves_a_store_that_works(product: Product) -> None:
    moments = random.Random(7)
    for number in range(12):
        process = start_service(product)
        give_up_at = time.monotonic() + moments.uniform(0.0, 0.4)
        client = Client(resolve_paths(home=None, profile=None, environ=os.environ).socket, timeout_s=10)
        turn = 0
        with suppress(CheckpointError), client:
            while time.monotonic() < give_up_at:
                turn += 1
                write(product.project / f"f{turn % 5}.txt", f"{number} {turn}\n")
                client.call(
                    "event", event="before_tool", session="s", turn=f"{number}-{turn}", tool="w", paths=["a.py"],
                    cwd=str(product.project),
                )  # fmt: skip
                if turn % 3 == 0 and moments.random() < 0.2:
                    break
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=10)
        check_store(product)
    assert product.run("status").code == 0


def test_a_client_killed_at_random_moments_hurts_nobody(product: Product) -> None:
    moments = random.Random(11)
    process = start_service(product)
    try:
        for number in range(15):
            write(product.project / "a.py", f"client {number}\n")
            event = {
                "event": "before_tool", "turn": str(number), "tool": "w", "paths": ["a.py"], "cwd": str(product.project)
            }  # fmt: skip
            hook = subprocess.Popen(
                [sys.executable, "-m", "watcher.main", "hook", "generic"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=command_environment(), cwd="/",
            )  # fmt: skip
            assert hook.stdin is not None
            hook.stdin.write(json.dumps(event).encode())
            with suppress(BrokenPipeError):
                hook.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                hook.wait(moments.uniform(0.0, 0.25))
            hook.kill()
            hook.wait()
            assert hook.stdout is not None
            hook.stdout.close()
        answer = product.agent_writes("a.py", "after\n", turn="after")
        assert answer["ok"]
    finally:
        process.terminate()
        process.communicate(timeout=30)
    check_store(product)
