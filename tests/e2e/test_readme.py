"""The README as a newcomer follows it: every shell block runs, and prints what the README says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.steps import Product, command_environment, serving
from tests.support.workdir import write
from watcher.agents import find_adapter

if TYPE_CHECKING:
    from collections.abc import Iterator

_README = Path(__file__).resolve().parents[2] / "README.md"
_BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_VARYING = [
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b"), "TIME"),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b"), "ID"),
    (re.compile(r"\b\d+\.\d ms\b"), "DURATION"),
    (re.compile(r"\b\d+(\.\d)? (B|KB|MB)\b"), "SIZE"),
    (re.compile(r"\bprocess \d+\b"), "process PID"),
    (re.compile(r"(?<=/home/you/checkpoint-demo) +"), "  "),
    (re.compile(r" +(now|\d+[smhd] ago)\b"), " AGE"),
]


@dataclass(frozen=True)
class Block:
    """A fenced block of the README."""

    kind: str
    text: str
    output: str | None
    """The `text` block right after it."""


def read_blocks() -> list[Block]:
    found = list(_BLOCK.finditer(_README.read_text(encoding="utf-8")))
    blocks = []
    for place, match in enumerate(found):
        after = found[place + 1] if place + 1 < len(found) else None
        between = match.string[match.end() : after.start()] if after is not None else ""
        is_output = after is not None and after[1] == "text" and not between.strip()
        blocks.append(Block(match[1], match[2], after[2] if after is not None and is_output else None))
    return blocks


def normalise(text: str, home: str = "/home/you") -> str:
    """Replace what differs from run to run, and nothing else."""
    text = text.replace(home, "/home/you")
    for pattern, name in _VARYING:
        text = pattern.sub(name, text)
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


@dataclass
class Shell:
    """A terminal whose directory lasts from block to block."""

    home: Path
    place: Path

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        note = self.home / ".place"
        done = subprocess.run(
            ["sh", "-e", "-u", "-c", f'{script}\npwd > "$PLACE"'],
            cwd=self.place,
            capture_output=True,
            text=True,
            encoding="utf-8",
            env=command_environment() | {
                "PROJECT": str(self.home / "checkpoint-demo"),
                "PLACE": str(note),
                "PATH": f"{self.home / 'bin'}{os.pathsep}{os.environ['PATH']}",
            },
            check=False,
            timeout=60,
        )  # fmt: skip
        if done.returncode == 0:
            self.place = Path(note.read_text().strip())
        return done


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """Give a home as a new user has it, its path short enough for every column, with the command on PATH."""
    with tempfile.TemporaryDirectory(prefix="hc-") as name:
        home = Path(name).resolve()
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("HERMES_HOME", str(home / ".hermes"))
        yield make_shell(home)


def make_shell(home: Path) -> Shell:
    program = home / "bin" / "hermes-checkpoints"
    write(program, f'#!/bin/sh\nexec "{sys.executable}" -P -m watcher.main "$@"\n')
    program.chmod(0o755)
    return Shell(home, home)


def list_table_commands() -> list[str]:
    """Return the commands that the table of commands names, without their arguments."""
    rows = re.findall(r"^\| (`.*?) \| ", _README.read_text(encoding="utf-8"), re.MULTILINE)
    spans = [span for row in rows for span in re.findall(r"`([^`]+)`", row)]
    return [words[0] for span in spans if (words := re.match(r"[a-z]+( [a-z]+)?(?=$| )", span))]


def test_every_block_runs_and_prints_what_the_readme_says(shell: Shell) -> None:
    project = shell.home / "checkpoint-demo"
    ran, compared = "", 0
    with ExitStack() as services:
        for block in read_blocks():
            if block.kind == "sh no-test" and "make run" in block.text:
                assert shell.run(f'hermes-checkpoints watch add "{project}"').returncode == 0
                services.enter_context(serving(Product(project)))
            if block.kind != "sh":
                continue
            done = shell.run(block.text)
            assert done.returncode == 0, f"{block.text}\n{done.stderr}"
            assert done.stderr == "", block.text
            ran += block.text
            assert normalise(done.stdout, str(shell.home)) == normalise(block.output or ""), block.text
            compared += block.output is not None
        assert compared >= 7
        commands = list_table_commands()
        assert len(commands) >= 12
        for command in commands:
            if not re.search(rf"^hermes-checkpoints {command}\b", ran, re.MULTILINE):
                done = shell.run(f"hermes-checkpoints {command} --help")
                assert done.stdout.startswith(f"Usage: hermes-checkpoints {command} "), command


def test_only_blocks_for_installing_are_left_untested() -> None:
    blocks = read_blocks()
    assert {block.kind for block in blocks} == {"sh", "sh no-test", "text", "json"}
    for block in blocks:
        if block.kind == "sh no-test":
            assert re.fullmatch(r"(make|export) [^\n]*\n", block.text), block.text


def test_words_and_counts_are_compared_and_ids_and_times_are_not() -> None:
    row = "  1. 4270a8c  2026-03-16 04:36  first checkpoint  (1 file, +1/-0)"
    assert normalise(row) == normalise(row.replace("4270a8c", "eaf4c1f").replace("04:36", "17:05"))
    for wrong in (row.replace("first", "second"), row.replace("+1", "+2"), row.replace("  1.", "  2.")):
        assert normalise(wrong) != normalise(row)


def test_the_settings_for_claude_code_name_events_that_the_adapter_knows() -> None:
    (block,) = [block for block in read_blocks() if block.kind == "json"]
    hooks = json.loads(block.text)["hooks"]
    assert list(hooks) == [
        "SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "Stop", "SessionEnd",
    ]  # fmt: skip
    adapter = find_adapter("claude-code")
    for name, (entry,) in hooks.items():
        assert adapter.translate({"hook_event_name": name, "session_id": "s", "cwd": "/"}) is not None
        (hook,) = entry["hooks"]
        assert re.fullmatch(r"/\S+/hermes-checkpoints hook claude-code", hook["command"])
        assert ("matcher" in entry) == ("ToolUse" in name)
