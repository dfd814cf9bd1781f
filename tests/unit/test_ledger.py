"""The ledger: what the agent last left where, and what differs from it."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store.entries import DIRECTORY, MODE_EXECUTABLE, MODE_FILE, MODE_GITLINK, MODE_LINK, Entry, Node, Oid
from store.errors import CorruptFileError
from store.layout import Layout
from store.ledger import (
    NOTHING,
    Author,
    Fingerprint,
    Written,
    fingerprint_file,
    fingerprint_node,
    judge,
    load_ledger,
    save_ledger,
)
from store.project import Project
from tests.support.stores import make_objects

_FILE = MODE_FILE.decode()
_EXECUTABLE = MODE_EXECUTABLE.decode()


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(str(tmp_path / "checkpoints"), str(tmp_path / ".checkpoints.lock"))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.at(str(tmp_path / "project"))


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    ("written", "now", "author"),
    [
        (None, Fingerprint("a"), Author.UNKNOWN),
        (None, NOTHING, Author.UNKNOWN),
        (Fingerprint("a"), Fingerprint("a"), Author.AGENT),
        (Fingerprint("a", _FILE), Fingerprint("a", _FILE), Author.AGENT),
        (Fingerprint("a", _FILE), Fingerprint("a"), Author.AGENT),
        (Fingerprint("a"), Fingerprint("a", _EXECUTABLE), Author.AGENT),
        (Fingerprint("a", _FILE), Fingerprint("a", _EXECUTABLE), Author.USER),
        (Fingerprint("a", _FILE), Fingerprint("b", _FILE), Author.USER),
        (Fingerprint("a", _FILE), NOTHING, Author.USER),
        (NOTHING, NOTHING, Author.AGENT),
        (NOTHING, Fingerprint("a", _FILE), Author.USER),
    ],
)
def test_the_agent_is_the_author_only_of_exactly_what_it_left(
    written: Fingerprint | None, now: Fingerprint, author: Author
) -> None:
    assert judge(None if written is None else Written(written, 1.0), now) is author


def test_a_project_without_a_ledger_has_an_empty_one(layout: Layout, project: Project) -> None:
    assert load_ledger(layout, project) == {}


_paths = st.lists(
    st.binary(min_size=1, max_size=8).filter(lambda name: not set(name) & set(b"/\0") and name not in (b".", b"..")),
    min_size=1,
    max_size=3,
).map(b"/".join)
_fingerprints = st.just(NOTHING) | st.builds(
    Fingerprint, st.binary(max_size=3).map(sha256), st.sampled_from(["", _FILE, _EXECUTABLE, MODE_LINK.decode()])
)
_words = st.none() | st.text(min_size=1, max_size=8)


@given(st.dictionaries(_paths, st.builds(Written, _fingerprints, st.floats(0, 1e10), _words, _words, _words)))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_ledger_comes_back_as_it_was_saved_whatever_the_names(
    layout: Layout, project: Project, ledger: dict[bytes, Written]
) -> None:
    save_ledger(layout, project, ledger)
    assert load_ledger(layout, project) == ledger


def test_the_file_holds_absolute_paths_with_hash_and_time(layout: Layout, project: Project) -> None:
    save_ledger(layout, project, {b"sub/a.py": Written(Fingerprint(sha256(b"x"), _FILE), 12.5, session="s1")})
    raw = json.loads(Path(layout.ledger_file(project.hash)).read_text())
    assert raw == {f"{project.workdir}/sub/a.py": {"sha256": sha256(b"x"), "ts": 12.5, "mode": _FILE, "session": "s1"}}


def test_entries_of_the_built_in_manager_are_read(layout: Layout, project: Project) -> None:
    write(layout, project, json.dumps({f"{project.workdir}/a.py": {"sha256": sha256(b"x"), "ts": 3}}))
    assert load_ledger(layout, project) == {b"a.py": Written(Fingerprint(sha256(b"x")), 3.0)}


def test_entries_outside_the_project_are_passed_over(layout: Layout, project: Project) -> None:
    names = ["/etc/passwd", f"{project.workdir}-other/a.py", project.workdir, "relative.py", ""]
    write(layout, project, json.dumps({name: {"sha256": sha256(b"x"), "ts": 1} for name in names}))
    assert load_ledger(layout, project) == {}


@pytest.mark.parametrize(
    "content",
    ["", "\0" * 32, "[]", "{", '{"%s": 1}', '{"%s": {}}', '{"%s": {"sha256": 1}}', '{"%s": null}', '{"%s": [1]}'],
)
def test_a_damaged_ledger_is_reported_and_never_taken_for_an_empty_one(
    layout: Layout, project: Project, content: str
) -> None:
    damaged = content.replace("%s", f"{project.workdir}/a.py")
    write(layout, project, damaged)
    with pytest.raises(CorruptFileError):
        load_ledger(layout, project)
    assert Path(layout.ledger_file(project.hash)).read_text() == damaged


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
_fields = st.sampled_from(["sha256", "ts", "mode", "session", "turn", "tool"])


@given(
    entry=_json
    | st.dictionaries(_fields, _json)
    | st.dictionaries(_fields, _json).map(lambda raw: raw | {"sha256": "x"})
)
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_stands_in_an_entry_the_ledger_is_read_or_reported(
    layout: Layout, project: Project, entry: object
) -> None:
    write(layout, project, json.dumps({f"{project.workdir}/a.py": entry}))
    try:
        ledger = load_ledger(layout, project)
    except CorruptFileError:
        return
    assert list(ledger) == [b"a.py"]


def test_a_time_beyond_all_times_is_read_or_reported(layout: Layout, project: Project) -> None:
    write(layout, project, f'{{"{project.workdir}/a.py": {{"sha256": "x", "ts": 1{"0" * 400}}}}}')
    read_or_report(layout, project)


def test_a_name_that_no_file_can_have_is_read_or_reported(layout: Layout, project: Project) -> None:
    write(layout, project, json.dumps({f"{project.workdir}/\ud800": {"sha256": "x", "ts": 1}}))
    read_or_report(layout, project)


def read_or_report(layout: Layout, project: Project) -> None:
    try:
        load_ledger(layout, project)
    except CorruptFileError:
        return


def write(layout: Layout, project: Project, content: str) -> None:
    path = Path(layout.ledger_file(project.hash))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def test_a_file_a_script_and_a_link_have_fingerprints_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    path.chmod(0o644)
    plain = fingerprint_file(os.fsencode(path))
    path.chmod(0o755)
    script = fingerprint_file(os.fsencode(path))
    (tmp_path / "link").symlink_to("content")
    link = fingerprint_file(os.fsencode(tmp_path / "link"))
    path.chmod(0o600)
    private = fingerprint_file(os.fsencode(path))
    assert plain == Fingerprint(sha256(b"content"), _FILE)
    assert script == Fingerprint(sha256(b"content"), _EXECUTABLE)
    assert private == Fingerprint(sha256(b"content"), "100600")
    assert link == Fingerprint(sha256(b"content"), MODE_LINK.decode())


def test_an_empty_file_is_not_a_missing_one(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    empty = fingerprint_file(os.fsencode(tmp_path / "empty"))
    assert empty is not None
    assert empty != NOTHING
    assert fingerprint_file(os.fsencode(tmp_path / "none")) == NOTHING
    assert fingerprint_file(os.fsencode(tmp_path / "empty" / "below")) == NOTHING


def test_what_is_no_file_has_no_fingerprint_and_blocks_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        for name in ("fifo", "s", ""):
            assert fingerprint_file(os.fsencode(tmp_path / name)) is None


def test_what_a_state_holds_has_the_fingerprint_of_what_is_on_disk(tmp_path: Path) -> None:
    objects = make_objects(tmp_path)
    (tmp_path / "script").write_bytes(b"x")
    (tmp_path / "script").chmod(0o750)
    entry = Entry(MODE_EXECUTABLE, objects.write_blob(b"x"))
    assert fingerprint_node(objects, Node(entry, 0o750)) == fingerprint_file(os.fsencode(tmp_path / "script"))
    assert fingerprint_node(objects, Node(entry)) == Fingerprint(sha256(b"x"), _EXECUTABLE)
    assert fingerprint_node(objects, None) == NOTHING
    assert fingerprint_node(objects, Node(Entry(MODE_GITLINK, Oid(bytes(20))))) == NOTHING


def test_an_empty_directory_is_not_nothing(tmp_path: Path) -> None:
    folder = fingerprint_node(make_objects(tmp_path), Node(DIRECTORY, 0o755))
    assert not folder.matches(NOTHING)
    assert not NOTHING.matches(folder)
    assert folder.matches(folder)
