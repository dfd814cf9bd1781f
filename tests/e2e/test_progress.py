"""A first checkpoint of many files: told while it runs, interrupted without loss, and what a hook hears meanwhile."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from config.paths import resolve_paths
from tests.support.steps import InProcess, Product, command_environment, serving
from tests.support.workdir import write
from watcher.home import Home

if TYPE_CHECKING:
    from pathlib import Path

_COUNT = 3000


@pytest.fixture
def product(tmp_path: Path) -> Product:
    for number in range(_COUNT):
        write(tmp_path / "project" / f"d{number % 30}" / f"f{number}.txt", f"{number}\n")
    return Product(tmp_path / "project")


def run_on_a_terminal(product: Product, *words: str) -> tuple[int, str, str]:
    """Run a command whose standard error is a terminal; return its code, its output and what the terminal showed."""
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "watcher.main", *words],
        cwd=product.project, env=command_environment() | {"TERM": "xterm"}, stdout=subprocess.PIPE, stderr=terminal,
    )  # fmt: skip
    os.close(terminal)
    shown: list[bytes] = []

    def read() -> None:
        try:
            while piece := os.read(controller, 65536):
                shown.append(piece)
        except OSError:
            pass  # the other end is closed

    reader = threading.Thread(target=read)
    reader.start()
    out = process.communicate(timeout=60)[0]
    reader.join()
    os.close(controller)
    return process.returncode, out.decode(), b"".join(shown).decode("utf-8", "replace")


@pytest.mark.parametrize("with_service", [False, True])
def test_a_terminal_is_shown_how_far_the_first_checkpoint_is(product: Product, *, with_service: bool) -> None:
    if with_service:
        with serving(product):
            code, out, shown = run_on_a_terminal(product, "watch", "add")
    else:
        code, out, shown = run_on_a_terminal(product, "watch", "add")
    assert code == 0
    assert f"{_COUNT} files" in out
    assert "Reading files" in shown
    assert f"/{_COUNT}" in shown


def test_json_and_pipes_get_no_progress(product: Product) -> None:
    code, out, shown = run_on_a_terminal(product, "--json", "take")
    assert (code, shown) == (0, "")
    assert json.loads(out)["files"] == _COUNT
    done = product.run("take")
    assert (done.code, done.err) == (0, "")


def test_an_interrupted_first_checkpoint_goes_on_where_it_was(product: Product, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "watcher.main", "--no-service", "take"],
        cwd=product.project, env=command_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    packs = tmp_path / "hermes" / "checkpoints" / "store" / "objects" / "pack"
    give_up_at = time.monotonic() + 30
    while not list(packs.glob("tmp_pack_*")) and process.poll() is None and time.monotonic() < give_up_at:
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode in (0, 130), err
    assert b"Traceback" not in err
    taken = product.run("--json", "take").json
    assert (taken["files"], taken["skipped"]) == (_COUNT, [])
    assert not list(packs.glob("tmp_*"))


def test_a_hook_that_comes_meanwhile_waits_and_then_says_that_nothing_is_protected(
    product: Product, tmp_path: Path
) -> None:
    inside = InProcess(product.project)
    write(tmp_path / "hermes" / "config.yaml", "checkpoints: {enabled: true, hook_deadline_s: 1}\n")
    inside.ask("watch", action="list")
    home = Home(resolve_paths(home=None, profile=None, environ=os.environ), user_home="/nowhere", follow_events=False)
    began, over = threading.Event(), threading.Event()

    def hold() -> None:
        with home.hold(wait_s=10):
            began.set()
            over.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert began.wait(10)
        started = time.monotonic()
        answer = inside.event("before_tool", turn="t1", tool="write_file", paths=["d1/f1.txt"])
        waited_s = time.monotonic() - started
    finally:
        over.set()
        holder.join()
        home.close()
    assert (answer["taken"], answer["why"]) == (False, "busy")
    assert "not protected" in answer["message"]
    assert 0.9 <= waited_s < 10
