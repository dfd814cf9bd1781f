"""The main job: a checkpoint before the agent writes, the agent's change taken back, the user's edit kept."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest

from tests.support.steps import Product
from tests.support.workdir import git, photograph, write

if TYPE_CHECKING:
    from pathlib import Path


def read(product: Product, name: str) -> str:
    return (product.project / name).read_text()


def messages(product: Product) -> list[str]:
    return [checkpoint["message"] for checkpoint in product.run("--json", "rollback").json["checkpoints"]]


def test_the_agents_change_goes_and_the_users_edit_stays(product: Product) -> None:
    product.agent_writes("a.py", "agent\n", turn="t1")
    write(product.project / "notes.md", "mine\n")
    done = product.run("rollback", "1")
    assert done.code == 0
    assert re.fullmatch(
        r"✅ Restored to checkpoint [0-9a-f]{8}: first checkpoint\n"
        r"↷ Kept your hand-edits: notes\.md\n"
        r"Use /rollback <N> --all to restore those too\.\n",
        done.out,
    )
    assert (read(product, "a.py"), read(product, "notes.md")) == ("one\n", "mine\n")


def test_rolling_back_again_takes_the_rollback_back(product: Product) -> None:
    product.agent_writes("a.py", "agent\n", turn="t1")
    write(product.project / "notes.md", "mine\n")
    start = photograph(product.project)
    for expected in ("one\n", "agent\n", "one\n", "agent\n"):
        assert product.run("rollback", "1").code == 0
        assert read(product, "a.py") == expected
        assert read(product, "notes.md") == "mine\n"
    assert photograph(product.project) == start


def test_the_list_has_the_words_of_the_contract(product: Product) -> None:
    product.agent_writes("a.py", "agent\n", turn="t1")
    product.agent_writes("a.py", "agent again\n", turn="t2")
    lines = product.run("rollback").out.splitlines()
    when = r"\d{4}-\d\d-\d\d \d\d:\d\d"
    assert lines[0] == f"📸 Checkpoints for {product.project}:"
    assert re.fullmatch(rf"  1\. [0-9a-f]{{7}}  {when}  before write_file: a\.py  \(1 file, \+1/-1\)", lines[2])
    assert re.fullmatch(rf"  2\. [0-9a-f]{{7}}  {when}  first checkpoint", lines[3])
    assert lines[4:] == [
        "",
        "  /rollback <N>             restore to checkpoint N (keeps your hand-edits)",
        "  /rollback <N> --all       full restore, overwriting your hand-edits too",
        "  /rollback diff <N>        preview changes since checkpoint N",
        "  /rollback <N> <file>      restore a single file from checkpoint N",
    ]


def test_a_turn_has_one_checkpoint_and_it_is_its_first_state(product: Product) -> None:
    write(product.project / "a.py", "before the turn\n")
    first = product.agent_writes("a.py", "one step\n", turn="t1")
    second = product.agent_writes("a.py", "two steps\n", turn="t1")
    assert (first["taken"], first["why"]) == (True, None)
    assert (second["taken"], second["why"]) == (False, "already-this-turn")
    assert product.run("rollback", "1").code == 0
    assert read(product, "a.py") == "before the turn\n"


def test_full_restore_overwrites_hand_edits_and_removes_what_was_created(product: Product) -> None:
    start = photograph(product.project)
    product.agent_writes("a.py", "agent\n", turn="t1")
    product.agent_writes("new/by-agent.py", "x\n", turn="t1")
    write(product.project / "notes.md", "mine\n")
    write(product.project / "mine.txt", "mine\n")
    assert product.run("rollback", "1", "--all").code == 0
    assert photograph(product.project) == start
    assert not (product.project / "new").exists()


def test_what_the_agent_created_is_removed_and_what_the_user_created_stays(product: Product) -> None:
    product.agent_writes("by-agent.py", "x\n", turn="t1")
    write(product.project / "by-user.py", "y\n")
    done = product.run("--json", "rollback", "1").json
    assert done["deleted_files"] == ["by-agent.py"]
    assert done["skipped_user_edits"] == ["by-user.py"]
    assert not (product.project / "by-agent.py").exists()
    assert read(product, "by-user.py") == "y\n"


@pytest.mark.parametrize("by_shell", [False, True])
def test_a_file_that_the_user_made_stays_though_the_agent_changed_it(product: Product, *, by_shell: bool) -> None:
    product.agent_writes("a.py", "by the agent\n", turn="t1")
    write(product.project / "mine.py", "by hand\n")
    if by_shell:
        product.agent_runs("echo more >> mine.py; touch theirs.py", turn="t2")
    else:
        product.agent_writes("mine.py", "by hand\nmore\n", turn="t2")
        product.agent_writes("theirs.py", "", turn="t2")
    done = product.run("--json", "rollback", "2").json
    assert (done["restored_files"], done["deleted_files"]) == (["a.py"], ["theirs.py"])
    assert done["skipped_user_edits"] == ["mine.py"]
    assert (product.project / "mine.py").read_text() == "by hand\nmore\n"


def test_one_file_goes_back_whoever_changed_it(product: Product) -> None:
    product.agent_writes("a.py", "agent\n", turn="t1")
    write(product.project / "notes.md", "mine\n")
    done = product.run("rollback", "1", "notes.md")
    assert re.fullmatch(r"✅ Restored notes\.md from checkpoint [0-9a-f]{8}: first checkpoint\n", done.out)
    assert (read(product, "a.py"), read(product, "notes.md")) == ("agent\n", "three\n")


def test_a_file_edited_by_hand_after_the_agent_is_kept(product: Product) -> None:
    product.agent_writes("a.py", "agent\n", turn="t1")
    write(product.project / "a.py", "agent, then me\n")
    done = product.run("--json", "rollback", "1").json
    assert (done["restored_files"], done["skipped_user_edits"]) == ([], ["a.py"])
    assert done["pre_rollback"] is None
    assert read(product, "a.py") == "agent, then me\n"


def test_what_the_shell_changed_and_deleted_comes_back(product: Product) -> None:
    answer = product.agent_runs("rm -r sub; mv a.py moved.py; echo changed >> notes.md", turn="t1")
    assert answer["why"] == "unchanged"
    write(product.project / "mine.txt", "mine\n")
    done = product.run("--json", "rollback", "1").json
    assert done["success"]
    assert read(product, "sub/b.py") == "two\n"
    assert (read(product, "a.py"), read(product, "notes.md")) == ("one\n", "three\n")
    assert not (product.project / "moved.py").exists()
    assert read(product, "mine.txt") == "mine\n"


def test_a_rollback_by_id_means_the_same_checkpoint_after_the_list_moved(product: Product) -> None:
    product.agent_writes("a.py", "v1\n", turn="t1")
    product.agent_writes("a.py", "v2\n", turn="t2")
    first = product.run("--json", "rollback").json["checkpoints"][-1]
    assert product.run("rollback", first["hash"][:10]).code == 0
    assert read(product, "a.py") == "one\n"
    again = product.run("--json", "rollback", first["short_hash"]).json
    assert (again["success"], again["restored_files"]) == (True, [])


def test_the_diff_is_a_patch_that_git_applies(product: Product, tmp_path: Path) -> None:
    start = photograph(product.project)
    product.agent_writes("a.py", b"agent\r\n\x00\xff", turn="t1")
    product.agent_writes("sp ace/n\udce9w", "x\n", turn="t1")
    (product.project / "sub" / "b.py").unlink()
    after = photograph(product.project)
    patch = product.run("--json", "rollback", "diff", "1").json["diff"]
    copy = tmp_path / "copy"
    for name, (_, content) in start.items():
        write(copy / os.fsdecode(name), content)
    git(copy, "init", "-q")
    git(copy, "apply", "--whitespace=nowarn", "-", stdin=os.fsencode(patch))
    assert photograph(copy) == after


def test_the_diff_names_what_a_patch_has_no_place_for(product: Product) -> None:
    (product.project / "bare").mkdir(mode=0o755)
    product.run("take")
    (product.project / "bare").rmdir()
    (product.project / "fresh").mkdir(mode=0o700)
    (product.project / "a.py").chmod(0o600)
    answer = product.run("--json", "diff").json
    assert not answer["empty"]
    assert answer["beside"] == [
        {"path": "a.py", "old": "file 0644", "new": "file 0600"},
        {"path": "bare", "old": "directory 0755", "new": None},
        {"path": "fresh", "old": None, "new": "directory 0700"},
    ]
    assert product.run("diff").out.splitlines()[:3] == [
        " change file 0644 => file 0600 a.py",
        " remove directory 0755 bare",
        " create directory 0700 fresh",
    ]


def test_on_a_terminal_the_diff_is_in_colours_and_else_it_is_as_it_is(product: Product) -> None:
    product.run("take")
    write(product.project / "a.py", b"\x1b[2Jnew\n")
    assert "+\x1b[2Jnew" in product.run("diff").out
    on_terminal = product.run_on_terminal("diff", PAGER="cat", TERM="xterm")
    assert "\x1b[32m+\\x1b[2Jnew" in on_terminal
    without = product.run_on_terminal("diff", PAGER="cat", TERM="xterm", NO_COLOR="1")
    assert "\x1b" not in without
    assert "+\\x1b[2Jnew" in without


def test_a_rollback_that_has_nothing_to_do_touches_nothing(product: Product) -> None:
    product.agent_writes("a.py", "one\n", turn="t1")
    before = {path: os.stat(path) for path in product.project.rglob("*")}
    count = len(messages(product))
    assert product.run("rollback", "1").code == 0
    after = {path: os.stat(path) for path in product.project.rglob("*")}
    assert {path: (each.st_ino, each.st_mtime_ns, each.st_ctime_ns) for path, each in before.items()} == {
        path: (each.st_ino, each.st_mtime_ns, each.st_ctime_ns) for path, each in after.items()
    }
    assert len(messages(product)) == count


def test_only_what_goes_back_is_touched(product: Product) -> None:
    product.agent_writes("a.py", "agent\n", turn="t1")
    others = [path for path in product.project.rglob("*") if path.is_file() and path.name != "a.py"]
    before = [(path, os.stat(path).st_ino, os.stat(path).st_ctime_ns) for path in others]
    assert product.run("rollback", "1").code == 0
    assert [(path, os.stat(path).st_ino, os.stat(path).st_ctime_ns) for path in others] == before


def test_a_dry_run_says_what_would_happen_and_does_nothing(product: Product) -> None:
    product.agent_writes("a.py", "agent\n", turn="t1")
    product.agent_writes("new.py", "agent\n", turn="t1")
    now, listed = photograph(product.project), messages(product)
    done = product.run("--json", "rollback", "1", "--dry-run").json
    assert (done["restored_files"], done["deleted_files"], done["dry_run"]) == (["a.py"], ["new.py"], True)
    assert (photograph(product.project), messages(product)) == (now, listed)


def test_the_executable_bit_and_links_come_back(product: Product) -> None:
    script = product.project / "run.sh"
    write(script, "#!/bin/sh\n")
    script.chmod(0o755)
    (product.project / "link").symlink_to("a.py")
    start = photograph(product.project)
    product.agent_runs("chmod -x run.sh; rm link; echo not-a-link > link", turn="t1")
    assert product.run("rollback", "1").code == 0
    assert photograph(product.project) == start


def test_a_file_and_a_directory_that_changed_places_change_back(product: Product) -> None:
    start = photograph(product.project)
    product.agent_runs("rm -r sub a.py; echo file > sub; mkdir a.py; echo x > a.py/inside", turn="t1")
    assert product.run("rollback", "1").code == 0
    assert photograph(product.project) == start


def test_uncaptured_content_is_never_removed_to_make_room(product: Product) -> None:
    product.agent_runs("rm a.py; mkdir -p a.py/node_modules; echo only-copy > a.py/node_modules/x", turn="t1")
    done = product.run("--json", "rollback", "1").json
    assert [left["path"] for left in done["left_in_place"]] == ["a.py"]
    assert read(product, "a.py/node_modules/x") == "only-copy\n"


def test_a_link_that_took_a_directorys_place_is_never_written_through(product: Product, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    write(outside / "b.py", "not yours\n")
    product.agent_runs(f"rm -r sub; ln -s {outside} sub", turn="t1")
    assert product.run("rollback", "1").code == 0
    assert (outside / "b.py").read_text() == "not yours\n"
    assert not (product.project / "sub").is_symlink()
    assert read(product, "sub/b.py") == "two\n"


def test_an_ignored_file_that_a_tool_names_comes_back(product: Product) -> None:
    write(product.project / "build" / "kept.cfg", "mine before\n")
    product.agent_writes("build/kept.cfg", "agent\n", turn="t1")
    product.agent_writes("build/made.cfg", "agent\n", turn="t1")
    assert product.run("rollback", "1").code == 0
    assert read(product, "build/kept.cfg") == "mine before\n"


def test_an_ignored_file_is_never_removed_for_being_unknown_to_an_old_checkpoint(product: Product) -> None:
    write(product.project / "build" / "kept.cfg", "mine before\n")
    product.agent_writes("a.py", "x\n", turn="t1")
    product.agent_writes("build/kept.cfg", "agent\n", turn="t2")
    for words in (["1"], ["1", "--all"]):
        oldest = len(messages(product))
        assert product.run("rollback", str(oldest), *words[1:]).code == 0
        assert (product.project / "build" / "kept.cfg").exists()


def test_a_secret_that_a_tool_names_is_not_captured(product: Product) -> None:
    write(product.project / ".env", "TOKEN=1\n")
    product.agent_writes(".env", "TOKEN=2\n", turn="t1")
    assert product.run("--json", "take").json["skipped"] == [{"path": ".env", "reason": "secret"}]
    assert ".env" not in product.run("--json", "rollback", "diff", "1").json["diff"]


def test_the_base_of_a_subdirectory_is_its_project(product: Product) -> None:
    product.agent_writes("sub/b.py", "agent\n", turn="t1")
    write(product.project / "sub" / "mine.md", "mine\n")
    assert product.run("rollback", "1", cwd=product.project / "sub").code == 0
    assert read(product, "sub/b.py") == "two\n"
    assert read(product, "sub/mine.md") == "mine\n"


@pytest.mark.parametrize(
    ("given", "start"), [("sub/b.py", "."), ("sub/b.py", "sub"), ("./b.py", "sub"), ("../sub/b.py", "sub")]
)
def test_a_path_is_the_projects_unless_it_begins_with_a_dot(product: Product, given: str, start: str) -> None:
    product.agent_writes("sub/b.py", "agent\n", turn="t1")
    product.agent_writes("b.py", "another\n", turn="t1")
    assert product.run("rollback", "1", given, cwd=product.project / start).code == 0
    assert read(product, "sub/b.py") == "two\n"
    assert read(product, "b.py") == "another\n"


def test_a_commit_that_the_agent_made_is_not_undone_but_its_files_are(product: Product) -> None:
    answer = product.event("before_tool", turn="t1", tool="write_file", paths=["a.py"])
    assert answer["ok"]
    write(product.project / "a.py", "agent\n")
    product.event("after_tool", turn="t1", tool="write_file", paths=["a.py"], status="ok")
    assert product.run("rollback", "1").code == 0
    assert git(product.project, "status", "--porcelain").split() == ["A", "staged.txt"]


def test_turns_are_counted_for_a_whole_rollback_and_not_for_a_file(product: Product) -> None:
    for turn in ("t1", "t2", "t3"):
        product.agent_writes("a.py", f"{turn}\n", turn=turn)
    done = product.run("--json", "rollback", "2").json
    assert done["undo_turns"] == 2
    assert product.run("--json", "rollback", "1", "a.py").json["undo_turns"] == 0


def test_after_a_rollback_the_turn_that_goes_on_gets_a_checkpoint_of_the_restored_state(product: Product) -> None:
    product.agent_writes("a.py", "agent\n", turn="t1")
    other = Product(product.project, session="other")
    other.agent_writes("sub/b.py", "other\n", turn="t1")
    assert product.run("rollback", "1", "--all", "--dry-run").code == 0
    assert product.agent_writes("a.py", "agent, again\n", turn="t1")["why"] == "already-this-turn"
    first = product.run("--json", "rollback").json["checkpoints"][-1]["hash"]
    assert product.run("rollback", first, "--all").code == 0
    write(product.project / "notes.md", "mine, after it\n")
    answer = product.agent_writes("notes.md", "agent, after it\n", turn="t1")
    assert answer["taken"] is True
    assert product.agent_writes("notes.md", "again\n", turn="t1")["why"] == "already-this-turn"
    assert other.agent_writes("a.py", "other, after it\n", turn="t1")["taken"] is True
    assert product.run("rollback", answer["checkpoint"]["hash"], "--all").code == 0
    assert (product.project / "notes.md").read_text() == "mine, after it\n"
    assert (product.project / "a.py").read_text() == "one\n"


@pytest.mark.parametrize("name", [".git/config", "lib/.git/config", ".git/hooks/pre-commit"])
def test_what_a_tool_names_in_a_repository_is_neither_captured_nor_put_back(product: Product, name: str) -> None:
    file = product.project / name
    before = file.read_bytes() if file.exists() else None
    for turn in ("t1", "t2"):
        product.agent_writes(name, f"[{turn}]\n", turn=turn)
        product.agent_writes("a.py", f"{turn}\n", turn=turn)
    for words in (["1"], ["2", "--all"]):
        done = product.run("--json", "rollback", *words).json
        assert (done["success"], name in done["restored_files"], done["left_in_place"]) == (True, False, [])
        assert file.read_text() == "[t2]\n"
    if before is None:
        file.unlink()
    else:
        file.write_bytes(before)
