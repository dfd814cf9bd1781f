"""The settings: their layers, every rule, every mistake, and how a change is picked up."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from config.choices import Durability, NestedRepos, OnFailure, Terminal
from config.errors import ConfigError
from config.settings import Settings, SettingsSource, WatchSettings, load_settings

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


def _load(file: Path, text: str) -> Settings:
    file.write_text(text, encoding="utf-8")
    return load_settings(file)


def _fail(file: Path, text: str | bytes) -> str:
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as caught:
        load_settings(file)
    assert str(file) in caught.value.message
    return caught.value.message.replace(str(file), "FILE")


# Layers


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "model: x\n", "checkpoints:\n", "checkpoints: {}\n", "checkpoints: {watch: }"]
)
def test_what_is_not_set_has_its_default(file: Path, text: str) -> None:
    assert _load(file, text) == Settings()


def test_a_path_through_a_file_is_a_missing_file(file: Path) -> None:
    file.touch()
    assert load_settings(file / "config.yaml") == Settings()


@pytest.mark.parametrize(
    ("text", "enabled"), [("true", True), ("false", False), ("on", True), ("{enabled: yes}", True)]
)
def test_the_master_switch_can_stand_alone(file: Path, text: str, enabled: bool) -> None:
    assert _load(file, f"checkpoints: {text}\n").enabled is enabled


def test_every_key_can_be_set(file: Path) -> None:
    text = """\
checkpoints:
  enabled: true
  max_snapshots: 1
  max_total_size_mb: 2
  max_file_size_mb: 3
  auto_prune: false
  retention_days: 0.5
  min_interval_hours: 4
  max_files: 5
  nested_repos: capture
  exclude: ["*.bin", "/a b/"]
  include: ["!x"]
  terminal: always
  on_failure: block
  hook_deadline_s: 6.5
  durability: full
  min_free_mb: 7
  watch: {quiet_ms: 8, idle_gap_s: 9, max_wait_s: 10.5}
"""
    assert _load(file, text) == Settings(
        enabled=True,
        max_snapshots=1,
        max_total_size_mb=2,
        max_file_size_mb=3,
        auto_prune=False,
        retention_days=0.5,
        min_interval_hours=4,
        max_files=5,
        nested_repos=NestedRepos.CAPTURE,
        exclude=("*.bin", "/a b/"),
        include=("!x",),
        terminal=Terminal.ALWAYS,
        on_failure=OnFailure.BLOCK,
        hook_deadline_s=6.5,
        durability=Durability.FULL,
        min_free_mb=7,
        watch=WatchSettings(quiet_ms=8, idle_gap_s=9, max_wait_s=10.5),
    )


def test_choices_are_of_their_own_types(file: Path) -> None:
    settings = _load(
        file, "checkpoints: {nested_repos: capture, terminal: always, on_failure: block, durability: full}"
    )
    assert isinstance(settings.nested_repos, NestedRepos)
    assert isinstance(settings.terminal, Terminal)
    assert isinstance(settings.on_failure, OnFailure)
    assert isinstance(settings.durability, Durability)


def test_overrides_go_over_the_file_and_the_file_over_the_defaults(file: Path) -> None:
    file.write_text("checkpoints: {max_snapshots: 5, max_files: 6, watch: {quiet_ms: 7, idle_gap_s: 8}}")
    overrides = {"max_files": 60, "exclude": ("a",), "watch": {"quiet_ms": 70}}
    assert load_settings(file, overrides) == Settings(
        max_snapshots=5, max_files=60, exclude=("a",), watch=WatchSettings(quiet_ms=70, idle_gap_s=8)
    )


def test_a_key_of_watch_may_stand_with_a_dot(file: Path) -> None:
    assert _load(file, "checkpoints: {watch.quiet_ms: 5}").watch == WatchSettings(quiet_ms=5)


def test_settings_do_not_change() -> None:
    with pytest.raises(AttributeError):
        Settings().enabled = True  # type: ignore[misc]


def test_sizes_are_told_in_bytes() -> None:
    settings = Settings(max_file_size_mb=3, max_total_size_mb=2, min_free_mb=1)
    assert settings.max_file_size_bytes == 3 * 1024 * 1024
    assert settings.max_total_size_bytes == 2 * 1024 * 1024
    assert settings.min_free_bytes == 1024 * 1024


def test_a_size_of_zero_is_no_limit() -> None:
    settings = Settings(max_file_size_mb=0, max_total_size_mb=0, min_free_mb=0)
    assert settings.max_file_size_bytes is None
    assert settings.max_total_size_bytes is None
    assert settings.min_free_bytes == 0


# Rules

WHOLE_FROM_1 = "a whole number from 1 to 1000000000"
WHOLE_FROM_0 = "a whole number from 0 to 1000000000"
PATTERNS = "a list of git ignore patterns, one line of text each"


@pytest.mark.parametrize(
    ("key", "value", "allowed", "shown"),
    [
        ("enabled", "1", "true or false", "1"),
        ("enabled", "'true'", "true or false", "'true'"),
        ("auto_prune", "", "true or false", "nothing"),
        ("max_snapshots", "0", WHOLE_FROM_1, "0"),
        ("max_snapshots", "true", WHOLE_FROM_1, "true"),
        ("max_snapshots", "1.0", WHOLE_FROM_1, "1.0"),
        ("max_snapshots", "'20'", WHOLE_FROM_1, "'20'"),
        ("max_snapshots", "1000000001", WHOLE_FROM_1, "1000000001"),
        ("max_total_size_mb", "-1", WHOLE_FROM_0, "-1"),
        ("max_total_size_mb", "0x" + "f" * 9999, WHOLE_FROM_0, "so large a number"),
        ("max_file_size_mb", "0.5", WHOLE_FROM_0, "0.5"),
        ("max_file_size_mb", "2001-02-03", WHOLE_FROM_0, "a date"),
        ("retention_days", "-1", "a number from 0 to 36500", "-1"),
        ("retention_days", ".nan", "a number from 0 to 36500", "nan"),
        ("retention_days", "false", "a number from 0 to 36500", "false"),
        ("min_interval_hours", ".inf", "a number from 0 to 87600", "so large a number"),
        ("max_files", "0", WHOLE_FROM_1, "0"),
        ("max_files", "[1]", WHOLE_FROM_1, "a list that holds 1"),
        ("nested_repos", "LINK", "link or capture", "'LINK'"),
        ("nested_repos", "no", "link or capture", "false"),
        ("exclude", "'*.bin'", PATTERNS, "'*.bin'"),
        ("exclude", "[a, 1]", PATTERNS, "a list that holds 1"),
        ("exclude", "[a, ' ']", PATTERNS, "a list that holds ' '"),
        ("include", '["a\\nb"]', PATTERNS, "a list that holds 'a\\nb'"),
        ("include", '["a\\0b"]', PATTERNS, "a list that holds 'a\\x00b'"),
        ("include", "{a: b}", PATTERNS, "a mapping"),
        ("terminal", "never", "destructive or always", "'never'"),
        ("terminal", "[always]", "destructive or always", "a list"),
        ("on_failure", "x" * 99, "allow or block", "'" + "x" * 39 + "…'"),
        ("hook_deadline_s", "0", "a number from 0.1 to 3600", "0"),
        ("durability", "none", "batch or full", "'none'"),
        ("min_free_mb", "-1", WHOLE_FROM_0, "-1"),
        ("watch", "true", "a mapping", "true"),
        ("watch", "[a]", "a mapping", "a list"),
        ("watch.quiet_ms", "0", "a whole number from 1 to 60000", "0"),
        ("watch.idle_gap_s", "0", "a number from 0.1 to 86400", "0"),
        ("watch.max_wait_s", "90000", "a number from 0.1 to 86400", "90000"),
    ],
)
def test_a_value_that_is_not_allowed_is_named_with_what_is(
    file: Path, key: str, value: str, allowed: str, shown: str
) -> None:
    outer, _, inner = key.partition(".")
    text = f"checkpoints:\n  {outer}:\n    {inner}: {value}\n" if inner else f"checkpoints:\n  {key}: {value}\n"
    assert _fail(file, text) == f"FILE: checkpoints.{key} must be {allowed}, not {shown}."


@pytest.mark.parametrize(("section", "shown"), [("5", "5"), ("yes please", "'yes please'"), ("[enabled]", "a list")])
def test_a_section_that_is_no_mapping_is_refused(file: Path, section: str, shown: str) -> None:
    expected = f"FILE: checkpoints must be true, false or a mapping, not {shown}."
    assert _fail(file, f"checkpoints: {section}\n") == expected


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("{max_snapshot: 5}", "checkpoints.max_snapshot is not a setting; did you mean max_snapshots?"),
        ("{watches: {}}", "checkpoints.watches is not a setting; did you mean watch?"),
        ("{quiet_ms: 5}", "checkpoints.quiet_ms is not a setting; did you mean watch.quiet_ms?"),
        ("{watch: {quietms: 5}}", "checkpoints.watch.quietms is not a setting; did you mean watch.quiet_ms?"),
        ("{watch: {enabled: true}}", "checkpoints.watch.enabled is not a setting."),
        ("{zzz: 5}", "checkpoints.zzz is not a setting."),
        ("{5: 5}", "checkpoints.5 is not a setting."),
        ("{? 0x" + "f" * 9999 + " : 5}", "checkpoints.so large a number is not a setting."),
        ("{true: 5}", "checkpoints.true is not a setting."),
        ('{"a\\eb": 5}', "checkpoints.'a\\x1bb' is not a setting."),
    ],
)
def test_an_unknown_key_is_named_with_what_was_meant(file: Path, section: str, expected: str) -> None:
    assert _fail(file, f"checkpoints: {section}\n") == f"FILE: {expected}"


def test_every_problem_is_listed_at_once(file: Path) -> None:
    file.write_text("checkpoints: {max_snapshots: 0, colour: red, watch: {quiet_ms: x}, exclude: 5}\n")
    with pytest.raises(ConfigError) as caught:
        load_settings(file, {"max_files": True})
    lines = caught.value.message.splitlines()
    assert lines[0] == "There are 5 problems with the settings:"
    keys = ["max_snapshots", "colour", "watch.quiet_ms", "exclude"]
    for line, key in zip(lines[1:5], keys, strict=True):
        assert line.startswith(f"{file}: checkpoints.{key} ")
    assert lines[5] == f"overrides: checkpoints.max_files must be {WHOLE_FROM_1}, not true."
    assert len(lines) == 6


def test_a_file_full_of_problems_makes_no_endless_message(file: Path) -> None:
    lines = _fail(file, "checkpoints:\n" + "".join(f"  k{number}: 1\n" for number in range(200))).splitlines()
    assert len(lines) == 52
    assert lines[-1] == "… and 150 more."


def test_a_lone_surrogate_in_an_override_is_refused(file: Path) -> None:
    with pytest.raises(ConfigError, match=PATTERNS):
        load_settings(file, {"exclude": ["na\udce9"]})


def test_a_key_given_twice_is_refused(file: Path) -> None:
    assert _fail(file, "checkpoints: {max_files: 5, max_files: 6}") == "FILE: checkpoints.max_files is given twice."
    assert _fail(file, "checkpoints: true\ncheckpoints: false\n") == "FILE: checkpoints is given twice."


# Files


def test_a_file_that_is_not_yaml_is_refused_with_the_place(file: Path) -> None:
    assert _fail(file, "checkpoints:\n  enabled: [\n").startswith("FILE is not valid YAML (line ")


@pytest.mark.parametrize(
    "text",
    [
        "checkpoints: {max_files: 2026-13-45}",
        "checkpoints: {max_files: " + "9" * 5000 + "}",
        "checkpoints: {max_files: !!python/object/apply:os.getpid []}",
        "checkpoints: {[a]: 1}",
        "checkpoints: true\n---\ncheckpoints: false\n",
        "checkpoints: \x01",
        "[" * 200_000,
        "checkpoints: " + "- " * 200_000,
    ],
)
def test_what_yaml_can_not_read_is_refused(file: Path, text: str) -> None:
    assert _fail(file, text).startswith("FILE is not valid YAML")


@pytest.mark.parametrize("text", ["- checkpoints\n", "checkpoints\n", "5"])
def test_a_top_level_that_is_no_mapping_is_refused(file: Path, text: str) -> None:
    assert _fail(file, text) == "FILE must be a mapping at its top level."


@pytest.mark.parametrize("raw", [b"checkpoints: na\xe9", "checkpoints: true".encode("utf-16")])
def test_a_file_that_is_not_utf8_is_refused(file: Path, raw: bytes) -> None:
    assert _fail(file, raw) == "FILE is not UTF-8."


def test_a_byte_order_mark_is_no_mistake(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbfcheckpoints: true\n")
    assert load_settings(file).enabled


def test_a_file_larger_than_a_mebibyte_is_refused(file: Path) -> None:
    text = b"checkpoints: true\n#"
    file.write_bytes(text + b"x" * (1024 * 1024 - len(text)))
    assert load_settings(file).enabled
    assert "larger than 1 MiB" in _fail(file, text + b"x" * (1024 * 1024 + 1 - len(text)))


def test_a_directory_in_place_of_the_file_is_refused(file: Path) -> None:
    file.mkdir()
    with pytest.raises(ConfigError, match="can't be read: Is a directory"):
        load_settings(file)


def test_a_pipe_in_place_of_the_file_is_refused_without_waiting(file: Path) -> None:
    os.mkfifo(file)
    with pytest.raises(ConfigError, match="is not a regular file"):
        load_settings(file)


def test_a_file_that_can_not_be_read_is_refused(file: Path) -> None:
    file.symlink_to(file.name)
    with pytest.raises(ConfigError, match="can't be read: Too many levels of symbolic links"):
        load_settings(file)


def test_an_alias_in_the_section_is_refused(file: Path) -> None:
    text = "checkpoints: {exclude: &list [a], include: *list}"
    assert _fail(file, text) == "FILE: checkpoints.include must be written out; aliases can't be used here."


def test_a_section_that_holds_itself_is_refused(file: Path) -> None:
    assert "aliases can't be used" in _fail(file, "checkpoints: &all {watch: *all}")


def test_a_bomb_of_aliases_hurts_nobody(file: Path) -> None:
    bomb = "a0: &a0 {k: v}\n" + "".join(
        f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 60)
    )
    assert _load(file, bomb + "checkpoints: true\n").enabled
    assert "aliases can't be used" in _fail(file, bomb + "checkpoints: {<<: *a59}\n")


def test_other_sections_are_not_looked_at(file: Path) -> None:
    text = "model: !custom {a: &x 1, b: *x, b: 2026-13-45}\n? [a, b]\n: c\ncheckpoints: true\n"
    assert _load(file, text).enabled


# Changes


def test_without_a_change_the_same_settings_come_back(file: Path) -> None:
    file.write_text("checkpoints: {max_snapshots: 5}")
    source = SettingsSource(file)
    first, problem = source.current()
    assert (first.max_snapshots, problem) == (5, None)
    assert source.current()[0] is first


def test_a_change_is_picked_up(file: Path) -> None:
    source = SettingsSource(file)
    assert source.current() == (Settings(), None)
    file.write_text("checkpoints: {max_snapshots: 5}")
    assert source.current() == (Settings(max_snapshots=5), None)
    file.unlink()
    assert source.current() == (Settings(), None)


def test_a_replaced_file_of_the_same_size_and_time_is_picked_up(file: Path) -> None:
    file.write_text("checkpoints: {max_snapshots: 5}")
    source = SettingsSource(str(file))
    source.current()
    other = file.with_name("other")
    other.write_text("checkpoints: {max_snapshots: 6}")
    stat = file.stat()
    os.utime(other, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    other.replace(file)
    assert source.current() == (Settings(max_snapshots=6), None)


def test_while_the_file_is_bad_the_last_good_settings_stay(file: Path) -> None:
    file.write_text("checkpoints: {max_snapshots: 5}")
    source = SettingsSource(file)
    source.current()
    file.write_text("checkpoints: {max_snapshots: none at all}")
    for _ in range(2):
        settings, problem = source.current()
        assert settings.max_snapshots == 5
        assert problem is not None
        assert "checkpoints.max_snapshots must be" in problem
    file.write_text("checkpoints: {max_snapshots: 77}")
    assert source.current() == (Settings(max_snapshots=77), None)


def test_a_file_that_was_never_good_leaves_the_defaults(file: Path) -> None:
    file.write_text("[")
    settings, problem = SettingsSource(file).current()
    assert settings == Settings()
    assert problem is not None


def test_a_file_that_could_not_be_read_is_read_again(file: Path) -> None:
    file.symlink_to(file.name)
    source = SettingsSource(file)
    assert source.current()[1] is not None
    file.unlink()
    file.write_text("checkpoints: true")
    assert source.current() == (Settings(enabled=True), None)


def test_overrides_stay_over_a_changed_file(file: Path) -> None:
    source = SettingsSource(file, {"max_snapshots": 3})
    assert source.current()[0].max_snapshots == 3
    file.write_text("checkpoints: {max_snapshots: 5}")
    assert source.current()[0].max_snapshots == 3
