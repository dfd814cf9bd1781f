"""The defaults stand in three places: the shipped file, the dataclasses, the reference. They must be the same."""

from __future__ import annotations

import dataclasses
import re
from importlib import resources
from pathlib import Path

import pytest
import yaml

import config
from config.settings import Settings, WatchSettings, default_excludes, load_settings

DEFAULTS = resources.files("config").joinpath("defaults.yaml").read_text(encoding="utf-8")
REFERENCE = Path(config.__file__).parent.parent / "docs" / "reference" / "configuration.md"


def _flatten(values: dict[str, object]) -> dict[str, object]:
    """Return nested values by dotted key."""
    flat: dict[str, object] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= {f"{key}.{inner}": inner_value for inner, inner_value in value.items()}
        else:
            flat[key] = list(value) if isinstance(value, tuple) else value
    return flat


def test_the_shipped_file_and_the_dataclasses_agree() -> None:
    assert _flatten(dataclasses.asdict(Settings())) == _flatten(yaml.safe_load(DEFAULTS))


def test_the_shipped_file_lists_the_keys_in_the_order_of_the_dataclasses() -> None:
    document = yaml.safe_load(DEFAULTS)
    assert list(document) == [field.name for field in dataclasses.fields(Settings)]
    assert list(document["watch"]) == [field.name for field in dataclasses.fields(WatchSettings)]


def test_without_a_file_the_defaults_are_valid(tmp_path: Path) -> None:
    assert load_settings(tmp_path / "config.yaml") == Settings()


def test_the_shipped_file_is_valid_as_the_users_section(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("checkpoints:\n" + "".join(f"  {line}\n" for line in DEFAULTS.splitlines()))
    assert load_settings(file) == Settings()


def test_every_shipped_default_has_a_comment_of_one_line() -> None:
    lines = DEFAULTS.splitlines()
    for number, line in enumerate(lines):
        if re.match(r" *[a-z_]+:", line):
            assert lines[number - 1].strip().startswith("# "), line
            assert not lines[number - 2].strip().startswith("#"), line


def test_every_key_is_documented_with_its_default() -> None:
    rows = re.findall(r"^\| `([a-z_.]+)` \| `(.+?)` \|", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {key: yaml.safe_load(default) for key, default in rows} == _flatten(yaml.safe_load(DEFAULTS))
    assert len(rows) == len({key for key, _ in rows})


def test_the_documented_examples_are_what_the_documentation_says(tmp_path: Path) -> None:
    examples = re.findall(r"```yaml\n(checkpoints:.*?)```", REFERENCE.read_text(encoding="utf-8"), re.DOTALL)
    assert examples
    for example in examples:
        file = tmp_path / "config.yaml"
        file.write_text(example)
        assert load_settings(file).enabled


def test_the_default_excludes_begin_with_their_version() -> None:
    assert default_excludes().splitlines()[0] == b"# hermes-checkpoints excludes, version 1"


@pytest.mark.parametrize(
    "pattern", ["node_modules/", "__pycache__/", ".venv/", ".git/", "*.so", "*.zip", ".env", "*.log"]
)
def test_the_default_excludes_hold_each_group(pattern: str) -> None:
    assert pattern.encode() in default_excludes().splitlines()


def test_each_default_exclude_stands_once_and_alone_on_its_line() -> None:
    patterns = [line for line in default_excludes().splitlines() if line and not line.startswith(b"#")]
    assert len(patterns) == len(set(patterns))
    assert all(pattern.split() == [pattern] for pattern in patterns)
