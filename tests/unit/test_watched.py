"""The opted-in projects as text: every path comes back, and what can't be understood is never an empty list."""

from __future__ import annotations

import base64

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from config.errors import ConfigError
from config.watched import format_watched, parse_watched

ABSOLUTE_PATHS = st.one_of(
    st.binary(max_size=40).map(lambda raw: raw.decode("utf-8", "surrogateescape")),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.text("\n\r\t'\"\\#:-&*!|>%@`{}[], \x85\u2028\ufeff\x7f\udc80\udcff\U0001f4f8", max_size=40),
).map(lambda name: "/" + name.encode("utf-8", "surrogateescape").replace(b"\0", b"").decode("utf-8", "surrogateescape"))


@given(st.lists(ABSOLUTE_PATHS).map(tuple))
@example(())
@example(("/", "/a b", "/a: b", "/# c", "/\n", "/a\n\n b\n", "/'\"", "/\udce9", "/" + "long " * 500, "/same", "/same"))
def test_any_list_of_absolute_paths_comes_back(paths: tuple[str, ...]) -> None:
    text = format_watched(paths)
    assert parse_watched(text.encode().decode(), "watched.yaml") == paths


def test_the_file_says_who_writes_it_and_is_plain_to_read() -> None:
    lines = format_watched(["/home/you/app", "/tmp/na\udce9", "/tmp/é", "/a\nb"]).splitlines()
    assert "watch add|remove" in lines[0]
    assert [line for line in lines if not line.startswith("#")] == [
        "projects:",
        "- /home/you/app",
        "- bytes: L3RtcC9uYek=",
        "- /tmp/é",
        "- bytes: L2EKYg==",
    ]


def test_a_list_edited_by_hand_is_read() -> None:
    text = "projects: [\"/a\", '/b', {bytes: L2M=}] # mine\n"
    assert parse_watched(text, "watched.yaml") == ("/a", "/b", "/c")


@pytest.mark.parametrize("path", ["", "relative", "~/a", "/a\0b"])
def test_a_path_that_names_no_place_is_not_written(path: str) -> None:
    with pytest.raises(ValueError, match="not an absolute path"):
        format_watched([path])


def _encode(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only a comment\n",
        "projects:\n",
        "projects: /a\n",
        "projects: {a: /a}\n",
        "- /a\n",
        "paths: [/a]\n",
        "projects: [/a]\nmore: 1\n",
        "projects: [/a]\nprojects: [/b]\n",
        "? [projects]\n: [/a]\n",
        "projects: [relative]\n",
        "projects: [5]\n",
        "projects: [null]\n",
        "projects: [[/a]]\n",
        'projects: ["/a\\0b"]\n',
        "projects: [{bytes: '***'}]\n",
        "projects: [{bytes: é}]\n",
        "projects: [{bytes: [x]}]\n",
        "projects: [{text: L2M=}]\n",
        "projects: [{bytes: L2M=, more: 1}]\n",
        f"projects: [{{bytes: {_encode(b'relative')}}}]\n",
        f"projects: [{{bytes: {_encode(bytes([47, 0]))}}}]\n",
        "projects: [/a\n",
        "projects: [\x01]\n",
        "--- {projects: [/a]}\n--- {projects: [/b]}\n",
        "&a projects: &b [*b]\n",
        "[" * 100_000,
    ],
)
def test_what_is_no_list_of_projects_is_an_error_that_names_the_file(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^/h/watched\.yaml can't be understood: ") as caught:
        parse_watched(text, "/h/watched.yaml")
    assert caught.value.hint


def test_a_bad_item_is_named_by_its_line() -> None:
    with pytest.raises(ConfigError, match="line 3 must be an absolute path"):
        parse_watched("projects:\n- /a\n- b\n", "watched.yaml")


def test_the_text_is_yaml_for_others_too() -> None:
    assert yaml.safe_load(format_watched(["/a: #'\"", "/b"])) == {"projects": ["/a: #'\"", "/b"]}
