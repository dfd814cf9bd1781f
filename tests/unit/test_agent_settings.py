"""Our hooks in agents' settings files: nothing else in them changes, and they go without a trace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from config.errors import UsageError
from config.paths import Paths
from watcher.agents.settings import add_hooks, has_hooks, remove_hooks
from watcher.installation import AGENTS, apply, find_agent, find_file, format_command, plan_install, plan_uninstall

_COMMAND = "/usr/bin/python3 -I -S /opt/watcher/hook_client.py x"
_OTHERS = """{
    "model": "opus",
    "hooks": {
        "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "lint"}]}],
        "Other": []
    },
    "ü": ["é", 1.50, null]
}
"""
_FILES = {
    "missing": None,
    "empty": b"",
    "blank": b"\n",
    "an empty object": b"{}",
    "other people's hooks": _OTHERS.encode(),
    "tabs": b'{\n\t"a": {\n\t\t"b": 1\n\t}\n}',
    "Windows": b'{\r\n  "a": 1\r\n}\r\n',
    "a byte order mark": b'\xef\xbb\xbf{"a": 1}\n',
    "on one line": b'{"z":1,"a":{"c":[ ]}}',
}


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(str(tmp_path / "hermes"), "")


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("content", _FILES.values(), ids=_FILES)
def test_what_is_installed_and_uninstalled_is_as_it_was(
    name: str, content: bytes | None, paths: Paths, tmp_path: Path
) -> None:
    agent = find_agent(name)
    path = Path(find_file(agent, str(tmp_path / "project")))
    if content is not None:
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
        path.chmod(0o640)
    change = plan_install(agent, str(path), paths)
    apply(change, keeps_copy=True)
    installed = path.read_bytes()
    settings = json.loads(installed.decode("utf-8-sig"))
    assert set(agent.hooks.events) <= settings["hooks"].keys()
    assert plan_install(agent, str(path), paths).is_empty
    if content and content.strip() and content is not None:
        assert path.stat().st_mode & 0o777 == 0o640
        before = json.loads(content.decode("utf-8-sig"))
        assert {key: value for key, value in settings.items() if key not in ("hooks", "version")} == {
            key: value for key, value in before.items() if key != "hooks"
        }
    apply(plan_uninstall(agent, str(path), paths), keeps_copy=False)
    assert (path.read_bytes() if path.exists() else None) == content
    assert not [each for each in path.parent.iterdir() if each != path]


@pytest.mark.parametrize("name", AGENTS)
def test_what_was_changed_since_stays(name: str, paths: Paths, tmp_path: Path) -> None:
    agent = find_agent(name)
    path = Path(find_file(agent, str(tmp_path)))
    path.parent.mkdir(parents=True)
    path.write_text(_OTHERS)
    apply(plan_install(agent, str(path), paths), keeps_copy=True)
    settings = json.loads(path.read_text())
    settings["theme"] = "dark"
    path.write_text(json.dumps(settings))
    apply(plan_uninstall(agent, str(path), paths), keeps_copy=False)
    left = json.loads(path.read_text())
    assert left["theme"] == "dark"
    assert left["hooks"] == json.loads(_OTHERS)["hooks"]


def test_another_command_line_replaces_ours_and_no_other() -> None:
    hooks = find_agent("claude-code").hooks
    once = add_hooks(_OTHERS, hooks, _COMMAND)
    moved = add_hooks(once, hooks, _COMMAND.replace("/opt", "/elsewhere"))
    assert "/opt" not in moved
    assert moved.count("hook_client.py") == len(hooks.events)
    assert '"lint"' in moved
    assert json.loads(remove_hooks(moved)) == json.loads(_OTHERS)


@pytest.mark.parametrize(
    "text",
    ['{"a": 1, // comment\n}', '{"a": 1, "a": 2}', "[]", '{"hooks": []}', '{"hooks": {"PreToolUse": {}}}', "{", "\0"],
)
def test_what_can_not_be_understood_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        add_hooks(text, find_agent("claude-code").hooks, _COMMAND)


def test_a_link_stays_one(paths: Paths, tmp_path: Path) -> None:
    agent = find_agent("claude-code")
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles" / "claude.json").write_text("{}")
    (tmp_path / "project" / ".claude").mkdir(parents=True)
    link = tmp_path / "project" / ".claude" / "settings.json"
    link.symlink_to(tmp_path / "dotfiles" / "claude.json")
    path = find_file(agent, str(tmp_path / "project"))
    apply(plan_install(agent, path, paths), keeps_copy=True)
    assert link.is_symlink()
    assert has_hooks(link.read_text())


def test_the_command_line_names_a_home_that_is_not_the_usual_one(paths: Paths) -> None:
    assert f"HERMES_HOME={paths.home}" in format_command(find_agent("claude-code"), paths)
    assert format_command(find_agent("copilot"), paths).endswith(" || exit 0")
