"""`run -- PROGRAM`: any program as a session with checkpoints on."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from tests.support.steps import Product, command_environment
from tests.support.workdir import photograph, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MAIN = [sys.executable, "-m", "watcher.main"]


def test_what_a_program_did_is_taken_back_and_hand_edits_stay(product: Product) -> None:
    write(product.project / "sub" / "b.py", "by hand, before\n")
    before = photograph(product.project)
    done = product.run("run", "--", "sh", "-c", "rm a.py; echo new > sub/new.txt; echo x >> sub/b.py; exit 7")
    assert done.code == 7
    write(product.project / "mine.txt", "by hand\n")
    listed = product.run("--json", "rollback").json["checkpoints"]
    assert listed[0]["message"].startswith("before terminal: sh -c ")
    assert product.run("rollback", "1").code == 0
    assert photograph(product.project) == before | {b"mine.txt": ("file", b"by hand\n")}


def test_a_program_that_changes_nothing_leaves_its_output_and_its_code_alone(product: Product) -> None:
    done = product.run("run", "--", "sh", "-c", "cat; echo problem >&2", stdin="through\n")
    assert (done.code, done.out, done.err) == (0, "through\n", "problem\n")


@pytest.mark.parametrize(
    ("words", "code"), [(["/no/such/program"], 127), (["./a.py"], 126), ([], 2), (["sh", "-c", "kill -9 $$"], 137)]
)
def test_a_program_that_can_not_run_is_told_as_by_a_shell(product: Product, words: list[str], code: int) -> None:
    assert product.run("run", "--", *words).code == code


def test_the_programs_own_options_are_left_alone(product: Product) -> None:
    script = "import sys; print(sys.argv[1:])"
    done = product.run("run", "--", sys.executable, "-c", script, "--json", "--yes", "-h")
    assert done.out == "['--json', '--yes', '-h']\n"


def test_a_rollback_while_the_program_runs_takes_back_what_it_did_so_far(product: Product) -> None:
    before = photograph(product.project)
    script = "echo two > a.py; rm sub/b.py; touch ready; while [ ! -e go ]; do sleep 0.02; done; echo z > z"
    with started(product, script) as process:
        wait_for(product.project / "ready")
        done = product.run("--json", "rollback", "1").json
        assert done["success"]
        assert {"a.py", "sub/b.py"} <= set(done["restored_files"])
        assert photograph(product.project) == before
        write(product.project / "go", "")
        assert process.wait(timeout=60) == 0
    assert (product.project / "z").exists()
    assert product.run("rollback", "2").code == 0
    assert photograph(product.project) == before


def test_signals_go_to_the_program(product: Product) -> None:
    script = "trap 'echo term > got; exit 5' TERM; touch ready; while :; do sleep 0.02; done"
    with started(product, script) as process:
        wait_for(product.project / "ready")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 5
    assert (product.project / "got").read_text() == "term\n"


def test_ctrl_c_ends_the_program_and_its_work_is_recorded(product: Product) -> None:
    before = photograph(product.project)
    with started(product, "rm a.py; touch ready; sleep 60") as process:
        wait_for(product.project / "ready")
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(timeout=60) == 128 + signal.SIGINT
    assert product.run("rollback", "1").code == 0
    assert photograph(product.project) == before


def test_agents_inside_have_checkpoints_too_or_none(tmp_path: Path) -> None:
    product = Product(tmp_path / "project")
    write(product.project / "a.py", "one\n")
    where = {"cwd": str(product.project)}
    payload = json.dumps({"event": "before_tool", "session": "s", "tool": "write_file", "paths": ["a.py"]} | where)
    hook = f"echo {shlex.quote(payload)} | {shlex.join(_MAIN)} hook generic"
    inside = f"cd {shlex.quote(str(product.project))} && {hook}"
    on = product.run("run", "--", "sh", "-c", inside.replace('"s"', '"s1"'))
    off = product.run("run", "--no-checkpoints", "--", "sh", "-c", inside.replace('"s"', '"s2"'))
    assert (json.loads(on.out)["why"], json.loads(off.out)["why"]) == ("unchanged", "disabled")
    assert len(product.run("--json", "rollback").json["checkpoints"]) == 1


@contextmanager
def started(product: Product, script: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a shell script by `run`; whatever is left of it at the end is killed."""
    command = [*_MAIN, *product.options, "run", "--", "sh", "-c", script]
    process = subprocess.Popen(command, cwd=product.project, env=command_environment(), start_new_session=True)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(path: Path) -> None:
    until = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < until
        time.sleep(0.01)
