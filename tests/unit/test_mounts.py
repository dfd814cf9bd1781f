"""Where a project is when its directory is not: the decision, on facts as they were seen on real volumes."""

from __future__ import annotations

import errno
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from store import volumes
from store.mounts import (
    Evidence,
    Facts,
    Look,
    Mount,
    WorkdirState,
    classify,
    find_mount,
    format_evidence,
    parse_evidence,
)
from store.volumes import is_as_recorded, judge, record_evidence

if TYPE_CHECKING:
    from pathlib import Path

LIVE, ORPHAN, DETACHED, UNKNOWN = WorkdirState
WORKDIR = "/mnt/disk/code/app"
ROOT = Mount("/", "/", "ext4", "/dev/sda1")
DISK = Mount("/mnt/disk", "/", "ext4", "/dev/sdb1")
EVIDENCE = Evidence(DISK, fsid=77, own_fsid=77, device=5, inode=1000, parents=(900,))
THERE = Look(None, is_directory=True, device=5, inode=1000)
GONE = Look(errno.ENOENT)
FACTS = Facts(THERE, (ROOT, DISK), fsid=77)
DELETED = Facts(GONE, (ROOT, DISK), fsid=77, siblings={901: "/mnt/disk/other"}, missing=1000)
OVER = (ROOT, DISK, Mount("/mnt/disk/code", "/", "tmpfs", "t"))
OVER_ITSELF = (ROOT, DISK, Mount(WORKDIR, "/", "tmpfs", "t"))
AWAY = (ROOT, replace(DISK, point="/media"))
AUTOMOUNT = (ROOT, replace(DISK, kind="autofs"))
ON_TMPFS = replace(EVIDENCE, mount=replace(DISK, kind="tmpfs"))
TMPFS = replace(DISK, kind="tmpfs", source="tmpfs")


@pytest.mark.parametrize(
    ("name", "evidence", "facts", "state"),
    [
        ("it is there", EVIDENCE, FACTS, LIVE),
        ("mounted again under another device number", EVIDENCE, replace(FACTS, workdir=replace(THERE, device=9)), LIVE),
        ("deleted", EVIDENCE, DELETED, ORPHAN),
        ("its parent deleted", EVIDENCE, replace(DELETED, missing=900, siblings={}), ORPHAN),
        ("replaced by a file", EVIDENCE, replace(FACTS, workdir=Look(None, inode=1000)), ORPHAN),
        ("replaced by another directory", EVIDENCE, replace(FACTS, workdir=replace(THERE, inode=1)), ORPHAN),
        ("renamed in place", EVIDENCE, replace(DELETED, siblings={1000: "/mnt/disk/code/app2"}), UNKNOWN),
        ("its parent renamed", EVIDENCE, replace(DELETED, missing=900, siblings={900: "/mnt/disk/src"}), UNKNOWN),
        ("unmounted, the mount point empty", EVIDENCE, replace(DELETED, mounts=(ROOT,)), DETACHED),
        ("unmounted, the same path below", EVIDENCE, replace(FACTS, mounts=(ROOT,), fsid=1), DETACHED),
        ("another volume there, without the path", EVIDENCE, replace(DELETED, fsid=78), DETACHED),
        ("another volume there, with the path", EVIDENCE, replace(FACTS, fsid=78), DETACHED),
        ("a tmpfs there", EVIDENCE, replace(DELETED, mounts=(ROOT, TMPFS)), DETACHED),
        ("a tmpfs on top", EVIDENCE, replace(DELETED, mounts=(ROOT, DISK, TMPFS)), DETACHED),
        ("a tmpfs over its parent", EVIDENCE, replace(FACTS, mounts=OVER), DETACHED),
        ("a tmpfs over itself", EVIDENCE, replace(FACTS, mounts=OVER_ITSELF), DETACHED),
        ("the volume mounted somewhere else", EVIDENCE, replace(DELETED, mounts=AWAY), DETACHED),
        ("another subtree bound there", EVIDENCE, replace(FACTS, mounts=(ROOT, replace(DISK, subtree="/x"))), DETACHED),
        ("read-only now", EVIDENCE, FACTS, LIVE),
        ("an automount not triggered", EVIDENCE, replace(DELETED, mounts=AUTOMOUNT), UNKNOWN),
        ("an automount above", EVIDENCE, replace(DELETED, mounts=(ROOT, Mount("/mnt", "/", "autofs", "a"))), UNKNOWN),
        ("no permission", EVIDENCE, replace(FACTS, workdir=Look(errno.EACCES)), UNKNOWN),
        ("no permission, unmounted", EVIDENCE, replace(DELETED, workdir=Look(errno.EACCES), mounts=(ROOT,)), UNKNOWN),
        ("a stale handle", EVIDENCE, replace(FACTS, workdir=Look(errno.ESTALE)), UNKNOWN),
        ("no answer in time", EVIDENCE, Facts(Look(errno.ETIMEDOUT)), UNKNOWN),
        ("a file system's program died", EVIDENCE, replace(FACTS, workdir=Look(errno.ENOTCONN)), DETACHED),
        ("the volume does not answer", EVIDENCE, replace(DELETED, fsid=None), UNKNOWN),
        ("the directory above can't be read", EVIDENCE, replace(DELETED, siblings=None), UNKNOWN),
        ("deeper than what was recorded", EVIDENCE, replace(DELETED, missing=None), UNKNOWN),
        ("a tmpfs made anew, empty", ON_TMPFS, replace(DELETED, mounts=(ROOT, TMPFS), fsid=5), DETACHED),
        ("deleted on a tmpfs", ON_TMPFS, replace(DELETED, mounts=(ROOT, TMPFS)), ORPHAN),
        ("a tmpfs with another id, the same directory", ON_TMPFS, replace(FACTS, mounts=(ROOT, TMPFS), fsid=5), LIVE),
        ("nothing known, and there", None, Facts(THERE), LIVE),
        ("nothing known, and gone", None, Facts(GONE), UNKNOWN),
        ("nothing known, and a file", None, Facts(Look(None, inode=1)), UNKNOWN),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) and len(value) > 9 else "",
)  # fmt: skip
def test_where_a_project_is(name: str, evidence: Evidence | None, facts: Facts, state: WorkdirState) -> None:
    assert classify(WORKDIR, evidence, facts).state is state, name


def test_of_mounts_at_one_place_the_last_counts() -> None:
    assert find_mount(WORKDIR, (ROOT, DISK, TMPFS)) is TMPFS
    assert find_mount("/mnt/disk2", (ROOT, DISK)) is ROOT
    assert find_mount("/mnt/disk", (ROOT, DISK)) is DISK


def test_evidence_comes_back_from_json_and_damage_is_none() -> None:
    raw = format_evidence(EVIDENCE)
    assert parse_evidence(raw) == EVIDENCE
    assert parse_evidence(raw | {"more": 1}) == EVIDENCE
    for damage in ({"mount": ["/", "/"]}, {"fsid": "x"}, {"inode": True}, {"parents": None}, {"mount": [1, 2, 3, 4]}):
        assert parse_evidence(raw | damage) is None
    assert parse_evidence(None) is None


def test_a_directory_of_today_is_live_then_renamed_then_deleted(tmp_path: Path) -> None:
    project = tmp_path / "a b\\c" / "project"
    project.mkdir(parents=True)
    evidence = record_evidence(str(project))
    assert evidence is not None
    assert is_as_recorded(str(project), evidence)
    assert judge(str(project), evidence).state is LIVE
    project.rename(project.with_name("elsewhere"))
    assert not is_as_recorded(str(project), evidence)
    assert judge(str(project), evidence).state is UNKNOWN
    project.with_name("elsewhere").rmdir()
    assert judge(str(project), evidence).state is ORPHAN
    project.parent.rmdir()
    assert judge(str(project), evidence).state is ORPHAN


def test_a_look_that_hangs_is_given_up_and_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evidence, release = record_evidence(str(tmp_path)), threading.Event()

    def hang(_: str) -> Look:
        release.wait(30)
        return THERE

    monkeypatch.setattr(volumes, "_look", hang)
    started = time.monotonic()
    assert judge(str(tmp_path), evidence, deadline_s=0.1).state is UNKNOWN
    assert judge(str(tmp_path), evidence, deadline_s=20).state is UNKNOWN
    assert time.monotonic() - started < 10
    release.set()
    monkeypatch.undo()
    until = time.monotonic() + 10
    while judge(str(tmp_path), evidence).state is not LIVE:
        assert time.monotonic() < until
        time.sleep(0.01)
