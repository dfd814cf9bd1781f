"""Whatever happens to a project, the checkpoint that events lead to is the one that a full scan would take."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from config.paths import resolve_paths
from store.entries import Oid
from store.objects import ObjectStore
from tests.support.steps import InProcess
from watcher.home import Home
from watcher.operations import Operations

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAMES = [b"a", b"b.py", b"c \n", b"-rf", b":(top)x", b"\xff\xfe", b"build", b"x.log", b"d", b"node_modules", b"e.txt"]
_IGNORES = [b"*.py\n", b"d/\n", b"!x.log\n", b"", b"/a\n!e.txt\n"]


class Vandal:
    """Change a project in every way that files can change."""

    def __init__(self, root: Path, seed: int) -> None:
        self._root = os.fsencode(root)
        self._random = random.Random(seed)
        self._aside = os.fsencode(root.with_name("aside"))
        os.mkdir(self._aside)

    def act(self) -> None:
        with suppress(OSError):
            self._random.choice(
                [self._write, self._write, self._write, self._append, self._make, self._remove, self._rename,
                 self._link, self._chmod, self._ignore, self._move_out, self._move_in, self._nest, self._fifo]
            )()  # fmt: skip

    def _place(self) -> bytes:
        depth = self._random.choice([1, 1, 2, 2, 3])
        return os.path.join(self._root, *(self._random.choice(_NAMES) for _ in range(depth)))

    def _content(self) -> bytes:
        return self._random.choice([b"", b"x\r\n", b"$Id$\n", self._random.randbytes(20)])

    def _write(self) -> None:
        path = self._place()
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self._put(path, os.O_TRUNC)

    def _append(self) -> None:
        self._put(self._place(), os.O_APPEND)

    def _put(self, path: bytes, how: int) -> None:
        """Write without waiting for a pipe's other end."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | how)
        with os.fdopen(descriptor, "wb") as file:
            file.write(self._content())

    def _make(self) -> None:
        os.makedirs(self._place())

    def _remove(self) -> None:
        path = self._place()
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)

    def _rename(self) -> None:
        os.rename(self._place(), self._place())

    def _link(self) -> None:
        os.symlink(self._random.choice([b"a", b"..", b"/etc", self._aside]), self._place())

    def _chmod(self) -> None:
        path = self._place()
        if not os.path.islink(path) and os.path.isfile(path):
            os.chmod(path, self._random.choice([0o644, 0o755, 0o600]))

    def _ignore(self) -> None:
        place = os.path.join(os.path.dirname(self._place()), b".gitignore")
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "wb") as file:
            file.write(self._random.choice(_IGNORES))

    def _move_out(self) -> None:
        os.rename(self._place(), os.path.join(self._aside, b"%d" % self._random.randrange(4)))

    def _move_in(self) -> None:
        os.rename(os.path.join(self._aside, b"%d" % self._random.randrange(4)), self._place())

    def _nest(self) -> None:
        path = self._place()
        if os.path.isdir(path) and not os.path.islink(path):
            subprocess.run(
                ["git", "init", "-q", path], check=False, capture_output=True, env={"PATH": os.environ["PATH"]}
            )

    def _fifo(self) -> None:
        os.mkfifo(self._place())


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[tuple[Path, Home]]:
    project = tmp_path / "project"
    project.mkdir()
    home = Home(
        resolve_paths(home=str(tmp_path / "watching"), profile=None, environ=os.environ),
        user_home=os.environ["HOME"],
        follow_events=True,
    )
    try:
        yield project, home
    finally:
        home.close()


@pytest.mark.parametrize("seed", range(4))
def test_events_lead_to_the_tree_of_a_full_scan(watching: tuple[Path, Home], tmp_path: Path, seed: int) -> None:
    project, home = watching
    vandal, service = Vandal(project, seed), Operations(home, serving=True)
    known = InProcess(project, options=["--home", str(tmp_path / "known")])
    for step in range(60):
        for _ in range(random.Random(seed * 1000 + step).randrange(1, 12)):
            vandal.act()
        by_events = service.dispatch("take", {"workdir": str(project)})
        by_cache = known.ask("take")
        fresh = InProcess(project, options=["--home", str(tmp_path / f"fresh{step}")])
        by_walk = fresh.ask("take")
        stores = [tmp_path / "watching", tmp_path / "known", tmp_path / f"fresh{step}"]
        trees = [
            ObjectStore(str(store / "checkpoints" / "store")).read_commit(_oid(answer)).tree.hex()
            for store, answer in zip(stores, (by_events, by_cache, by_walk), strict=True)
        ]
        assert trees[0] == trees[2], f"events, step {step}"
        assert trees[1] == trees[2], f"stat cache, step {step}"
        assert by_events["skipped"] == by_walk["skipped"], f"left out by events, step {step}"
        shutil.rmtree(tmp_path / f"fresh{step}")


def _oid(answer: dict[str, object]) -> Oid:
    checkpoint = answer["checkpoint"]
    assert isinstance(checkpoint, dict)
    return Oid(bytes.fromhex(checkpoint["hash"]))
