"""What can't be captured is named, and costs neither the checkpoint nor any other file."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from store.capture import Limits, Reason, Walk
from store.checkpoint import Kind, Label, take_checkpoint
from store.entries import MODE_GITLINK
from store.history import list_history
from store.layout import tip_ref
from store.project import Project
from store.tree import flatten
from tests.support.steps import InProcess, wait_until
from tests.support.stores import look, make_scope, open_store, take
from tests.support.workdir import fingerprint_git, git, make_project, photograph, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from store.baseline import Baseline
    from store.project_store import ProjectStore

_AS_ROOT = pytest.mark.skipif(os.geteuid() == 0, reason="root can read everything")
_IS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a device")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    write(project / "a.py", "one\n")
    write(project / "sub" / "b.py", "two\n")
    return project


@pytest.fixture
def store(tmp_path: Path, project: Path) -> ProjectStore:
    return open_store(tmp_path, project)


def contents(store: ProjectStore, baseline: Baseline) -> dict[bytes, bytes]:
    """Return every captured file."""
    entries = flatten(store.objects, baseline.tree).items()
    return {path: store.objects.read_blob(entry.oid) for path, entry in entries if entry.mode != MODE_GITLINK}


_PLAIN = {b"a.py": b"one\n", b"sub/b.py": b"two\n"}


def make_device(path: Path) -> None:
    os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


_SPECIAL_FILES = [
    pytest.param(os.mkfifo, id="fifo"),
    pytest.param(make_socket, id="socket"),
    pytest.param(make_device, id="device", marks=_IS_ROOT),
]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("make", _SPECIAL_FILES)
def test_a_special_file_is_named_and_blocks_nobody(
    store: ProjectStore, project: Path, make: Callable[[Path], None]
) -> None:
    make(project / "sub" / "odd")
    first = look(store)
    assert first.left_out == {b"sub/odd": Reason.SPECIAL}
    assert contents(store, first) == _PLAIN
    assert take(store).checkpoint.note["skipped"] == [{"path": "sub/odd", "reason": "special-file"}]
    assert look(store) == first


@pytest.mark.timeout(20)
@pytest.mark.parametrize("make", _SPECIAL_FILES)
def test_a_special_file_made_after_the_first_checkpoint_is_named_too(
    store: ProjectStore, project: Path, make: Callable[[Path], None]
) -> None:
    look(store)
    make(project / "sub" / "odd")
    again = look(store)
    assert contents(store, again) == _PLAIN
    assert again.left_out == {b"sub/odd": Reason.SPECIAL}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("make", _SPECIAL_FILES)
def test_a_file_that_became_a_special_one_leaves_the_checkpoint_and_is_named(
    store: ProjectStore, project: Path, make: Callable[[Path], None]
) -> None:
    look(store)
    (project / "a.py").unlink()
    make(project / "a.py")
    again = look(store)
    assert (contents(store, again), again.left_out) == ({b"sub/b.py": b"two\n"}, {b"a.py": Reason.SPECIAL})
    (project / "a.py").unlink()
    write(project / "a.py", "one\n")
    back = look(store)
    assert (contents(store, back), back.left_out) == (_PLAIN, {})


@_AS_ROOT
def test_a_file_and_a_folder_that_cannot_be_read_are_named(store: ProjectStore, project: Path) -> None:
    write(project / "secret.txt", "x\n")
    write(project / "closed" / "c.py", "x\n")
    (project / "secret.txt").chmod(0)
    (project / "closed").chmod(0)
    try:
        found = look(store)
        assert contents(store, found) == _PLAIN
        assert found.left_out == {b"secret.txt": Reason.UNREADABLE, b"closed": Reason.UNREADABLE}
    finally:
        (project / "closed").chmod(0o700)


def test_links_that_lead_in_a_circle_are_captured_as_links(store: ProjectStore, project: Path) -> None:
    (project / "one").symlink_to("two")
    (project / "two").symlink_to("one")
    (project / "sub" / "up").symlink_to("..")
    found = look(store)
    assert found.left_out == {}
    assert contents(store, found) == _PLAIN | {b"one": b"two", b"two": b"one", b"sub/up": b".."}


_LIMIT_BYTES = 1000


def look_limited(store: ProjectStore, project: Path) -> Baseline:
    return look(store, make_scope(project, limits=Limits(max_file_bytes=_LIMIT_BYTES)))


@pytest.mark.parametrize("has_cache", [False, True])
def test_a_file_of_exactly_the_limit_is_captured_and_one_byte_more_is_not(
    store: ProjectStore, project: Path, has_cache: bool
) -> None:
    if has_cache:
        look_limited(store, project)
    write(project / "exact.bin", bytes(_LIMIT_BYTES))
    write(project / "more.bin", bytes(_LIMIT_BYTES + 1))
    found = look_limited(store, project)
    assert contents(store, found) == _PLAIN | {b"exact.bin": bytes(_LIMIT_BYTES)}
    assert found.left_out == {b"more.bin": Reason.LARGE}


def test_a_file_that_grows_past_the_limit_leaves_and_comes_back_when_it_shrinks(
    store: ProjectStore, project: Path
) -> None:
    write(project / "data", bytes(_LIMIT_BYTES - 1))
    look_limited(store, project)
    with open(project / "data", "ab") as data:
        data.write(b"more")
    grown = look_limited(store, project)
    assert (contents(store, grown), grown.left_out) == (_PLAIN, {b"data": Reason.LARGE})
    write(project / "data", b"small")
    shrunk = look_limited(store, project)
    assert (contents(store, shrunk), shrunk.left_out) == (_PLAIN | {b"data": b"small"}, {})


@contextmanager
def meanwhile(work: Callable[[int], object]) -> Iterator[None]:
    """Do something again and again in another thread while the block runs."""
    stop, begun = threading.Event(), threading.Event()

    def repeat() -> None:
        number = 0
        while not stop.is_set():
            work(number)
            number += 1
            begun.set()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        wait_until(begun.is_set)
        yield
    finally:
        stop.set()
        thread.join(20)


@pytest.mark.timeout(60)
def test_a_file_that_grows_while_it_is_read_is_captured_or_named(store: ProjectStore, project: Path) -> None:
    path = project / "growing"
    path.write_bytes(b"x" * 100)

    def grow(_: int) -> None:
        with open(path, "ab") as file:
            file.write(b"x" * 997)
        if path.stat().st_size > 300_000:
            path.write_bytes(b"x" * 100)

    with meanwhile(grow):
        for number in range(20):
            write(project / "a.py", f"{number}\n")
            found = look(store)
            captured = contents(store, found)
            assert captured[b"a.py"] == f"{number}\n".encode()
            assert (b"growing" in captured) is not (b"growing" in found.left_out)
            assert set(found.left_out.values()) <= {Reason.RESTLESS}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("size_bytes", [4_000, 2_000_000])
def test_a_file_that_is_rewritten_all_the_time_is_captured_whole_or_named(
    store: ProjectStore, project: Path, size_bytes: int
) -> None:
    path, states = project / "restless", [bytes([letter]) * size_bytes for letter in b"ab"]
    path.write_bytes(states[0])
    descriptor = os.open(path, os.O_WRONLY)
    torn = []
    try:
        with meanwhile(lambda number: os.pwrite(descriptor, states[number % 2], 0)):
            for number in range(25):
                write(project / "a.py", f"{number}\n")
                found = look(store)
                captured = contents(store, found)
                assert captured[b"a.py"] == f"{number}\n".encode()
                if b"restless" in found.left_out:
                    assert found.left_out[b"restless"] is Reason.RESTLESS
                    assert b"restless" not in captured
                elif captured[b"restless"] not in states:
                    torn.append(number)
    finally:
        os.close(descriptor)
    assert torn == []
    path.write_bytes(b"quiet")
    assert contents(store, look(store))[b"restless"] == b"quiet"


@pytest.mark.timeout(60)
def test_files_and_folders_that_vanish_during_a_scan_cost_nothing_else(store: ProjectStore, project: Path) -> None:
    folders = [project / f"coming-and-going-{number}" for number in range(6)]

    def come_and_go(number: int) -> None:
        folder = folders[number % len(folders)]
        if folder.exists():
            shutil.rmtree(folder)
        else:
            for name in range(4):
                write(folder / "deep" / f"{name}.txt", f"{name}\n")

    with meanwhile(come_and_go):
        for number in range(60):
            if number % 2:
                with suppress(FileNotFoundError):
                    os.unlink(store.layout.index_file(store.project.hash))
            captured = contents(store, look(store))
            assert _PLAIN.items() <= captured.items()


def test_a_folder_that_vanishes_between_being_listed_and_being_entered_is_as_if_it_was_not_there(
    project: Path,
) -> None:
    write(project / "a-folder" / "x", "x\n")
    found = []
    for path, _ in Walk(make_scope(project)).files():
        found.append(path)
        shutil.rmtree(project / "a-folder", ignore_errors=True)
        shutil.rmtree(project / "sub", ignore_errors=True)
    assert found == [b"a.py"]


def test_a_nested_repository_without_commits_hides_nothing_beside_it(store: ProjectStore, project: Path) -> None:
    write(project / "file.txt", "v1\n")
    take(store, "A")
    write(project / "vendor" / "inside.txt", "inside\n")
    git(project / "vendor", "init", "-q")
    git(project / "vendor", "add", "-A")
    write(project / "file.txt", "v2\n")
    second = take(store, "B").checkpoint
    before = fingerprint_git(project / "vendor")
    write(project / "file.txt", "v3\n")
    found = look(store)
    assert found.left_out == {b"vendor": Reason.NESTED}
    held = flatten(store.objects, second.tree)
    assert store.objects.read_blob(held[b"file.txt"].oid) == b"v2\n"
    assert held[b"vendor"].mode == MODE_GITLINK
    assert second.subject == "B [nested git repos not captured: vendor]"
    assert fingerprint_git(project / "vendor") == before


@pytest.fixture
def product(tmp_path: Path) -> InProcess:
    product = InProcess(make_project(tmp_path / "watched"))
    product.ask("watch", action="add", path=str(product.project))
    return product


def store_of(product: InProcess) -> Path:
    return product.project.parent / "hermes" / "checkpoints" / "store"


def test_a_file_beside_a_nested_repository_without_commits_is_put_back(product: InProcess) -> None:
    write(product.project / "vendor" / "inside.txt", "inside\n")
    git(product.project / "vendor", "init", "-q")
    write(product.project / "a.py", "v2\n")
    taken = product.ask("take")["checkpoint"]["hash"]
    write(product.project / "a.py", "v3\n")
    assert product.ask("rollback.restore", hash=taken, paths=["a.py"])["success"]
    assert (product.project / "a.py").read_text() == "v2\n"
    assert (product.project / "vendor" / "inside.txt").read_text() == "inside\n"


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "place", ["indexes/{hash}.lock", "index.lock", "config.lock", "packed-refs.lock", "shallow.lock", "HEAD.lock"]
)
def test_a_stale_lock_file_in_the_store_stops_no_checkpoint(product: InProcess, place: str) -> None:
    project = Project.of(str(product.project)).hash
    write(store_of(product) / place.format(hash=project), b"")
    check_that_it_works(product)


@pytest.mark.timeout(30)
def test_a_stale_lock_file_of_the_projects_ref_stops_no_checkpoint(product: InProcess) -> None:
    ref = tip_ref(Project.of(str(product.project)).hash)
    write(store_of(product) / f"{ref}.lock", b"")
    check_that_it_works(product)


def check_that_it_works(product: InProcess) -> None:
    write(product.project / "a.py", "changed\n")
    taken = product.ask("take")
    assert taken["taken"]
    write(product.project / "a.py", "again\n")
    assert product.ask("rollback.restore", hash=taken["checkpoint"]["hash"], all=True)["success"]
    assert (product.project / "a.py").read_text() == "changed\n"


def make_other(product: InProcess) -> tuple[InProcess, str]:
    """Make a second project in the same store, and return it with its hash."""
    other = InProcess(make_project(product.project.parent / "other"))
    other.ask("watch", action="add", path=str(other.project))
    return other, Project.of(str(other.project)).hash


_METADATA = ["projects/{hash}.json", "indexes/{hash}", "ledgers/{hash}.json", "statistics/{hash}.json"]


@pytest.mark.parametrize("place", [*_METADATA, "refs/hermes/{hash}", "refs/baseline/{hash}"])
def test_one_projects_metadata_filled_with_zeros_disables_no_other(product: InProcess, place: str) -> None:
    other, hash_ = make_other(product)
    other.agent_writes("a.py", "agent\n", turn="1")
    other.ask("rollback.list")
    path = store_of(product) / place.format(hash=hash_)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(bytes(path.stat().st_size if path.exists() else 64))
    check_that_it_works(product)
    assert len(product.ask("rollback.list")["checkpoints"]) == 3
    listed: Any = product.ask("status")["projects"]
    assert str(product.project) in {each["workdir"] for each in listed}
    assert hash_ in {each["hash"] for each in listed}


@pytest.mark.parametrize("place", ["projects/{hash}.json", "indexes/{hash}", "statistics/{hash}.json"])
def test_what_can_be_found_out_anew_is_repaired_by_the_next_checkpoint(product: InProcess, place: str) -> None:
    other, hash_ = make_other(product)
    path = store_of(product) / place.format(hash=hash_)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(bytes(200))
    check_that_it_works(other)
    assert str(other.project) in {each["workdir"] for each in other.ask("status")["projects"]}


@pytest.mark.parametrize("damage", [bytes(200), b'{"workdir": "/srv/p", "pinned": {"../outside.txt": true}}'])
def test_a_projects_file_that_makes_no_sense_is_set_aside_and_named(
    product: InProcess, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    write(product.project.parent / "outside.txt", "outside\n")
    path = store_of(product) / "projects" / f"{Project.of(str(product.project)).hash}.json"
    path.write_bytes(damage)
    product.ask("rollback.list")
    assert path.read_bytes() == damage
    taken = product.agent_writes("a.py", "agent\n", turn="t1")
    assert taken["ok"]
    aside = path.with_name(f"{path.name}.damaged")
    assert aside.read_bytes() == damage
    assert product.ask("status")["damaged"] == [str(aside)]
    assert str(aside) in product.run("status").out
    assert str(aside) in caplog.text
    assert product.ask("take")["files"] == 4
    assert product.ask("rollback.list")["health"]["protected"] is True


def test_a_ledger_filled_with_zeros_stops_a_rollback_and_never_widens_it(product: InProcess) -> None:
    product.agent_writes("a.py", "agent\n", turn="1")
    ledger = store_of(product) / "ledgers" / f"{Project.of(str(product.project)).hash}.json"
    ledger.write_bytes(bytes(ledger.stat().st_size))
    write(product.project / "notes.md", "mine\n")
    before = photograph(product.project)
    with pytest.raises(Exception, match="can't be understood"):
        product.ask("rollback.restore", hash="1")
    assert photograph(product.project) == before


def test_files_that_did_not_change_keep_inode_and_times_through_everything(product: InProcess) -> None:
    names = [f"many/{number:03}.txt" for number in range(300)]
    for number, name in enumerate(names):
        write(product.project / name, f"{number}\n")
        os.utime(product.project / name, ns=(10**18, 10**18 + number))
    target = product.ask("take")["checkpoint"]["hash"]
    changed, others = names[7], [*names[:7], *names[8:]]

    def sign_all() -> list[tuple[int, int, int]]:
        found = [(product.project / name).lstat() for name in others]
        return [(status.st_ino, status.st_mtime_ns, status.st_ctime_ns) for status in found]

    before = sign_all()
    product.agent_writes(changed, "agent\n", turn="1")
    product.ask("take")
    product.ask("rollback.list")
    product.ask("rollback.diff", hash="1")
    product.ask("status")
    assert sign_all() == before
    done = product.ask("rollback.restore", hash=target)
    assert (done["success"], done["restored_files"]) == (True, [changed])
    assert product.ask("rollback.restore", hash=target, all=True)["restored_files"] == []
    assert sign_all() == before


def test_a_clock_set_back_an_hour_keeps_the_order(store: ProjectStore, project: Path) -> None:
    taken = []
    for number, now in enumerate([10_000.0, 10_001.0, 6_400.0, 6_401.0, 10_002.0]):
        write(project / "a.py", f"{number}\n")
        taken.append(take(store, str(number), now=now, keep_count=3).checkpoint)
    assert list_history(store) == taken[:1:-1]
    label = Label(Kind.MANUAL, "nothing changed", 1.0)
    assert take_checkpoint(store, look(store), label, keep_count=3).checkpoint == taken[-1]


def test_a_file_from_the_future_is_looked_at_again_each_time(store: ProjectStore, project: Path) -> None:
    write(project / "a.py", "111\n")
    os.utime(project / "a.py", ns=(4 * 10**18, 4 * 10**18))
    look(store)
    write(project / "a.py", "222\n")
    os.utime(project / "a.py", ns=(4 * 10**18, 4 * 10**18))
    assert contents(store, look(store))[b"a.py"] == b"222\n"
