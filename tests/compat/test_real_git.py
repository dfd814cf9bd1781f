"""Real git reads our store, keeps what is kept, and none of its settings reach us."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from store.layout import baseline_ref, tip_ref
from store.project import Project
from tests.support.steps import InProcess
from tests.support.workdir import fingerprint_git, git, make_project, photograph, write

if TYPE_CHECKING:
    from collections.abc import Callable

_KEPT_COUNT = 4


@pytest.fixture
def product(tmp_path: Path) -> InProcess:
    files = {"a.py": "one\n", "sub/b.py": "two\n", "notes.md": "three\n", "sub/deep/run.sh": "#!/bin/sh\n"}
    project = make_project(tmp_path / "project", files)
    (project / "sub" / "deep" / "run.sh").chmod(0o755)
    (project / "link").symlink_to("a.py")
    write(tmp_path / "hermes" / "config.yaml", f"checkpoints: {{max_snapshots: {_KEPT_COUNT}}}\n")
    product = InProcess(project)
    product.ask("watch", action="add", path=str(project))
    return product


def store_of(product: InProcess) -> Path:
    return product.project.parent / "hermes" / "checkpoints" / "store"


def project_of(product: InProcess) -> Project:
    return Project.of(str(product.project))


def take_several(product: InProcess, count: int) -> list[str]:
    """Take checkpoints of different content, and return their ids, newest first."""
    taken = []
    for number in range(count):
        write(product.project / "a.py", f"version {number}\n")
        taken.append(product.ask("take", reason=f"number {number}")["checkpoint"]["hash"])
    return taken[::-1]


def list_ids(product: InProcess) -> list[str]:
    return [each["hash"] for each in product.ask("rollback.list")["checkpoints"]]


def log_of(product: InProcess) -> list[str]:
    return git(store_of(product), "log", "--format=%H", tip_ref(project_of(product).hash)).split()


def check_fsck(product: InProcess) -> None:
    assert git(store_of(product), "fsck", "--full", "--strict", "--no-dangling") == ""


def test_git_lists_the_checkpoints_in_order_with_their_reasons(product: InProcess) -> None:
    ids = take_several(product, 2)
    shown = git(store_of(product), "log", "--format=%H %an <%ae> %cn <%ce> %s", tip_ref(project_of(product).hash))
    who = "Hermes Checkpoint <hermes@local>"
    lines = shown.splitlines()
    assert lines[:2] == [f"{ids[0]} {who} {who} number 1", f"{ids[1]} {who} {who} number 0"]
    assert lines[2].endswith("first checkpoint")
    check_fsck(product)


def test_git_finds_the_refs_where_they_should_be(product: InProcess) -> None:
    ids, project = take_several(product, 1), project_of(product).hash
    shown = git(store_of(product), "for-each-ref", "--format=%(refname) %(objecttype) %(objectname)").splitlines()
    refs = {line.split()[0]: line.split()[1:] for line in shown}
    assert refs[tip_ref(project)] == ["commit", ids[0]]
    assert refs[baseline_ref(project)][0] == "tree"
    assert len(refs) == 2
    assert git(store_of(product), "count-objects", "-v").splitlines()[-2:] == ["garbage: 0", "size-garbage: 0"]


def test_git_reads_the_tree_and_every_byte_of_a_checkpoint(product: InProcess) -> None:
    write(product.project / "crlf.txt", b"a\r\nb\r\n\0\xff$Id$\n")
    write(product.project / ".gitattributes", "* text=auto eol=crlf ident\n")
    oid = product.ask("take")["checkpoint"]["hash"]
    listed = git(store_of(product), "ls-tree", "-r", "-z", oid).split("\0")[:-1]
    modes = {line.split("\t")[1]: line.split()[0] for line in listed}
    assert (modes["link"], modes["sub/deep/run.sh"], modes["a.py"]) == ("120000", "100755", "100644")
    kinds = {"100644": "file", "100755": "executable", "120000": "link"}
    read = {
        os.fsencode(name): (
            kinds[mode],
            git(store_of(product), "cat-file", "blob", f"{oid}:{name}").encode("utf-8", "surrogateescape"),
        )
        for name, mode in modes.items()
    }
    assert read == photograph(product.project)


def with_index(product: InProcess, *arguments: str, work_tree: bool = False) -> str:
    """Run git on the store with the project's stat cache as its index."""
    index = store_of(product) / "indexes" / project_of(product).hash
    environment = {
        "PATH": os.environ["PATH"], "GIT_INDEX_FILE": str(index), "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent",
        "GIT_OPTIONAL_LOCKS": "0",
    }  # fmt: skip
    options = ["-c", "core.bare=false", f"--work-tree={product.project}"] if work_tree else []
    done = subprocess.run(
        ["git", f"--git-dir={store_of(product)}", *options, *arguments],
        env=environment, cwd=product.project, capture_output=True, check=True,
    )  # fmt: skip
    return done.stdout.decode()


def test_git_reads_the_stat_cache_as_an_index(product: InProcess) -> None:
    tree = git(store_of(product), "rev-parse", f"{list_ids(product)[0]}^{{tree}}").strip()
    staged = [line for line in with_index(product, "ls-files", "--stage", "-z").split("\0") if line]
    listed = git(store_of(product), "ls-tree", "-r", tree).splitlines()
    assert {(line.split()[0], line.split()[1], line.split("\t")[1]) for line in staged} == {
        (line.split()[0], line.split()[2].partition("\t")[0], line.split("\t")[1]) for line in listed
    }
    assert with_index(product, "write-tree").strip() == tree


def test_git_sees_by_the_stat_cache_exactly_what_changed(product: InProcess) -> None:
    not_remembered_yet = set(with_index(product, "ls-files", "--modified", work_tree=True).split())
    assert not_remembered_yet.isdisjoint({"notes.md", "sub/b.py"})
    write(product.project / "sub" / "b.py", "changed\n")
    (product.project / "notes.md").unlink()
    seen = set(with_index(product, "ls-files", "--modified", work_tree=True).split())
    assert seen - not_remembered_yet == {"notes.md", "sub/b.py"}


def test_a_trimmed_history_is_as_long_for_git_and_keeps_its_ids(product: InProcess) -> None:
    ids = take_several(product, _KEPT_COUNT + 5)
    assert log_of(product) == list_ids(product) == ids[:_KEPT_COUNT]
    check_fsck(product)
    git(store_of(product), "gc", "-q", "--prune=now")
    assert log_of(product) == list_ids(product) == ids[:_KEPT_COUNT]
    gone = git(store_of(product), "cat-file", "--batch-check", stdin="\n".join(ids[_KEPT_COUNT:]).encode())
    assert {line.split()[1] for line in gone.splitlines()} == {"missing"}
    check_fsck(product)


def test_after_gits_gc_every_kept_checkpoint_resolves_lists_and_restores(product: InProcess) -> None:
    take_several(product, 6)
    kept = list_ids(product)
    contents = {oid: git(store_of(product), "cat-file", "blob", f"{oid}:a.py") for oid in kept}
    git(store_of(product), "gc", "-q", "--prune=now")
    git(store_of(product), "gc", "-q", "--aggressive", "--prune=now")
    check_fsck(product)
    assert list_ids(product) == kept
    for oid in kept:
        done = product.ask("rollback.restore", hash=oid, all=True, dry_run=True)
        assert done["success"], done
        assert product.ask("rollback.diff", hash=oid)["success"]
    oldest = kept[-1]
    assert product.ask("rollback.restore", hash=oldest, all=True)["success"]
    assert (product.project / "a.py").read_text() == contents[oldest]
    check_fsck(product)


def test_after_gits_gc_the_next_checkpoint_rests_on_what_is_left(product: InProcess) -> None:
    write(product.project / "sub" / "b.py", "looked at, never recorded\n")
    product.ask("rollback.diff", hash="1")
    git(store_of(product), "gc", "-q", "--prune=now")
    write(product.project / "a.py", "next\n")
    oid = product.ask("take")["checkpoint"]["hash"]
    assert git(store_of(product), "cat-file", "blob", f"{oid}:sub/b.py") == "looked at, never recorded\n"
    check_fsck(product)


def test_refs_that_git_packed_are_moved_and_trimmed_all_the_same(product: InProcess) -> None:
    take_several(product, 2)
    git(store_of(product), "pack-refs", "--all", "--prune")
    ids = take_several(product, 3)
    assert list_ids(product)[:3] == ids
    assert log_of(product) == list_ids(product)
    check_fsck(product)


def test_a_commit_graph_that_git_wrote_does_not_contradict_the_trim(product: InProcess) -> None:
    take_several(product, 3)
    git(store_of(product), "-c", "core.commitGraph=true", "commit-graph", "write", "--reachable")
    ids = take_several(product, 4)
    assert log_of(product) == list_ids(product) == ids
    check_fsck(product)


# Settings of the user and of the project, each of which would start a program or change what is captured.


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """Return a file that exists once a trap was sprung, beside the script that makes it."""
    script = tmp_path / "traps" / "trap"
    write(script, f"#!/bin/sh\necho \"$0 $*\" >> '{tmp_path}/sprung'\ncat 2>/dev/null\nexit 0\n")
    script.chmod(0o755)
    for name in ("pre-commit", "post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc"):
        for folder in ("hooks", "template/hooks"):
            hook = tmp_path / "traps" / folder / name
            hook.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(script, hook)
    write(tmp_path / "traps" / "excludes", "*.py\nsub/\n")
    write(tmp_path / "traps" / "attributes", "* filter=x text eol=crlf ident diff=x\n")
    return tmp_path / "sprung"


def make_traps(marker: Path) -> str:
    traps = marker.parent / "traps"
    trap = traps / "trap"
    return f"""
[commit]
    gpgSign = true
[tag]
    gpgSign = true
[gpg]
    program = {trap}
[core]
    hooksPath = {traps}/hooks
    fsmonitor = {trap}
    excludesFile = {traps}/excludes
    attributesFile = {traps}/attributes
    pager = {trap}
    editor = {trap}
    askPass = {trap}
    sshCommand = {trap}
    autocrlf = true
    safecrlf = true
    eol = crlf
    ignoreStat = true
    trustctime = false
    fileMode = false
    symlinks = false
    quotePath = false
    precomposeUnicode = true
    untrackedCache = true
    sparseCheckout = true
[init]
    templateDir = {traps}/template
    defaultBranch = odd
[diff]
    external = {trap}
    noprefix = true
    renames = copies
[diff "x"]
    command = {trap}
    textconv = {trap}
[filter "x"]
    clean = {trap}
    smudge = {trap}
    process = {trap}
    required = true
[credential]
    helper = {trap}
[color]
    ui = always
[status]
    showUntrackedFiles = no
[gc]
    auto = 1
    recentObjectsHook = {trap}
[alias]
    ls-files = !{trap}
    diff-tree = !{trap}
[include]
    path = {traps}/nowhere
[extensions]
    objectFormat = sha256
"""


def live_through_it(product: InProcess) -> dict[str, Any]:
    """Use everything that could start git, and return what came of it."""
    project = product.project
    write(project / ".gitattributes", "* filter=x diff=x text=auto eol=crlf ident\n*.md working-tree-encoding=UTF-16\n")
    write(project / "crlf.txt", b"a\r\nb\n$Id$\n")
    product.ask("watch", action="add", path=str(project))
    size, mtime_ns = (project / "a.py").stat().st_size, (project / "a.py").stat().st_mtime_ns
    write(project / "a.py", "x" * size)
    os.utime(project / "a.py", ns=(mtime_ns, mtime_ns))
    (project / "notes.md").chmod(0o755)
    product.agent_writes("sub/b.py", "agent\n", turn="1")
    product.agent_runs("rm sub/deep/run.sh; mv staged.txt moved.txt", turn="2")
    listed = product.ask("rollback.list")["checkpoints"]
    diff = product.ask("rollback.diff", hash=str(len(listed)))
    done = product.ask("rollback.restore", hash=str(len(listed)), all=True)
    again = product.ask("take")
    trees = git(store_of(product), "log", "--format=%T %s", tip_ref(project_of(product).hash), "--").splitlines()
    return {
        "trees": trees,
        "messages": [each["message"] for each in listed],
        "counts": [[each[key] for key in ("files_changed", "insertions", "deletions")] for each in listed],
        "stat": diff["stat"],
        "diff": diff["diff"],
        "restored": done["restored_files"],
        "deleted": done["deleted_files"],
        "again": again["why"],
        "files": photograph(project),
    }


def without_ids(outcome: dict[str, Any]) -> dict[str, Any]:
    """Return what does not depend on the moment: the name of a safety checkpoint holds an id."""
    cut = [line.partition("(restoring to")[0] for line in outcome["trees"]]
    return outcome | {"trees": cut}


def a_life_in(directory: Path, monkeypatch: pytest.MonkeyPatch, prepare: Callable[[InProcess], None]) -> dict[str, Any]:
    files = {"a.py": "one\n", "sub/b.py": "two\n", "notes.md": "three\n", "sub/deep/run.sh": "#!/bin/sh\n"}
    project = make_project(directory / "project", files)
    (project / "link").symlink_to("a.py")
    monkeypatch.setenv("HERMES_HOME", str(directory / "hermes"))
    product = InProcess(project)
    prepare(product)
    return without_ids(live_through_it(product))


def change_nothing(product: InProcess) -> None:
    del product


def test_the_traps_do_spring_for_git_itself(tmp_path: Path, marker: Path) -> None:
    project = make_project(tmp_path / "project")
    write(project / "a.py", "changed\n")
    write(tmp_path / "trapped-home" / ".gitconfig", make_traps(marker))
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "trapped-home"), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "diff"], cwd=project, env=environment, capture_output=True, check=False)
    assert marker.exists()


def test_settings_of_the_user_spring_no_trap_and_change_no_result(
    tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = a_life_in(tmp_path / "plain", monkeypatch, change_nothing)
    home = tmp_path / "trapped-home"
    write(home / ".gitconfig", make_traps(marker))
    write(home / ".config" / "git" / "config", make_traps(marker))
    write(home / ".config" / "git" / "ignore", "*.py\n")
    write(home / ".config" / "git" / "attributes", "* filter=x\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    trapped = a_life_in(tmp_path / "trapped", monkeypatch, change_nothing)
    assert not marker.exists(), marker.read_text()
    assert trapped == plain


def test_variables_of_git_spring_no_trap_and_change_no_result(
    tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = a_life_in(tmp_path / "plain", monkeypatch, change_nothing)
    trap = str(marker.parent / "traps" / "trap")
    write(tmp_path / "global", make_traps(marker))
    variables = {
        "GIT_CONFIG_GLOBAL": str(tmp_path / "global"), "GIT_EXTERNAL_DIFF": trap, "GIT_PAGER": trap, "PAGER": trap,
        "GIT_EDITOR": trap, "GIT_ASKPASS": trap, "GIT_SSH": trap, "GIT_TEMPLATE_DIR": str(tmp_path / "traps"),
        "GIT_DIR": str(tmp_path / "nowhere"), "GIT_WORK_TREE": "/", "GIT_INDEX_FILE": str(tmp_path / "index"),
        "GIT_OBJECT_DIRECTORY": str(tmp_path / "objects"), "GIT_NAMESPACE": "x", "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.hooksPath", "GIT_CONFIG_VALUE_0": str(tmp_path / "traps" / "hooks"),
        "GIT_CONFIG_PARAMETERS": "'core.fsmonitor=" + trap + "'", "GIT_LITERAL_PATHSPECS": "0",
        "GIT_ICASE_PATHSPECS": "1", "GIT_TRACE": str(marker), "GIT_SHALLOW_FILE": str(tmp_path / "shallow"),
    }  # fmt: skip
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    trapped = a_life_in(tmp_path / "trapped", monkeypatch, change_nothing)
    assert not marker.exists(), marker.read_text()
    assert trapped == plain


def test_settings_of_the_project_spring_no_trap_and_change_no_result(
    tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = a_life_in(tmp_path / "plain", monkeypatch, change_nothing)
    before = []

    def set_traps(product: InProcess) -> None:
        own = product.project / ".git"
        write(own / "config", (own / "config").read_text() + make_traps(marker))
        write(own / "info" / "exclude", "*.py\n")
        write(own / "info" / "attributes", "* filter=x\n")
        shutil.copytree(marker.parent / "traps" / "hooks", own / "hooks", dirs_exist_ok=True)
        before.append(fingerprint_git(product.project))

    trapped = a_life_in(tmp_path / "trapped", monkeypatch, set_traps)
    assert not marker.exists(), marker.read_text()
    assert trapped == plain
    assert before == [fingerprint_git(tmp_path / "trapped" / "project")]


def test_a_nested_repository_with_traps_springs_none(marker: Path, product: InProcess) -> None:
    nested = make_project(product.project / "vendor")
    write(nested / ".git" / "config", (nested / ".git" / "config").read_text() + make_traps(marker))
    before = fingerprint_git(nested)
    taken = product.ask("take")
    write(nested / "a.py", "changed\n")
    write(product.project / "a.py", "changed\n")
    again = product.ask("take")
    assert again["checkpoint"]["nested_repositories"] == taken["checkpoint"]["nested_repositories"] == ["vendor"]
    assert product.ask("rollback.restore", hash="2", paths=["a.py"])["success"]
    assert not marker.exists(), marker.read_text()
    assert fingerprint_git(nested) == before
    assert (nested / "a.py").read_text() == "changed\n"
