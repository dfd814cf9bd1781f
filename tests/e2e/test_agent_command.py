"""`agent install`: what it writes is run as the agent runs it, and a checkpoint is taken."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.steps import Product, serving
from tests.support.workdir import make_project
from watcher.hook_client import SILENT
from watcher.installation import AGENTS
from watcher.protocol import format_result


def _call(event: str, tool: str, **arguments: str) -> dict[str, Any]:
    return {"hook_event_name": event, "session_id": "s", "tool_name": tool, "tool_input": arguments}


_PAYLOADS = {
    "claude-code": _call("PreToolUse", "Write", file_path="a.py"),
    "gemini": _call("BeforeTool", "write_file", file_path="a.py"),
    "codex": _call("PreToolUse", "Bash", command="rm a.py"),
    "cursor": _call("preToolUse", "Write", file_path="a.py"),
    "copilot": _call("PreToolUse", "Edit", path="a.py"),
}


@pytest.fixture
def product(tmp_path: Path) -> Product:
    product = Product(make_project(tmp_path / "project"))
    assert product.run("watch", "add").code == 0
    return product


def find_commands(settings: object) -> list[str]:
    """Return every command in a settings file, wherever it stands."""
    if isinstance(settings, dict):
        here = [value for key, value in settings.items() if key in ("command", "bash") and isinstance(value, str)]
        return here + [command for value in settings.values() for command in find_commands(value)]
    return [command for value in settings for command in find_commands(value)] if isinstance(settings, list) else []


def install(product: Product, agent: str) -> str:
    """Install an agent's hooks and return their command line."""
    path = Path(product.run("--json", "agent", "install", agent).json["file"])
    (command, *others) = set(find_commands(json.loads(path.read_text())))
    assert not others
    return command


def run_hook(command: str, payload: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command line as agents do, by a shell."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "XDG_RUNTIME_DIR")}
    text = json.dumps(payload)
    return subprocess.run(
        ["sh", "-c", command], cwd=cwd, env=environment, input=text, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("is_served", [True, False], ids=["service", "direct"])
@pytest.mark.parametrize("agent", AGENTS)
def test_the_installed_command_line_takes_a_checkpoint(agent: str, product: Product, *, is_served: bool) -> None:
    command = install(product, agent)
    (product.project / "a.py").write_text("since the first checkpoint\n")

    def announce() -> None:
        done = run_hook(command, _PAYLOADS[agent] | {"cwd": str(product.project)}, product.project)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    if is_served:
        with serving(product):
            announce()
    else:
        announce()
    assert [each["kind"] for each in product.run("--json", "rollback").json["checkpoints"]] == ["tool", "manual"]
    listed = {each["agent"]: each["hooked"] for each in product.run("--json", "agent", "list").json["agents"]}
    (path,) = listed[agent]
    assert product.run("agent", "uninstall", agent).code == 0
    assert not Path(path).exists()


def test_a_dry_run_shows_the_change_and_makes_none(product: Product) -> None:
    done = product.run("agent", "install", "claude-code", "--project", "--dry-run")
    assert done.code == 0
    assert "+++ " in done.out
    assert "hook_client.py" in done.out
    assert not (product.project / ".claude").exists()


def test_settings_that_can_not_be_understood_are_left_alone(product: Product) -> None:
    settings = product.project / ".gemini" / "settings.json"
    settings.parent.mkdir()
    settings.write_text("{ // mine\n}")
    done = product.run("agent", "install", "gemini", "--project")
    assert done.code == 2
    assert "no plain JSON" in done.err
    assert settings.read_text() == "{ // mine\n}"


def test_nothing_around_the_project_has_a_part_in_the_hook(product: Product) -> None:
    command = install(product, "codex")
    with serving(product):
        for name in ("json.py", "socket.py", "watcher.py", "config.py", "sitecustomize.py"):
            (product.project / name).write_text("raise SystemExit(9)\n")
        done = run_hook(command, _PAYLOADS["codex"] | {"cwd": str(product.project)}, product.project)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_the_service_says_is_passed_on(product: Product, tmp_path: Path) -> None:
    command = install(product, "claude-code")
    product.agent_writes("a.py", "by the agent\n", turn="t1")
    with serving(product):
        start = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "cwd": str(product.project)}
        assert run_hook(command, start, product.project).stdout == ""
        assert run_hook(command, start | _PAYLOADS["claude-code"], product.project).stdout == ""
        assert product.run("rollback", "2").code == 0
        told = json.loads(run_hook(command, start, product.project).stdout)
    assert "a.py" in told["hookSpecificOutput"]["additionalContext"]
    wrong = run_hook(command, ["no object"], tmp_path)
    assert wrong.returncode == 0
    assert "not a JSON object" in wrong.stderr


def test_the_answer_that_is_known_beforehand_is_the_one_that_is_sent() -> None:
    assert format_result(1, {"stdout": "", "stderr": "", "exit_code": 0}) == SILENT + b"\n"


def test_the_hook_costs_little_more_than_a_bare_interpreter(product: Product) -> None:
    command = install(product, "codex")
    payload = _PAYLOADS["codex"] | {"cwd": str(product.project)}

    def measure(line: str) -> float:
        started = time.perf_counter()
        assert run_hook(line, payload, product.project).returncode == 0
        return time.perf_counter() - started

    with serving(product):
        measure(command)
        pairs = [(measure(command), measure(f"{sys.executable} -I -S -c pass")) for _ in range(15)]
    ours, bare = (statistics.median(side) for side in zip(*pairs, strict=True))
    assert ours < 3 * bare, (ours, bare)
