"""Sweeps on real stores: what goes, what stays, and that what stays can be restored."""

from __future__ import annotations

import io
import json
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from store.files import measure_bytes
from store.gc import Caller, collect
from store.history import follow_history, read_shallow
from store.layout import Layout, tip_ref
from store.mounts import WorkdirState
from store.objects import ObjectStore
from store.project import Project, ProjectRecord, load_record, save_record
from store.project_store import open_project_store
from store.prune import Owner, Policy, Pruned, prune
from store.retention import Verdict
from tests.support.steps import Following, InProcess, Product, serving
from tests.support.stores import make_layout, take
from tests.support.upkeep import check_with_git, grow_project, history, holder, noise, read_all
from tests.support.workdir import write
from watcher.cli.root import run

_DAY_S = 86400.0
_NOW = 100 * _DAY_S


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Give the store of the test's home."""
    return make_layout(tmp_path / "hermes")


def sweep(layout: Layout, *, states: dict[str, WorkdirState] | None = None, **policy: object) -> Pruned:
    known = states or {}
    owner = Owner(Caller(holder(layout)), lambda record: known.get(record.workdir, WorkdirState.LIVE))
    given = {"retention_days": 7.0, "max_bytes": None} | policy
    return prune(layout, owner, Policy(**given), now=_NOW)  # type: ignore[arg-type] # a test's settings


def snapshot(directory: str) -> dict[str, object]:
    """Return every file below a directory, with its content, apart from the lock."""
    return {str(path): path.read_bytes() for path in sorted(Path(directory).rglob("*")) if path.is_file()}


@pytest.mark.usefixtures("without_flushes")
def test_stale_projects_and_archives_go_and_fresh_ones_stay(layout: Layout, tmp_path: Path) -> None:
    stale = grow_project(layout, tmp_path / "stale", count=3, now=_NOW - 8 * _DAY_S)
    fresh = grow_project(layout, tmp_path / "fresh", count=3, now=_NOW - 6 * _DAY_S)
    for name, age in (("legacy-20200101-000000", 8), ("legacy-20200102-000000", 6)):
        folder = Path(layout.base, name)
        (folder / "readonly").mkdir(parents=True)
        (folder / "readonly" / "file").write_bytes(bytes(5000))
        (folder / "readonly").chmod(0o500)
        os.utime(folder, (_NOW - age * _DAY_S,) * 2)
    kept, size = read_all(layout, fresh), measure_bytes(layout.base)

    pruned = sweep(layout)

    assert not pruned.problems
    assert [each.candidate.hash for each in pruned.list_decided(Verdict.STALE)] == [stale.hash]
    assert [archive.name for archive in pruned.archives] == ["legacy-20200101-000000"]
    assert pruned.freed_bytes == size - measure_bytes(layout.base) > 65_000
    assert sorted(each for each in os.listdir(layout.base) if each != "store") == ["legacy-20200102-000000"]
    assert read_all(layout, fresh) == kept
    left = [path for path in snapshot(layout.store) if stale.hash in path]
    assert not left
    check_with_git(layout)
    assert sweep(layout).freed_bytes == 0
    os.chmod(os.path.join(layout.base, "legacy-20200102-000000", "readonly"), 0o700)


@pytest.mark.usefixtures("without_flushes")
@pytest.mark.parametrize("excess", [1000, 30_000, 50_000, 110_000, 170_000])
def test_the_cap_is_met_with_no_checkpoint_more_than_needed(layout: Layout, tmp_path: Path, excess: int) -> None:
    projects = [grow_project(layout, tmp_path / name, count=5, now=_NOW - 1000) for name in ("a", "b", "c")]
    sweep(layout)
    before = {project.hash: history(layout, project) for project in projects}
    size = measure_bytes(layout.store)
    cap = size - excess

    preview = sweep(layout, max_bytes=cap, dry_run=True)
    pruned = sweep(layout, max_bytes=cap)

    assert not pruned.problems
    assert measure_bytes(layout.store) <= cap
    assert measure_bytes(layout.store) + 21_500 > cap, "one checkpoint less would not have been enough"
    assert preview.dropped == pruned.dropped
    counts = [len(history(layout, project)) for project in projects]
    assert sum(counts) == 15 - pruned.dropped
    assert max(counts) - min(counts) <= 1, "it goes round the projects"
    for project in projects:
        assert history(layout, project) == before[project.hash][: len(history(layout, project))]
        assert all(content[b"big.bin"] for content in read_all(layout, project).values())
    check_with_git(layout)


@pytest.mark.usefixtures("without_flushes")
def test_every_project_keeps_one_and_it_is_said_that_the_cap_is_not_met(layout: Layout, tmp_path: Path) -> None:
    projects = [grow_project(layout, tmp_path / name, count=4, now=_NOW - 1000) for name in ("a", "b")]
    pruned = sweep(layout, max_bytes=1)
    assert pruned.is_over_cap
    assert pruned.dropped == 6
    assert len(pruned.problems) == 1
    assert [len(history(layout, project)) for project in projects] == [1, 1]
    check_with_git(layout)


@pytest.mark.usefixtures("without_flushes")
def test_no_history_pays_for_garbage(layout: Layout, tmp_path: Path) -> None:
    project = grow_project(layout, tmp_path / "project", count=4, now=_NOW - 1000)
    size = measure_bytes(layout.store)
    for number in range(5):
        ObjectStore(layout.store).write_blob(noise(30_000, number))
    Path(layout.store, "objects", "pack", "tmp_pack_x").write_bytes(bytes(100_000))
    pruned = sweep(layout, max_bytes=size + 5000)
    assert pruned.dropped == 0
    assert pruned.freed_bytes >= 245_000
    assert len(history(layout, project)) == 4


@pytest.mark.usefixtures("without_flushes")
def test_no_history_is_dropped_when_space_can_not_be_freed(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = grow_project(layout, tmp_path / "project", count=4, now=_NOW - 1000)
    monkeypatch.setenv("PATH", str(tmp_path))
    pruned = sweep(layout, max_bytes=1)
    monkeypatch.undo()
    assert pruned.failed
    assert pruned.problems
    assert pruned.dropped == 0
    assert len(history(layout, project)) == 4


@pytest.mark.usefixtures("without_flushes")
def test_an_orphan_is_never_deleted_unless_it_was_confirmed(layout: Layout, tmp_path: Path) -> None:
    old = grow_project(layout, tmp_path / "old", count=2, now=_NOW - 50 * _DAY_S)
    new = grow_project(layout, tmp_path / "new", count=2, now=_NOW - 1000)
    states = {old.workdir: WorkdirState.ORPHAN, new.workdir: WorkdirState.ORPHAN}
    assert not [each for each in sweep(layout, states=states).decisions if each.verdict is not Verdict.KEEP]
    pruned = sweep(layout, states=states, confirmed=frozenset({new.hash}))
    assert [each.candidate.hash for each in pruned.list_decided(Verdict.ORPHAN)] == [new.hash]
    assert (len(history(layout, old)), len(history(layout, new))) == (2, 0)
    assert not sweep(layout, confirmed=frozenset({old.hash})).list_decided(Verdict.ORPHAN)


@pytest.mark.usefixtures("without_flushes")
def test_a_project_that_is_touched_during_the_sweep_stays(layout: Layout, tmp_path: Path) -> None:
    project = grow_project(layout, tmp_path / "project", count=2, now=_NOW - 8 * _DAY_S)
    asked = 0

    def classify(record: ProjectRecord) -> WorkdirState:
        nonlocal asked
        asked += 1
        if asked == 1:
            save_record(layout, project.hash, ProjectRecord(record.workdir, 0.0, last_touch=_NOW))
        return WorkdirState.LIVE

    pruned = prune(layout, Owner(Caller(holder(layout)), classify), Policy(7, None), now=_NOW)
    assert not pruned.list_decided(Verdict.STALE)
    assert len(history(layout, project)) == 2


@pytest.mark.usefixtures("without_flushes")
def test_a_time_from_a_clock_that_was_ahead_does_not_keep_a_project_for_ever(layout: Layout, tmp_path: Path) -> None:
    project = grow_project(layout, tmp_path / "project", count=1, now=_NOW + 900 * _DAY_S)
    sweep(layout)
    record = load_record(layout, project.hash)
    assert record is not None
    assert record.last_touch == _NOW


@pytest.mark.usefixtures("without_flushes")
def test_a_dry_run_changes_nothing(layout: Layout, tmp_path: Path) -> None:
    grow_project(layout, tmp_path / "stale", count=2, now=_NOW - 9 * _DAY_S)
    grow_project(layout, tmp_path / "fresh", count=4, now=_NOW - 1000)
    Path(layout.store, "objects", "pack", "tmp_pack_x").write_bytes(bytes(1000))
    before = snapshot(layout.base)
    pruned = sweep(layout, max_bytes=60_000, dry_run=True)
    assert snapshot(layout.base) == before
    assert len(pruned.list_decided(Verdict.STALE)) == 1
    assert pruned.dropped > 0
    assert pruned.freed_bytes > 40_000


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))


@pytest.fixture
def commanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InProcess:
    """Give a project with a checkpoint; directories that are missing count as deleted."""
    write(tmp_path / "project" / "a.txt", "one\n")
    product = InProcess(tmp_path / "project")
    product.ask("take")
    monkeypatch.setattr(
        "watcher.upkeep.classify",
        lambda record: WorkdirState.LIVE if os.path.isdir(record.workdir) else WorkdirState.ORPHAN,
    )
    return product


@pytest.mark.usefixtures("without_flushes")
@pytest.mark.parametrize(("given", "code"), [("n\n", 1), ("", 1), ("y\n", 0)])
def test_orphans_are_shown_and_only_go_after_a_yes(
    commanded: InProcess,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    given: str,
    code: int,
) -> None:
    commanded.project.rename(commanded.project.with_name("moved"))
    answer(monkeypatch, given)
    assert run(["--no-service", "prune"]) == code
    out = capsys.readouterr().out
    assert out.startswith(
        "This will permanently delete 1 orphan checkpoint project(s) whose workdir is not currently reachable:\n"
        f"  {commanded.project}  (1 commit(s))\n"
    )
    assert "Delete these orphan projects? [y/N]: " in out
    assert ("Aborted." in out) == bool(code)
    assert ("Pruning checkpoint store…" in out) == (not code)
    commanded.project.with_name("moved").rename(commanded.project)
    assert len(commanded.ask("rollback.list")["checkpoints"]) == code


@pytest.mark.usefixtures("without_flushes")
def test_the_options_of_prune(commanded: InProcess, capsys: pytest.CaptureFixture[str]) -> None:
    commanded.project.rename(commanded.project.with_name("moved"))
    assert run(["--no-service", "--json", "prune", "--dry-run"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["dry_run"], shown["deleted_orphan"], shown["scanned"]) == (True, 1, 1)
    assert run(["--no-service", "--json", "prune", "--keep-orphans"]) == 0
    kept = json.loads(capsys.readouterr().out)
    assert kept["deleted_orphan"] == 0
    assert kept["kept"][0]["state"] == "orphan"
    assert {"scanned", "deleted_orphan", "deleted_stale", "dropped_checkpoints", "kept", "errors", "bytes_freed",
            "over_cap", "dry_run"} <= kept.keys()  # fmt: skip
    assert run(["--no-service", "prune", "--max-size-mb", "-1"]) == 2
    capsys.readouterr()
    assert run(["--no-service", "--json", "prune", "-f"]) == 0
    assert json.loads(capsys.readouterr().out)["deleted_orphan"] == 1


def test_clear_asks_and_removes_everything_but_the_lock_and_the_opt_in(product: Product) -> None:
    base = Path(os.environ["HERMES_HOME"], "checkpoints")
    refused = product.run("clear", stdin="n\n")
    assert refused.code == 1
    assert "All /rollback history for every working directory will be lost.\nProceed? [y/N]: " in refused.out
    assert refused.out.endswith("Aborted.\n")
    assert base.is_dir()
    (base / "store" / "readonly").mkdir()
    (base / "store" / "readonly" / "x").touch(0o400)
    (base / "store" / "readonly").chmod(0o500)
    done = product.run("clear", "-f")
    assert (done.code, done.out[:19]) == (0, "Cleared. Reclaimed "), done.err
    assert not base.exists()
    assert (base.parent / ".checkpoints.lock").exists()
    assert product.run("clear").out == "Nothing to clear — checkpoint base does not exist.\n"
    product.agent_writes("new.txt", "new\n", turn="t9")
    listed = product.run("--json", "rollback").json
    assert len(listed["checkpoints"]) == 1
    assert product.run("rollback", "1", "--all", "--yes").code == 0
    assert not (product.project / "new.txt").exists()


def test_clear_legacy_removes_archives_only(product: Product) -> None:
    base = Path(os.environ["HERMES_HOME"], "checkpoints")
    assert product.run("clear-legacy").out == "No legacy archives to clear.\n"
    write(base / "legacy-20260506-050616" / "a", "x" * 5000)
    asked = product.run("clear-legacy", stdin="n\n")
    assert asked.code == 1
    assert "legacy-20260506-050616" in asked.out
    assert "Delete all legacy archives? [y/N]: " in asked.out
    assert product.run("status").out.endswith("\nClear with: hermes-checkpoints clear-legacy\n")
    assert product.run("clear-legacy", "-f").out == "Deleted 1 archive(s), reclaimed 4.9 KB.\n"
    assert len(product.run("--json", "rollback").json["checkpoints"]) == 1


def test_prune_gives_the_same_with_and_without_the_service(product: Product) -> None:
    product.agent_writes("a.txt", "one\n", turn="t1")
    pruned = product.run("--json", "prune").json
    assert (pruned["scanned"], pruned["errors"], pruned["over_cap"], pruned["problems"]) == (1, 0, False, [])
    status = product.run("--json", "status").json
    assert status["maintenance"]["last_sweep"] > time.time() - 60
    assert not status["maintenance"]["gc_pending"]
    product.agent_writes("a.txt", "two\n", turn="t2")
    assert product.run("rollback", "1").code == 0
    assert (product.project / "a.txt").read_text() == "one\n"


@pytest.mark.usefixtures("without_flushes")
def test_the_service_goes_on_after_it_or_another_process_pruned(tmp_path: Path) -> None:
    write(tmp_path / "project" / "a.txt", "one\n")
    product, other = Following(tmp_path / "project"), InProcess(tmp_path / "project")
    product.ask("take")
    for number, pruner in enumerate([product, other, other, product]):
        write(tmp_path / "project" / "a.txt", f"unrecorded {number}\n")
        product.ask("rollback.diff", hash="1")
        pruner.ask("prune")
        taken = product.ask("take")
        assert taken["taken"]
        layout = product.home.layout
        assert len(read_all(layout, Project.of(str(tmp_path / "project")))) == number + 2
    check_with_git(product.home.layout)
    product.home.close()


@pytest.mark.usefixtures("without_flushes")
def test_sweeps_keep_their_interval_and_collections_wait_for_refs_to_move(tmp_path: Path) -> None:
    write(tmp_path / "project" / "a.txt", "one\n")
    product = Following(tmp_path / "project")
    upkeep = product.operations.upkeep
    now = time.time()
    assert upkeep.sweep_if_due(now=now) is None, "there is no store"
    product.ask("take")
    assert upkeep.collect_if_pending(now=now)
    assert not upkeep.collect_if_pending(now=now)
    assert upkeep.sweep_if_due(now=now) is not None
    assert upkeep.sweep_if_due(now=now + 23 * 3600) is None
    assert upkeep.sweep_if_due(now=now + 25 * 3600) is not None
    Path(product.home.paths.last_prune).unlink()
    upkeep.stop()
    assert upkeep.sweep_if_due(now=now) is None
    assert not os.path.exists(product.home.paths.last_prune), "one that was busy does not count"
    product.home.close()


def test_the_service_says_when_it_will_sweep_and_stops_at_once(tmp_path: Path) -> None:
    write(tmp_path / "project" / "a.txt", "one\n")
    product = Product(tmp_path / "project")
    with serving(product):
        product.run("take")
        maintenance = product.run("--json", "status").json["maintenance"]
    assert maintenance["next_sweep"] > time.time() + 60
    assert maintenance["next_gc"] > time.time()
    assert maintenance["last_sweep"] is None


def test_eight_processes_take_checkpoints_while_prunes_run(tmp_path: Path) -> None:
    products = []
    for number in range(8):
        write(tmp_path / f"p{number}" / "a.txt", f"{number}\n")
        products.append(Product(tmp_path / f"p{number}", options=["--no-service"]))
    failures: list[str] = []

    def work(product: Product) -> None:
        for step in range(3):
            (product.project / "a.txt").write_bytes(noise(20_000, (product.project.name, step)))
            done = product.run("take")
            if done.code:
                failures.append(done.err)

    threads = [threading.Thread(target=work, args=(product,)) for product in products]
    for thread in threads:
        thread.start()
    prunes = 0
    while any(thread.is_alive() for thread in threads):
        done = Product(tmp_path, options=["--no-service"]).run("prune", "--max-size-mb", "1")
        assert done.code == 0, done.out + done.err
        prunes += 1
    for thread in threads:
        thread.join()
    assert not failures
    assert prunes
    layout = Layout(os.path.join(os.environ["HERMES_HOME"], "checkpoints"), "")
    objects, cut = ObjectStore(layout.store), read_shallow(layout)
    for product in products:
        commits = follow_history(objects, tip_ref(Project.of(str(product.project)).hash), cut)
        assert len(commits) == 3
        assert all(read_all(layout, Project.of(str(product.project))).values())
    check_with_git(layout)


@pytest.mark.usefixtures("without_flushes")
def test_the_cap_costs_a_few_collections_also_where_content_is_packed_as_differences(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "project"
    lines = [f"line {number} {noise(20, number).hex()}\n" for number in range(3000)]
    project = grow_project(layout, root, count=1, now=_NOW - 1000)
    store = open_project_store(layout, project)
    for step in range(25):
        for number in range(40):
            lines[(step * 97 + number * 31) % len(lines)] = f"changed {step} {noise(20, (step, number)).hex()}\n"
        write(root / "text.txt", "".join(lines))
        (root / "big.bin").write_bytes(noise(10_000, step))
        take(store, f"step {step}", now=_NOW - 900 + step, keep_count=100)
    sweep(layout)
    size, kept, runs = measure_bytes(layout.store), read_all(layout, project), 0

    def counted(*words: object, **options: object) -> object:
        nonlocal runs
        runs += 1
        return collect(*words, **options)  # type: ignore[arg-type] # passed on

    monkeypatch.setattr("store.prune.collect", counted)
    pruned = sweep(layout, max_bytes=size - 120_000)
    assert not pruned.problems
    assert 5 <= pruned.dropped <= 13
    assert size - 160_000 < measure_bytes(layout.store) <= size - 120_000
    assert runs <= 5, runs
    assert read_all(layout, project).items() <= kept.items()
    check_with_git(layout)


@pytest.mark.usefixtures("without_flushes")
def test_a_project_of_which_the_last_touch_is_not_known_stays(layout: Layout, tmp_path: Path) -> None:
    project = grow_project(layout, tmp_path / "project", count=1, now=_NOW - 50 * _DAY_S)
    Path(layout.project_file(project.hash)).write_text(json.dumps({"workdir": project.workdir}))
    assert not sweep(layout).list_decided(Verdict.STALE)
    assert len(history(layout, project)) == 1
