"""Bad input gets one clear sentence, the right exit code and no traceback, and nothing is written."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from config.errors import UsageError
from store.errors import NoSpaceError
from tests.support.steps import InProcess, Product
from tests.support.workdir import make_project, photograph, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def size_of(directory: Path) -> int:
    return sum(len(content) for _, content in photograph(directory).values())


@pytest.mark.parametrize(
    "given", ["-p", "--help=x", "HEAD", "refs/heads/x", "", "f" * 4000, "zzzz", "../x", "1;ls", "abc"]
)
def test_an_id_that_is_none_is_refused(product: Product, given: str) -> None:
    now, store = photograph(product.project), size_of(product.project.parent / "hermes")
    done = product.run("rollback", "--", given)
    assert done.code == 2
    assert done.err.startswith("❌ Invalid checkpoint")
    assert photograph(product.project) == now
    assert size_of(product.project.parent / "hermes") == store


def test_a_number_beyond_the_list_says_how_far_it_goes(product: Product) -> None:
    done = product.run("rollback", "7")
    assert (done.code, done.err) == (1, "❌ Invalid checkpoint number. Use 1-1.\n")


def test_ids_of_trees_blobs_and_other_projects_are_refused(product: Product, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write(other / "x", "x\n")
    foreign = product.run("-C", str(other), "--json", "take").json["checkpoint"]["hash"]
    blob = "5626abf0f72e58d7a153368ba57db4c673c0e171"
    for oid in (foreign, blob):
        done = product.run("rollback", oid)
        assert done.code == 1
        assert "not found for this project" in done.err


@pytest.mark.parametrize(
    "name", ["../out", "/etc/hostname", "a/../../out", ".git/config", "", "missing.py", "./../../x", "sub/../../../x"]
)
def test_a_path_that_is_not_inside_is_refused(product: Product, name: str) -> None:
    now = photograph(product.project, with_git=True)
    done = product.run("rollback", "1", "--", name)
    assert done.code == 2
    assert done.err.startswith("❌ ")
    assert photograph(product.project, with_git=True) == now


def test_directories_that_are_too_broad_are_refused(product: Product, tmp_path: Path) -> None:
    home = tmp_path / "home"
    for number in range(30):
        write(home / f"d{number}" / "file", "x" * 100)
    (tmp_path / "way-home").symlink_to(home)
    store = size_of(tmp_path / "hermes")
    for place in (home, home.parent, "/", tmp_path / "way-home", tmp_path / "hermes" / "checkpoints"):
        done = product.run("watch", "add", str(place))
        assert done.code == 1
        assert "never captured" in done.err
    answer = product.event("before_tool", turn="t1", tool="terminal", command="rm x", cwd=str(home))
    assert (answer["taken"], answer["why"]) == (False, "too-broad")
    assert "not protected" in answer["message"]
    assert size_of(tmp_path / "hermes") - store < 100_000


def test_a_project_below_the_home_directory_works(product: Product, tmp_path: Path) -> None:
    write(tmp_path / "home" / "code" / "x.py", "x\n")
    assert product.run("watch", "add", str(tmp_path / "home" / "code")).code == 0


def test_a_project_that_does_not_exist_is_refused(product: Product, tmp_path: Path) -> None:
    done = product.run("watch", "add", str(tmp_path / "nowhere"))
    assert (done.code, done.out) == (2, "")
    assert done.err == f"❌ {tmp_path / 'nowhere'} is not a directory.\n"


@pytest.mark.parametrize(
    "payload",
    ["", "not json", "[]", "null", '{"event": "nonsense"}', '{"event": 1}', "[" * 100_000, '{"event"', "\x00\xff"],
)
def test_a_payload_that_makes_no_sense_never_fails_the_tool(product: Product, payload: str) -> None:
    for agent in ("generic", "claude-code", "no-such-agent"):
        done = product.run("hook", agent, stdin=payload)
        assert done.code == 0
        assert len(done.err.splitlines()) <= 1
    answer = product.run("hook", "generic", stdin=payload).json
    assert (answer["ok"], answer["taken"]) == (False, False)


def test_a_payload_of_100_mib_is_refused_in_a_sentence(product: Product) -> None:
    done = product.run("hook", "generic", stdin='{"event": "' + "x" * (100 * 1024 * 1024))
    assert done.code == 0
    assert "larger than" in done.err


def test_wrong_settings_are_all_named_and_the_last_good_ones_stay(product: Product, tmp_path: Path) -> None:
    write(tmp_path / "hermes" / "config.yaml", "checkpoints:\n  max_snapshot: 3\n  max_files: many\n  enabled: true\n")
    status = product.run("--json", "status").json
    assert "max_snapshot" in status["problem"]
    assert "max_files" in status["problem"]
    assert product.agent_writes("a.py", "x\n", turn="t1")["ok"]


def test_unknown_commands_and_options_are_refused(product: Product) -> None:
    for words in (["nonsense"], ["take", "--nonsense"], ["status", "--limit", "0"], ["-C", "/nowhere", "status"]):
        assert product.run(*words).code == 2
        assert product.run("--json", *words).json["success"] is False


def test_errors_are_one_json_object_when_json_is_asked_for(product: Product) -> None:
    done = product.run("--json", "rollback", "99")
    assert (done.code, done.json["success"], done.json["kind"]) == (1, False, "not-found")


def test_a_directory_that_is_not_protected_says_so(product: Product, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write(other / "x", "x\n")
    assert product.event("before_tool", turn="t", tool="write_file", paths=[str(other / "x")])["why"] == "disabled"
    listed = product.run("-C", str(other), "rollback")
    assert listed.out.startswith("Checkpoints are not enabled.\n")
    refused = product.run("-C", str(other), "rollback", "1")
    assert (refused.code, refused.err.splitlines()[0]) == (1, "❌ Checkpoints are not enabled.")


def test_without_git_nothing_is_claimed(product: Product, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = tmp_path / "bin"
    nowhere.mkdir()
    monkeypatch.setenv("PATH", str(nowhere))
    direct = Product(product.project, options=["--no-service"])
    event = {"event": "before_tool", "tool": "write_file", "paths": ["a.py"], "cwd": str(product.project)}
    answer = direct.run("hook", "generic", stdin=json.dumps(event)).json
    assert (answer["taken"], answer["why"]) == (False, "no-git")
    done = direct.run("take")
    assert done.code == 1
    assert "git was not found" in done.err


def test_a_container_gets_no_checkpoint_and_no_ledger(product: Product) -> None:
    before = size_of(product.project.parent / "hermes")
    for kind in ("before_tool", "after_tool"):
        answer = product.event(kind, turn="t1", tool="write_file", paths=["a.py"], backend="docker")
        assert (answer["taken"], answer["why"]) == (False, "container")
    assert size_of(product.project.parent / "hermes") == before


def test_a_store_that_others_could_read_is_never_made(product: Product, tmp_path: Path) -> None:
    product.agent_writes("a.py", "x\n", turn="t1")
    base = tmp_path / "hermes" / "checkpoints"
    assert base.stat().st_mode & 0o777 == 0o700
    loose = [path for path in base.rglob("*") if path.stat().st_mode & 0o022]
    loose += [path for path in base.glob("store/*/*.json") if path.stat().st_mode & 0o077]
    assert loose == []
    lock = tmp_path / "hermes" / ".checkpoints.lock"
    assert (lock.stat().st_mode & 0o777, lock.stat().st_size) == (0o600, 0)
    assert os.access(lock, os.W_OK)


def test_the_home_directory_alarms_nobody_who_did_not_ask_for_it(product: Product, tmp_path: Path) -> None:
    config = tmp_path / "hermes" / "config.yaml"
    payload = json.dumps(
        {"hook_event_name": "PreToolUse", "session_id": "s", "prompt_id": "p", "cwd": str(tmp_path / "home"),
         "tool_name": "Bash", "tool_use_id": "c", "tool_input": {"command": "ls"}}
    )  # fmt: skip
    write(config, "checkpoints: {on_failure: block}\n")
    done = product.run("hook", "claude-code", stdin=payload)
    assert (done.code, done.out, done.err) == (0, "", "")
    write(config, "checkpoints: {on_failure: block, enabled: true}\n")
    done = product.run("hook", "claude-code", stdin=payload)
    assert done.code == 2
    assert "not protected" in done.err
    write(config, "checkpoints: {enabled: true}\n")
    done = product.run("hook", "claude-code", stdin=payload)
    assert done.code == 0
    assert "not protected" in done.json["systemMessage"]


def test_json_may_be_asked_for_anywhere(product: Product) -> None:
    for words in (["--json", "take"], ["take", "--json"], ["rollback", "--json"], ["rollback", "diff", "1", "--json"]):
        assert isinstance(product.run(*words).json, dict)


def test_nothing_is_added_to_a_disk_that_is_nearly_full(product: Product, tmp_path: Path) -> None:
    write(tmp_path / "hermes" / "config.yaml", "checkpoints: {min_free_mb: 999999999}\n")
    assert product.agent_writes("a.py", "x\n", turn="t1")["why"] == "no-space"
    done = product.run("take")
    assert done.code == 1
    assert "disk" in done.err
    listed = product.run("--json", "rollback").json
    assert listed["health"]["protected"] is False
    assert product.run("rollback", "1", "a.py").code == 0


def test_status_without_the_service_still_says_whether_it_runs(product: Product) -> None:
    by_service = product.run("--json", "status").json["service"]
    assert Product(product.project, options=["--no-service"]).run("--json", "status").json["service"] == by_service


_IMPOSSIBLE = ["a\ud800b", "\0", "a\0b"]


@pytest.mark.parametrize("name", _IMPOSSIBLE)
def test_a_name_that_no_file_can_have_is_bad_input(tmp_path: Path, name: str) -> None:
    project = InProcess(make_project(tmp_path / "project"))
    project.ask("watch", action="add", path=str(project.project))
    requests: list[tuple[str, dict[str, object]]] = [
        ("rollback.restore", {"hash": "1", "paths": [name]}),
        ("rollback.restore", {"hash": "1", "paths": ["./a.py"], "cwd": f"/{name}"}),
        ("rollback.restore", {"hash": "1", "workdir": f"/{name}"}),
        ("rollback.list", {"workdir": f"/{name}"}),
        ("rollback.diff", {"hash": "1", "workdir": f"/{name}"}),
        ("take", {"workdir": f"/{name}"}),
        ("watch", {"action": "add", "path": f"/{name}"}),
        ("watch", {"action": "remove", "path": f"/{name}"}),
        ("watch", {"action": "add", "path": "x", "cwd": f"/{name}"}),
        ("event", {"event": "before_tool", "paths": [name]}),
    ]
    for method, arguments in requests:
        with pytest.raises(UsageError):
            project.ask(method, **arguments)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Give a home on a disk of a megabyte."""
    home = tmp_path / "hermes"
    home.mkdir()
    mount = shutil.which("mount")
    done = mount and subprocess.run([mount, "-t", "tmpfs", "-o", "size=1m", "none", home], check=False)
    if not done or done.returncode:
        pytest.skip("no volume can be mounted here")
    yield home
    subprocess.run(["umount", "-l", home], check=False)


@pytest.mark.parametrize("count", [3, 300])
@pytest.mark.parametrize("spare_bytes", [0, 4096, 20_000])
def test_a_full_disk_is_told_wherever_it_is_met(small_disk: Path, tmp_path: Path, count: int, spare_bytes: int) -> None:
    project = InProcess(make_project(tmp_path / "project"))
    write(small_disk / "config.yaml", "checkpoints: {min_free_mb: 0}\n")
    project.ask("watch", action="add", path=str(project.project))
    for number in range(count):
        write(project.project / "new" / f"f{number}", random.Random(number).randbytes(40_000))
    free = os.statvfs(small_disk)
    (small_disk / "filling").write_bytes(bytes(max(0, free.f_bavail * free.f_frsize - spare_bytes)))
    for session in ("s1", "s2"):
        project.session = session
        answer = project.event("before_tool", tool="write_file", paths=["a.py"], turn="t1")
        assert (answer["taken"], answer["why"]) == (False, "no-space")
        with pytest.raises(NoSpaceError):
            project.ask("take")
    (small_disk / "filling").unlink()
    shutil.rmtree(project.project / "new")
    write(project.project / "a.py", "two\n")
    assert project.event("before_tool", tool="write_file", paths=["a.py"], turn="t1")["taken"]
