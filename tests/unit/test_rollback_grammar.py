"""What may be typed after `/rollback`, and the text that people read."""

from __future__ import annotations

import pytest

from config.errors import UsageError
from watcher.rollback import (
    DiffRequest,
    ListRequest,
    Request,
    RestoreRequest,
    parse_chat,
    printable,
    render_list,
    render_restore,
)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("/rollback", ListRequest()),
        ("/rollback list", ListRequest()),
        ("/rollback diff 2", DiffRequest("2")),
        ("/rollback 1", RestoreRequest("1")),
        ("/rollback 1 --all", RestoreRequest("1", everything=True)),
        ("/rollback --all 1", RestoreRequest("1", everything=True)),
        ("/rollback 1 --force", RestoreRequest("1", everything=True)),
        ("/rollback 4270a8c src/x.py", RestoreRequest("4270a8c", ("src/x.py",))),
        ("/rollback 1 'my file' b", RestoreRequest("1", ("my file", "b"))),
        ("/rollback 1 -- --all", RestoreRequest("1", ("--all",))),
        ("/rollback 1 --dry-run", RestoreRequest("1", dry_run=True)),
    ],
)
def test_the_grammar(line: str, expected: Request) -> None:
    assert parse_chat(line) == expected


@pytest.mark.parametrize(
    "line", ["/rollback diff", "/rollback diff 1 2", "/rollback --all", "/rollback 1 --all f", "/rollback 'x", "/undo"]
)
def test_what_makes_no_sense_is_refused(line: str) -> None:
    with pytest.raises(UsageError):
        parse_chat(line)


def listed(**fields: object) -> dict[str, object]:
    row = {
        "number": 1,
        "short_hash": "4270a8c",
        "timestamp": "2026-03-16T04:36:00+00:00",
        "message": "before patch",
        "files_changed": 1,
        "insertions": 1,
        "deletions": 0,
    }
    return {"workdir": "/p", "enabled": True, "checkpoints": [row | fields], "health": {"protected": True}}


def test_the_list_shows_local_time_and_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "Europe/Rome")
    time.tzset()
    text = render_list(listed())
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert text.splitlines()[0] == "📸 Checkpoints for /p:"
    assert text.splitlines()[2] == "  1. 4270a8c  2026-03-16 05:36  before patch  (1 file, +1/-0)"


def test_a_checkpoint_that_changed_nothing_shows_no_counts() -> None:
    assert "(" not in render_list(listed(files_changed=0)).splitlines()[2]


def test_an_empty_list_says_where_there_are_some() -> None:
    empty = {"workdir": "/p", "enabled": True, "checkpoints": [], "elsewhere": ["/q"]}
    assert render_list(empty) == "No checkpoints found for /p\nThere are some for:\n  /q"


def test_without_opt_in_the_list_says_how_to_enable() -> None:
    text = render_list({"workdir": "/p", "enabled": False, "checkpoints": []})
    assert text.splitlines() == [
        "Checkpoints are not enabled.",
        "Enable with: hermes-checkpoints watch add",
        "Or in config.yaml: checkpoints: { enabled: true }",
    ]


def restored(**fields: object) -> dict[str, object]:
    return {
        "success": True,
        "restored_to": "a1b2c3d4",
        "message": "before write_file",
        "mode": "default",
        "restored_files": ["x"],
        "deleted_files": [],
        "skipped_user_edits": [],
        "skipped_oversize": [],
        "left_in_place": [],
        "dry_run": False,
    } | fields


def test_the_texts_after_a_rollback() -> None:
    assert render_restore(restored(), []) == "✅ Restored to checkpoint a1b2c3d4: before write_file"
    assert (
        render_restore(restored(), ["src/x.py"]) == "✅ Restored src/x.py from checkpoint a1b2c3d4: before write_file"
    )
    assert render_restore(restored(skipped_user_edits=["src/config.py", "notes.md"]), []).splitlines()[1:] == [
        "↷ Kept your hand-edits: src/config.py, notes.md",
        "Use /rollback <N> --all to restore those too.",
    ]
    assert render_restore(restored(success=False, error="It broke."), []).startswith("❌ It broke.")


def test_long_lists_are_cut_after_five_names() -> None:
    text = render_restore(restored(skipped_user_edits=list("abcdefg")), [])
    assert "↷ Kept your hand-edits: a, b, c, d, e (+2)" in text


def test_no_name_writes_to_the_terminal() -> None:
    assert printable("a\x1b[31m\n\udcff") == r"a\x1b[31m\n\udcff"
