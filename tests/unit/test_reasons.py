"""The one-line reasons, and what must not stand in them."""

from __future__ import annotations

import pytest

from watcher.reasons import describe_command, describe_file_tool, mask_secrets, one_line


def test_a_file_tool_names_its_first_path_and_how_many_more() -> None:
    assert describe_file_tool("write_file", ["app.py"]) == "before write_file: app.py"
    assert describe_file_tool("patch", ["a", "b", "c"]) == "before patch: a (+2)"
    assert describe_file_tool("patch", []) == "before patch"


def test_a_command_shows_its_first_sixty_characters_on_one_line() -> None:
    assert describe_command("rm -rf\n  build") == "before terminal: rm -rf build"
    assert describe_command("x" * 100) == "before terminal: " + "x" * 60


@pytest.mark.parametrize("text", ["a\x1b[31mb", "a\x00b", "a\u202eb", "a\udcffb", "a\x7fb"])
def test_no_reason_writes_to_the_terminal(text: str) -> None:
    assert one_line(text).isprintable()
    assert one_line(text).encode()


@pytest.mark.parametrize(
    "command",
    [
        "export API_KEY=hunter2secret",
        "curl -H 'Authorization: Bearer hunter2secret' x",
        "mysql --password hunter2secret",
        "mysql --password=hunter2secret",
        "git clone https://me:hunter2secret@example.org/x",
        "AWS_SECRET_ACCESS_KEY='hunter2secret' aws s3 ls",
        'PASSWORD="hunter2secret" run',
    ],
)
def test_what_looks_like_a_secret_is_masked(command: str) -> None:
    assert "hunter2secret" not in mask_secrets(command)


@pytest.mark.parametrize("token", ["sk-" + "a" * 30, "ghp_" + "b" * 36, "AKIA" + "C" * 16, "glpat-" + "d" * 20])
def test_keys_of_a_known_shape_are_masked_wherever_they_stand(token: str) -> None:
    assert token not in mask_secrets(f"deploy {token} now")


def test_ordinary_commands_are_shown_as_they_are() -> None:
    for command in ("git commit -m 'token handling'", "rm -rf build", "sed -i s/a/b/ authors.txt"):
        assert mask_secrets(command) == command
