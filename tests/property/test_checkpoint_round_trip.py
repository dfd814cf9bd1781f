"""Any project, any change: what a checkpoint holds comes back exactly, and the quick ways find what the slow one finds.

Real git is the oracle for which files count and for what their tree is.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings

from config.settings import default_excludes
from store.baseline import refresh
from store.checkpoint import Kind, Label, take_checkpoint
from store.entries import EMPTY_TREE
from store.plan import Mode
from store.restore import Rollback, roll_back
from store.scan import scan
from store.standings import Selection
from store.state import state_of
from store.tree import flatten, splice
from tests.support import trees
from tests.support.stores import look, make_scope, open_store, take
from tests.support.workdir import git, list_permissions, photograph

if TYPE_CHECKING:
    from collections.abc import Iterator

    from store.entries import Oid
    from store.objects import Commit
    from store.project_store import ProjectStore

_odd_projects = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
Photo = dict[bytes, tuple[str, bytes]]


@contextmanager
def a_store(tmp_path: Path, project: dict[bytes, trees.Node]) -> Iterator[ProjectStore]:
    """Make a project and an empty store beside it."""
    area = Path(tempfile.mkdtemp(dir=tmp_path))
    try:
        (area / "project").mkdir()
        trees.build(os.fsencode(area / "project"), project)
        yield open_store(area, area / "project")
    finally:
        shutil.rmtree(area)


def store_directory(store: ProjectStore) -> Path:
    return Path(store.layout.store)


def photo_of(store: ProjectStore) -> Photo:
    return photograph(Path(store.project.workdir))


def captured(store: ProjectStore, tree: Oid) -> Photo:
    """Return what a tree holds, in the form of a photograph."""
    kinds = {b"100644": "file", b"100755": "executable", b"120000": "link"}
    return {
        path: (kinds[entry.mode], store.objects.read_blob(entry.oid))
        for path, entry in flatten(store.objects, tree).items()
    }


def restore_all(store: ProjectStore, checkpoint: Commit) -> Rollback:
    label = Label(Kind.SAFETY, "pre-rollback snapshot", 2.0)
    return roll_back(store, look(store), checkpoint, Selection(Mode.ALL), label=label, keep_count=20)


def is_blocked(path: bytes, staying: set[bytes]) -> bool:
    """Tell whether something that no checkpoint holds stands above or below a path."""
    return any(path.startswith(each + b"/") or each.startswith(path + b"/") for each in staying)


@given(project=trees.projects, edits=trees.edits)
@_odd_projects
def test_a_rollback_gives_back_the_same_bytes_modes_and_links(
    tmp_path: Path, project: dict[bytes, trees.Node], edits: list[trees.Edit]
) -> None:
    with a_store(tmp_path, project) as store:
        checkpoint = take(store).checkpoint
        before = captured(store, checkpoint.tree)
        assert before.items() <= photo_of(store).items()
        trees.apply(store.project.root, edits)
        changed, now_captured = photo_of(store), captured(store, look(store).tree)
        uncaptured = changed.keys() - now_captured.keys() - before.keys()
        done = restore_all(store, checkpoint)
        after = photo_of(store)
        left = {each.path for each in (*done.left, *done.failed)}
        ignored_then = {each.path for each in done.left if "was ignored" in each.reason}
        assert {path: after.get(path) for path in ignored_then} == {path: changed.get(path) for path in ignored_then}
        staying = uncaptured | ignored_then
        assert {path for path in left - ignored_then if not is_blocked(path, staying)} == set()
        expected = {path: what for path, what in before.items() if path not in left}
        assert {path: after.get(path) for path in expected} == expected
        assert {path: after.get(path) for path in uncaptured} == {path: changed[path] for path in uncaptured}
        assert after.keys() - before.keys() - uncaptured - left == set()
        if done.safety is not None:
            gone = {path: what for path, what in changed.items() if after.get(path) != what}
            assert gone.items() <= captured(store, done.safety.tree).items()


@given(project=trees.projects)
@_odd_projects
def test_a_wiped_directory_gets_back_bytes_bits_links_and_empty_directories(
    tmp_path: Path, project: dict[bytes, trees.Node]
) -> None:
    with a_store(tmp_path, project) as store:
        checkpoint = take(store).checkpoint
        state = state_of(checkpoint)
        files, bits = captured(store, checkpoint.tree), list_permissions(Path(store.project.workdir))
        for name in os.listdir(store.project.root):
            full = os.path.join(store.project.root, name)
            os.unlink(full) if os.path.islink(full) or os.path.isfile(full) else shutil.rmtree(full)
        done = restore_all(store, checkpoint)
        assert (done.failed, done.left) == ((), ())
        assert photo_of(store) == files
        after = list_permissions(Path(store.project.workdir))
        assert after == {path: mode for path, mode in bits.items() if state.find(store.objects, path) is not None}


@given(project=trees.projects, edits=trees.edits)
@_odd_projects
def test_a_rollback_of_the_rollback_gives_back_what_was_there_before_it(
    tmp_path: Path, project: dict[bytes, trees.Node], edits: list[trees.Edit]
) -> None:
    rules = {path: node for path, node in project.items() if not path.endswith(b".gitignore")}
    with a_store(tmp_path, rules) as store:
        checkpoint = take(store).checkpoint
        trees.apply(store.project.root, edits)
        changed, bits = photo_of(store), list_permissions(Path(store.project.workdir))
        done = restore_all(store, checkpoint)
        if done.safety is not None and not done.left:
            again = restore_all(store, done.safety)
            assert (again.failed, again.left) == ((), ())
            assert photo_of(store) == changed
            after, state = list_permissions(Path(store.project.workdir)), state_of(done.safety)
            recorded = {path: mode for path, mode in bits.items() if state.find(store.objects, path) is not None}
            assert after.items() >= recorded.items()


@given(project=trees.projects)
@_odd_projects
def test_the_captured_files_are_those_that_git_would_list(tmp_path: Path, project: dict[bytes, trees.Node]) -> None:
    with a_store(tmp_path, project) as store:
        tree = look(store).tree
        copy = Path(store.project.workdir).with_name("copy")
        shutil.copytree(store.project.workdir, copy, symlinks=True)
        git(copy, "init", "-q", "--template=")
        (copy / ".git" / "info").mkdir()
        (copy / ".git" / "info" / "exclude").write_bytes(default_excludes())
        listed = git(copy, "ls-files", "-z", "-co", "--exclude-standard").split("\0")[:-1]
        assert flatten(store.objects, tree).keys() == {os.fsencode(path) for path in listed}


@given(project=trees.projects, edits=trees.edits)
@_odd_projects
def test_the_fast_road_finds_what_the_slow_road_finds(
    tmp_path: Path, project: dict[bytes, trees.Node], edits: list[trees.Edit]
) -> None:
    with a_store(tmp_path, project) as store:
        before = look(store)
        touched = trees.apply(store.project.root, edits)
        scope = make_scope(Path(store.project.workdir))
        changes_rules = any(path.endswith(b".gitignore") for path in touched.paths)
        quick = None if changes_rules else refresh(store.objects, scope, before, touched.paths, touched.trees)
        by_cache = scan(store, scope)
        os.unlink(store.layout.index_file(store.project.hash))
        from_scratch = scan(store, scope)
        assert captured(store, by_cache.tree) == captured(store, from_scratch.tree)
        assert by_cache == from_scratch
        assert quick in (None, from_scratch)


@given(project=trees.projects, edits=trees.edits)
@_odd_projects
def test_a_scan_with_the_cache_of_several_scans_finds_what_a_first_scan_finds(
    tmp_path: Path, project: dict[bytes, trees.Node], edits: list[trees.Edit]
) -> None:
    with a_store(tmp_path, project) as store:
        look(store)
        for edit in edits:
            trees.apply(store.project.root, [edit])
            by_cache = look(store)
        os.unlink(store.layout.index_file(store.project.hash))
        assert by_cache == look(store)


def tree_by_git(store: ProjectStore, tree: Oid) -> str:
    """Return the id of the tree that git makes of the same entries from scratch."""
    index = store_directory(store) / "scratch-index"
    lines = [
        b"%s %s\t%s\0" % (entry.mode, entry.oid.hex().encode(), path)
        for path, entry in flatten(store.objects, tree).items()
    ]
    environment = {"PATH": os.environ["PATH"], "GIT_INDEX_FILE": str(index), "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", f"--git-dir={store_directory(store)}"]
    subprocess.run([*command, "update-index", "-z", "--index-info"], input=b"".join(lines), env=environment, check=True)
    done = subprocess.run([*command, "write-tree"], env=environment, capture_output=True, check=True)
    index.unlink(missing_ok=True)
    return done.stdout.decode().strip()


@given(project=trees.projects, edits=trees.edits)
@_odd_projects
def test_a_spliced_tree_is_the_one_that_git_builds_and_the_store_stays_clean(
    tmp_path: Path, project: dict[bytes, trees.Node], edits: list[trees.Edit]
) -> None:
    with a_store(tmp_path, project) as store:
        before = look(store)
        touched = trees.apply(store.project.root, edits)
        scope = make_scope(Path(store.project.workdir))
        after = refresh(store.objects, scope, before, touched.paths, touched.trees)
        assert after.tree.hex() == tree_by_git(store, after.tree)
        assert splice(store.objects, EMPTY_TREE, dict(flatten(store.objects, after.tree))) == after.tree
        for baseline in (before, after):
            take_checkpoint(store, baseline, Label(Kind.MANUAL, "x", 1.0), keep_count=20)
        assert complaints_of_git(store) == []


def complaints_of_git(store: ProjectStore) -> list[str]:
    """Return what git finds wrong in a store, its word on the names apart that it refuses and that we capture."""
    command = ["git", f"--git-dir={store_directory(store)}", "fsck", "--full", "--strict", "--no-dangling"]
    done = subprocess.run(command, capture_output=True, check=False)
    lines = (done.stdout + done.stderr).decode().splitlines()
    return [
        line
        for line in lines
        if not line.startswith("notice")
        and not any(word in line for word in ("hasDotgit", "gitmodules", "gitattributes"))
    ]


def test_a_directory_of_empty_directories_gives_way_to_the_file_that_stood_there(tmp_path: Path) -> None:
    with a_store(tmp_path, {b"a": trees.File(b"one\n")}) as store:
        checkpoint = take(store).checkpoint
        path = Path(store.project.workdir) / "a"
        path.unlink()
        (path / "b" / "c").mkdir(parents=True)
        done = restore_all(store, checkpoint)
        assert (done.restored, done.failed, done.left) == ((b"a",), (), ())
        assert path.read_bytes() == b"one\n"


def test_an_ignored_link_to_a_directory_is_uncaptured_content_in_the_way(tmp_path: Path) -> None:
    with a_store(tmp_path, {b"a": trees.File(b"one\n")}) as store:
        checkpoint = take(store).checkpoint
        path = Path(store.project.workdir) / "a"
        path.unlink()
        path.mkdir()
        (path / "x.o").symlink_to("..")
        done = restore_all(store, checkpoint)
        assert ([left.path for left in done.left], done.failed) == ([b"a"], ())
        assert os.readlink(path / "x.o") == ".."


def test_a_link_to_a_directory_gives_way_to_the_directory_that_stood_there(tmp_path: Path) -> None:
    with a_store(tmp_path, {b"d/x": trees.File(b"one\n")}) as store:
        checkpoint = take(store).checkpoint
        project = Path(store.project.workdir)
        outside = project.with_name("outside")
        (outside / "x").mkdir(parents=True)
        (outside / "x" / "theirs").write_bytes(b"theirs\n")
        shutil.rmtree(project / "d")
        (project / "d").symlink_to(outside)
        done = restore_all(store, checkpoint)
        assert (done.failed, done.left) == ((), ())
        assert not (project / "d").is_symlink()
        assert (project / "d" / "x").read_bytes() == b"one\n"
        assert (outside / "x" / "theirs").read_bytes() == b"theirs\n"


_NAMES_THAT_GIT_REFUSES = [
    b".GIT", b"git~1", b".git ", b".g\xe2\x80\x8cit", b".gitmodules", b"sub/.Git", b".gitattributes/x",
]  # fmt: skip
"""git takes these for its own directory or file on some systems, so that its fsck complains of trees that hold them.

They are ordinary names here. A safety net that left them out would lose them, so they are captured all the same, and
fsck's word on exactly these names is the price.
"""


def test_names_that_git_itself_refuses_are_captured_and_come_back(tmp_path: Path) -> None:
    project: dict[bytes, trees.Node] = {
        name: trees.File(b'[submodule "x"]\n\turl = -u./x\n\tpath = -p\n' + name) for name in _NAMES_THAT_GIT_REFUSES
    }
    with a_store(tmp_path, project) as store:
        first = photo_of(store)
        checkpoint = take(store).checkpoint
        assert captured(store, checkpoint.tree) == first
        for name in _NAMES_THAT_GIT_REFUSES:
            os.unlink(os.path.join(store.project.root, name))
        assert restore_all(store, checkpoint).failed == ()
        assert photo_of(store) == first
        directory = store_directory(store)
        assert complaints_of_git(store) == []
        assert git(directory, "cat-file", "-t", checkpoint.oid.hex()) == "commit\n"
        git(directory, "gc", "-q", "--prune=now")
        assert captured(open_store(directory.parent.parent, Path(store.project.workdir)), checkpoint.tree) == first
