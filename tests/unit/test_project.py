"""Projects: one root rule, directories that are never captured, and records that don't hurt each other."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store.errors import CorruptFileError, TooBroadError
from store.layout import Layout, ProjectHash
from store.project import (
    Failure,
    Project,
    ProjectRecord,
    find_root,
    list_hashes,
    list_projects,
    list_set_aside,
    load_record,
    refuse_too_broad,
    resolve_path,
    save_record,
    set_record_aside,
    touch,
)
from watcher.view import describe_health

_MARKERS = [
    ".git", "pyproject.toml", "package.json", "Cargo.toml", "go.mod", "Makefile", "pom.xml", ".hg", "Gemfile",
]  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Give a home directory to look for projects in."""
    home = tmp_path / "home"
    (home / "code" / "p" / "src").mkdir(parents=True)
    return home


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(str(tmp_path / "checkpoints"), str(tmp_path / ".checkpoints.lock"))


def root_of(path: Path, home: Path, *registered: Path) -> Path:
    return Path(find_root(str(path), registered=[str(each) for each in registered], home=str(home)))


@pytest.mark.parametrize("marker", _MARKERS)
@pytest.mark.parametrize("is_directory", [True, False])
def test_the_nearest_directory_with_a_marker_is_the_project(home: Path, marker: str, is_directory: bool) -> None:
    path = home / "code" / "p" / marker
    path.mkdir() if is_directory else path.touch()
    assert root_of(home / "code" / "p" / "src" / "a.py", home) == home / "code" / "p"
    assert root_of(home / "code" / "p" / "src", home) == home / "code" / "p"
    assert root_of(home / "code" / "p", home) == home / "code" / "p"


def test_a_dangling_link_is_a_marker_too(home: Path) -> None:
    (home / "code" / "p" / "Makefile").symlink_to("nowhere")
    assert root_of(home / "code" / "p" / "src" / "a.py", home) == home / "code" / "p"


def test_the_nearest_of_two_markers_wins(home: Path) -> None:
    (home / "code" / ".git").mkdir()
    (home / "code" / "p" / "src" / "package.json").touch()
    assert root_of(home / "code" / "p" / "src" / "a.py", home) == home / "code" / "p" / "src"
    assert root_of(home / "code" / "p" / "b.py", home) == home / "code"


def test_a_registered_project_wins_over_a_marker_below_it(home: Path) -> None:
    (home / "code" / "p" / "src" / "package.json").touch()
    assert root_of(home / "code" / "p" / "src" / "a.py", home, home / "code" / "p") == home / "code" / "p"


def test_the_nearest_of_two_registered_projects_wins(home: Path) -> None:
    outer, inner = home / "code", home / "code" / "p"
    assert root_of(inner / "src" / "a.py", home, outer, inner) == inner
    assert root_of(outer / "q" / "a.py", home, outer, inner) == outer


def test_a_registered_project_does_not_contain_its_neighbour(home: Path) -> None:
    (home / "code" / "p-other").mkdir()
    assert root_of(home / "code" / "p-other" / "a.py", home, home / "code" / "p") == home / "code" / "p-other"


def test_a_marker_in_the_home_directory_or_above_is_not_looked_at(home: Path) -> None:
    (home / ".git").mkdir()
    (home.parent / "Makefile").touch()
    assert root_of(home / "code" / "p" / "src" / "a.py", home) == home / "code" / "p" / "src"
    assert root_of(home / "a.py", home) == home


def test_outside_the_home_directory_markers_count_up_to_where_they_meet(home: Path, tmp_path: Path) -> None:
    project = tmp_path / "srv" / "p"
    (project / "deep" / "er").mkdir(parents=True)
    (project / "go.mod").touch()
    assert root_of(project / "deep" / "er" / "a.go", home) == project
    assert root_of(tmp_path / "srv" / "a.go", home) == tmp_path / "srv"


def test_without_a_marker_a_files_own_directory_is_the_project(home: Path) -> None:
    assert root_of(home / "code" / "p" / "src" / "a.py", home) == home / "code" / "p" / "src"
    assert root_of(home / "code" / "p" / "src", home) == home / "code" / "p" / "src"


def test_a_file_that_does_not_exist_yet_belongs_to_the_project_above_it(home: Path) -> None:
    (home / "code" / "p" / ".git").mkdir()
    assert root_of(home / "code" / "p" / "new" / "deep" / "a.py", home) == home / "code" / "p"


def test_a_path_is_resolved_by_its_directories_and_not_by_its_last_name(home: Path) -> None:
    (home / "link").symlink_to("code/p")
    (home / "code" / "p" / "last").symlink_to("src")
    resolve = [
        resolve_path("a.py", str(home / "link")),
        resolve_path(str(home / "link" / "a.py"), "/"),
        resolve_path("last", str(home / "code" / "p")),
        resolve_path("../x", str(home / "code" / "p")),
        resolve_path("~/y", "/"),
        resolve_path("~/y", str(home / "code" / "p")),
        resolve_path("~root", str(home / "code" / "p")),
        resolve_path("~root/x", str(home / "code" / "p")),
        resolve_path("~", str(home / "code" / "p")),
    ]
    inside = home / "code" / "p"
    expected = [inside / "a.py", inside / "a.py", inside / "last", home / "code" / "x", home / "y", home / "y"]
    expected += [inside / "~root", inside / "~root" / "x", inside / "~"]
    assert resolve == [str(path) for path in expected]


def test_a_project_is_named_by_the_hash_of_its_resolved_path(home: Path) -> None:
    (home / "link").symlink_to("code/p")
    project = Project.of(str(home / "link"))
    assert project.workdir == str(home / "code" / "p")
    assert project.hash == hashlib.sha256(os.fsencode(project.workdir)).hexdigest()[:16]
    assert Project.of("~/code/p") == project


def test_a_project_whose_name_is_not_utf8_is_a_project(home: Path) -> None:
    name = os.fsdecode(b"p\xff")
    (home / name).mkdir()
    project = Project.of(str(home / name))
    assert project.root.endswith(b"/p\xff")
    assert project.relative(f"{project.workdir}/{name}") == b"p\xff"


def test_a_path_is_relative_only_to_a_project_that_contains_it() -> None:
    project = Project.at("/srv/p")
    assert project.relative("/srv/p/a/b") == b"a/b"
    assert [project.relative(path) for path in ("/srv/p", "/srv/p-other/a", "/srv", "a")] == [None] * 4
    assert Project.at("/").relative("/etc") == b"etc"


def refusal(workdir: str, home: Path, base: Path) -> str | None:
    try:
        refuse_too_broad(workdir, home=str(home), base=str(base))
    except TooBroadError as error:
        return error.message
    return None


def test_directories_that_are_too_broad_are_refused(home: Path, tmp_path: Path) -> None:
    base = home / ".hermes" / "checkpoints"
    (base / "store").mkdir(parents=True)
    broad = ["/", str(home), str(home.parent), str(tmp_path.parent), str(base), str(base / "store"), "/tmp"]
    assert [path for path in broad if refusal(path, home, base) is None] == []


def test_projects_below_the_home_the_store_and_the_temporary_directory_are_fine(home: Path, tmp_path: Path) -> None:
    base = home / ".hermes" / "checkpoints"
    base.mkdir(parents=True)
    fine = [home / "code", home / ".hermes", home / ".hermes" / "checkpoints-other", tmp_path / "x"]
    assert [path for path in fine if refusal(str(path), home, base) is not None] == []
    assert refusal(os.path.join(os.path.realpath(tempfile.gettempdir()), "p"), home, base) is None


def test_links_to_a_broad_directory_are_as_broad_as_it_is(home: Path, tmp_path: Path) -> None:
    base = tmp_path / "checkpoints"
    base.mkdir()
    (tmp_path / "to-home").symlink_to(home)
    (tmp_path / "to-base").symlink_to(base)
    assert refusal(Project.of(str(tmp_path / "to-home")).workdir, home, base) is not None
    assert refusal(Project.of(str(tmp_path / "to-base")).workdir, home, tmp_path / "to-base") is not None
    assert refusal(str(home), tmp_path / "to-home", base) is not None
    assert refusal(str(base), home, tmp_path / "to-base") is not None


def test_a_directory_that_contains_the_store_is_fine(home: Path, tmp_path: Path) -> None:
    assert refusal(str(tmp_path / "p"), home, tmp_path / "p" / "checkpoints") is None


def record(workdir: str = "/srv/p", **more: object) -> ProjectRecord:
    return ProjectRecord(workdir, created_at=1.5, last_touch=2.5, **more)  # type: ignore[arg-type]


_HASH = ProjectHash("0123456789abcdef")


@pytest.mark.parametrize(
    "saved",
    [
        record(),
        record(last_success=2.0, last_failure=Failure(1.0, "busy")),
        record(pinned={b".env.local": True, b"build/\xff": False}),
        record(os.fsdecode(b"/srv/\xff\n")),
    ],
)
def test_a_record_comes_back_as_it_was_saved(layout: Layout, saved: ProjectRecord) -> None:
    save_record(layout, _HASH, saved)
    assert load_record(layout, _HASH) == saved


def test_a_project_never_touched_has_no_record(layout: Layout) -> None:
    assert load_record(layout, _HASH) is None
    assert list_hashes(layout) == []
    assert list(list_projects(layout)) == []


def test_a_record_keeps_the_identity_of_the_directory_above_while_it_can_be_seen(
    layout: Layout, tmp_path: Path
) -> None:
    save_record(layout, _HASH, record(str(tmp_path / "p")))
    raw = json.loads(Path(layout.project_file(_HASH)).read_text())
    assert (raw["workdir_parent_dev"], raw["workdir_parent_ino"]) == (tmp_path.stat().st_dev, tmp_path.stat().st_ino)
    save_record(layout, _HASH, record(str(tmp_path / "none" / "p")))
    assert "workdir_parent_dev" not in json.loads(Path(layout.project_file(_HASH)).read_text())


def test_a_touch_keeps_what_is_known_and_a_failure_keeps_the_last_success() -> None:
    project = Project.at("/srv/p")
    first = touch(None, project, now=10.0)
    failed = touch(first, project, now=20.0, failure="busy")
    again = touch(failed, project, now=30.0)
    assert (first.created_at, first.last_touch, first.last_success, first.last_failure) == (10.0, 10.0, 10.0, None)
    assert (failed.last_touch, failed.last_success, failed.last_failure) == (20.0, 10.0, Failure(20.0, "busy"))
    assert (again.created_at, again.last_success, again.last_failure) == (10.0, 30.0, Failure(20.0, "busy"))


def test_the_last_attempt_is_the_last_one_though_the_clock_was_set_back() -> None:
    project = Project.at("/srv/p")
    failed = touch(touch(None, project, now=1000.0), project, now=20.0, failure="busy")
    again = touch(touch(failed, project, now=2000.0, failure="deadline"), project, now=30.0)
    assert describe_health(failed, protected=True)["why"] == "busy"
    assert describe_health(again, protected=True)["why"] is None
    assert (failed.last_failure, again.last_success) == (Failure(20.0, "busy"), 30.0)


def write(layout: Layout, name: str, content: bytes) -> Path:
    path = Path(layout.projects_directory) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


_DAMAGES = [b"", b"\0" * 200, b"{", b"[]", b"{}", b'{"workdir": 7}', b'{"workdir": null}', b"\xff\xfe", b"[" * 99_999]
_DAMAGES += [b'{"workdir": "srv/p"}']
_PINS = ["/etc/passwd", "../x", "a/../../x", "a/..", ".", "", "a//b", "a\0b", "a/", "\ud800"]
_DAMAGES += [json.dumps({"workdir": "/srv/p", "pinned": {"ok": True, pin: True}}).encode() for pin in _PINS]


@pytest.mark.parametrize("damage", _DAMAGES, ids=range(len(_DAMAGES)))
def test_one_corrupt_record_is_reported_left_alone_and_hides_no_other(layout: Layout, damage: bytes) -> None:
    for name in ("aaaa", "cccc"):
        save_record(layout, ProjectHash(name), record(f"/srv/{name}"))
    path = write(layout, "bbbb.json", damage)
    found = dict(list_projects(layout))
    assert list(found) == ["aaaa", "bbbb", "cccc"]
    assert isinstance(found[ProjectHash("bbbb")], CorruptFileError)
    assert found[ProjectHash("aaaa")] == record("/srv/aaaa")
    assert path.read_bytes() == damage


def test_a_record_that_is_set_aside_is_kept_and_so_are_earlier_ones(layout: Layout) -> None:
    for damage in (b"one", b"two", b"three"):
        write(layout, f"{_HASH}.json", damage)
        set_record_aside(layout, _HASH)
    assert [Path(path).name for path in list_set_aside(layout)] == [
        f"{_HASH}.json.damaged",
        f"{_HASH}.json.damaged-2",
        f"{_HASH}.json.damaged-3",
    ]
    assert [Path(path).read_bytes() for path in list_set_aside(layout)] == [b"one", b"two", b"three"]
    assert list_hashes(layout) == []


def test_a_directory_in_the_place_of_a_record_hides_no_other(layout: Layout) -> None:
    save_record(layout, ProjectHash("aaaa"), record())
    (Path(layout.projects_directory) / "bbbb.json").mkdir()
    found = dict(list_projects(layout))
    assert found[ProjectHash("aaaa")] == record()


def test_files_that_are_no_records_are_passed_over(layout: Layout) -> None:
    save_record(layout, _HASH, record())
    write(layout, ".0123456789abcdef.json.x7y", b"half")
    write(layout, "notes.txt", b"mine")
    assert list_hashes(layout) == [_HASH]


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
_fields = ["created_at", "last_touch", "last_success", "last_failure", "pinned", "workdir_parent_dev", "other"]


@given(
    raw=st.dictionaries(st.sampled_from(_fields), _json),
    workdir=st.just("/srv/p") | _json,
    failure=st.none() | st.dictionaries(st.sampled_from(["at", "why"]), _json),
)
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_stands_in_a_record_it_is_read_or_reported(
    layout: Layout, raw: dict[str, object], workdir: object, failure: object
) -> None:
    content = raw | {"workdir": workdir} | ({} if failure is None else {"last_failure": failure})
    write(layout, f"{_HASH}.json", json.dumps(content).encode())
    ((name, found),) = list_projects(layout)
    assert name == _HASH
    if isinstance(found, ProjectRecord):
        assert found.workdir == workdir


@pytest.mark.parametrize(
    "content",
    [
        b'{"workdir": "/srv/p", "created_at": 1' + b"0" * 400 + b"}",
        b'{"workdir": "/srv/p", "pinned": {"\\ud800": true}}',
    ],
    ids=["a-time-beyond-all-times", "a-name-that-no-file-can-have"],
)
def test_an_impossible_value_in_a_record_is_read_or_reported(layout: Layout, content: bytes) -> None:
    write(layout, f"{_HASH}.json", content)
    assert [name for name, _ in list_projects(layout)] == [_HASH]
