"""The service as a process: one for each home, no git on the hot path, settings followed, a clean end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.steps import Product, serving, start_service, wait_until
from tests.support.workdir import make_project, write

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def product(tmp_path: Path) -> Product:
    return Product(make_project(tmp_path / "project"))


@pytest.fixture
def served(product: Product) -> Iterator[Product]:
    with serving(product):
        assert product.run("watch", "add").code == 0
        yield product


def test_a_second_service_for_the_same_home_is_refused(served: Product) -> None:
    done = served.run("serve")
    assert done.code == 1
    assert "is running already" in done.err


def test_another_home_has_a_service_of_its_own(served: Product, tmp_path: Path) -> None:
    other = Product(served.project, options=["--home", str(tmp_path / "other")])
    assert other.run("ping").code == 1
    with serving(other):
        assert other.run("--json", "ping").json["home"] == str(tmp_path / "other")


def test_no_git_process_is_started_by_a_hook(product: Product, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, marker = shutil.which("git"), tmp_path / "git-was-started"
    assert real is not None
    write(tmp_path / "bin" / "git", f'#!/bin/sh\necho started >> "{marker}"\nexec "{real}" "$@"\n')
    (tmp_path / "bin" / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    with serving(product):
        assert product.run("watch", "add").code == 0
        product.agent_writes("a.py", "first\n", turn="t0")
        marker.unlink(missing_ok=True)
        for turn in ("t1", "t2", "t3"):
            assert product.agent_writes("a.py", f"{turn}\n", turn=turn)["taken"] is True
        product.agent_runs("rm sub/b.py", turn="t4")
        assert not marker.exists()
        assert product.run("rollback").code == 0
        assert marker.exists()


def test_changed_settings_count_without_a_restart(served: Product, tmp_path: Path) -> None:
    for turn in ("t1", "t2", "t3", "t4"):
        served.agent_writes("a.py", f"{turn}\n", turn=turn)
    write(tmp_path / "hermes" / "config.yaml", "checkpoints:\n  max_snapshots: 2\n")
    served.agent_writes("a.py", "t5\n", turn="t5")
    assert len(served.run("--json", "rollback").json["checkpoints"]) == 2


def test_an_exclude_of_the_settings_counts_at_the_next_checkpoint(served: Product, tmp_path: Path) -> None:
    write(served.project / "data" / "big.txt", "x\n")
    assert served.run("--json", "take").json["files"] == 5
    write(tmp_path / "hermes" / "config.yaml", "checkpoints:\n  exclude: [data/]\n")
    assert served.run("--json", "take").json["files"] == 4


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_go_it_goes_and_leaves_no_socket(product: Product, number: signal.Signals) -> None:
    process = start_service(product)
    runtime = Path(os.environ["XDG_RUNTIME_DIR"])
    assert list(runtime.glob("*.sock"))
    process.send_signal(number)
    process.communicate(timeout=20)
    assert process.returncode == 0
    assert list(runtime.glob("*.sock")) == []


def test_after_a_kill_the_next_service_starts_and_knows_the_turn(product: Product) -> None:
    process = start_service(product)
    assert product.run("watch", "add").code == 0
    assert product.agent_writes("a.py", "one step\n", turn="t1")["why"] == "unchanged"
    process.kill()
    process.communicate(timeout=20)
    with serving(product):
        assert product.agent_writes("a.py", "two steps\n", turn="t1")["why"] == "already-this-turn"
        assert product.run("rollback", "1").code == 0
        assert (product.project / "a.py").read_text() == "one\n"


def test_what_changed_while_no_service_ran_is_in_the_next_checkpoint(product: Product) -> None:
    with serving(product):
        assert product.run("watch", "add").code == 0
    write(product.project / "meanwhile.txt", "x\n")
    (product.project / "sub" / "b.py").unlink()
    with serving(product):
        product.agent_writes("a.py", "agent\n", turn="t1")
        tree = product.run("--json", "rollback", "diff", "1").json["diff"]
        assert "a.py" in tree
        assert "meanwhile.txt" not in tree
        listed = product.run("--json", "rollback").json["checkpoints"]
        assert (listed[0]["files_changed"], listed[0]["message"]) == (2, "before write_file: a.py")


def test_the_service_does_not_keep_a_volume_busy(served: Product) -> None:
    served.agent_writes("a.py", "agent\n", turn="t1")
    status = served.run("--json", "status").json
    pid = status["service"]["pid"]
    inside = [
        os.readlink(link)
        for link in (*Path(f"/proc/{pid}/fd").iterdir(), Path(f"/proc/{pid}/cwd"))
        if link.is_symlink() and os.path.lexists(link)
    ]
    assert not [path for path in inside if path.startswith(str(served.project))]


def test_status_says_how_a_project_is_watched(served: Product) -> None:
    (project,) = served.run("--json", "status").json["projects"]
    assert project["watching"]["mode"] == "events"
    assert project["watched"] is True
    served.run("watch", "remove")
    (project,) = served.run("--json", "status").json["projects"]
    assert (project["watched"], project["watching"]) == (False, None)


def test_a_project_that_is_gone_is_not_a_project_without_files(served: Product) -> None:
    moved = served.project.rename(served.project.parent / "moved")
    outside = Product(served.project.parent)
    answer = outside.event("before_tool", turn="t1", tool="write_file", paths=["a.py"], cwd=str(served.project))
    assert (answer["taken"], answer["ok"]) == (False, False)
    moved.rename(served.project)
    assert len(served.run("--json", "rollback").json["checkpoints"]) == 1
    wait_until(lambda: served.agent_writes("a.py", "agent\n", turn="t2")["ok"])


def test_the_terminal_of_the_service_shows_three_lines(product: Product) -> None:
    process = start_service(product)
    process.terminate()
    out, err = process.communicate(timeout=20)
    assert len(out.decode().splitlines()) == 3
    assert err == b""


def test_a_direct_command_beside_the_service_sees_and_is_seen(served: Product) -> None:
    direct = Product(served.project, options=["--no-service"])
    served.agent_writes("a.py", "v1\n", turn="t1")
    assert direct.agent_writes("a.py", "v2\n", turn="t2")["taken"] is True
    assert served.agent_writes("a.py", "v3\n", turn="t3")["taken"] is True
    assert served.agent_writes("a.py", "v4\n", turn="t3")["why"] == "already-this-turn"
    assert direct.agent_writes("a.py", "v5\n", turn="t3")["why"] == "already-this-turn"
    assert direct.run("rollback").out == served.run("rollback").out


def test_the_store_is_never_captured_inside_its_project(tmp_path: Path) -> None:
    project = make_project(tmp_path / "around")
    product = Product(project, options=["--home", str(project / "home")])
    with serving(product):
        assert product.run("watch", "add").code == 0
        product.agent_writes("a.py", "agent\n", turn="t1")
        held = subprocess.run(
            ["git", f"--git-dir={project}/home/checkpoints/store", "ls-tree", "-r", "--name-only",
             product.run("--json", "take").json["checkpoint"]["hash"]],
            capture_output=True, check=True,
        ).stdout.decode()  # fmt: skip
        assert "a.py" in held
        assert "checkpoints/" not in held
