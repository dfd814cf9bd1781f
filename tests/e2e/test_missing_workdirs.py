"""Projects on real volumes that go away: nothing is recorded of what is there instead, and nothing is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.support.steps import Product, serving
from tests.support.workdir import photograph, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")


def mount(*words: str) -> None:
    done = subprocess.run(["mount", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this machine does not mount that: {done.stderr.strip()}")


@contextmanager
def mounted(point: Path, *words: str) -> Iterator[None]:
    point.mkdir(exist_ok=True)
    mount(*words, str(point))
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(point)], capture_output=True, check=False)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return make_image(tmp_path / "volume.img")


def make_image(path: Path) -> Path:
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("mkfs.ext4 is not installed")
    with path.open("wb") as file:
        file.truncate(8 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(path)], check=True, capture_output=True)
    return path


def protect(point: Path, tmp_path: Path) -> Product:
    project = point / "code" / "app"
    for name in ("a.py", "sub/b.py"):
        write(project / name, f"{name}\n")
    product = Product(project, ["--home", str(tmp_path / "home")])
    assert product.run("watch", "add").code == 0
    return product


def state_of(product: Product, tmp_path: Path) -> tuple[str, int]:
    (project,) = product.run("--json", "status", cwd=tmp_path).json["projects"]
    return project["state"], project["commits"]


def take(product: Product, tmp_path: Path) -> int:
    return product.run("-C", str(product.project), "take", cwd=tmp_path).code


@pytest.mark.parametrize("is_served", [True, False])
def test_an_unmounted_volume_is_detached_and_its_history_goes_on(
    image: Path, tmp_path: Path, *, is_served: bool
) -> None:
    point = tmp_path / "disk"
    with mounted(point, "-o", "loop", str(image)):
        product = protect(point, tmp_path)
        before = photograph(product.project)
    assert state_of(product, tmp_path) == ("detached", 1)
    product.project.mkdir(parents=True)
    write(product.project / "underlay", "not the project\n")
    assert state_of(product, tmp_path) == ("detached", 1)
    assert take(product, tmp_path) == 1
    if is_served:
        with serving(product):
            assert take(product, tmp_path) == 1
    assert product.run("-C", str(product.project), "rollback", "1", "--all", "--yes", cwd=tmp_path).code == 1
    assert (product.project / "underlay").exists()
    assert state_of(product, tmp_path) == ("detached", 1)
    with mounted(point, "-o", "loop", str(image)):
        assert state_of(product, tmp_path) == ("live", 1)
        assert photograph(product.project) == before
        write(product.project / "a.py", "more\n")
        assert take(product, tmp_path) == 0
        assert state_of(product, tmp_path) == ("live", 2)
        shutil.rmtree(point / "code")
        assert state_of(product, tmp_path) == ("orphan", 2)


def test_another_volume_in_its_place_is_not_the_project(image: Path, tmp_path: Path) -> None:
    point = tmp_path / "disk"
    with mounted(point, "-o", "loop", str(image)):
        product = protect(point, tmp_path)
    for words in (["-o", "loop", str(make_image(tmp_path / "other.img"))], ["-t", "tmpfs", "tmpfs"]):
        with mounted(point, *words):
            assert state_of(product, tmp_path) == ("detached", 1)
            product.project.mkdir(parents=True)
            assert state_of(product, tmp_path) == ("detached", 1)
            assert take(product, tmp_path) == 1


def test_what_is_mounted_over_a_project_hides_it(image: Path, tmp_path: Path) -> None:
    point = tmp_path / "disk"
    with mounted(point, "-o", "loop", str(image)):
        product = protect(point, tmp_path)
        for over in (product.project, product.project.parent):
            with mounted(over, "-t", "tmpfs", "tmpfs"):
                assert state_of(product, tmp_path)[0] == "detached"
                assert take(product, tmp_path) != 0
            assert state_of(product, tmp_path)[0] == "live"


def test_a_bind_mount_that_is_gone_is_detached(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    point = tmp_path / "bound"
    with mounted(point, "--bind", str(tmp_path / "source")):
        product = protect(point, tmp_path)
        assert state_of(product, tmp_path) == ("live", 1)
    assert state_of(product, tmp_path) == ("detached", 1)
    with mounted(point, "--bind", str(tmp_path / "source")):
        assert state_of(product, tmp_path) == ("live", 1)


def test_an_overlay(tmp_path: Path) -> None:
    for name in ("lower", "upper", "work"):
        (tmp_path / "layers" / name).mkdir(parents=True)
    layers = ",".join(f"{name}dir={tmp_path / 'layers' / name}" for name in ("lower", "upper", "work"))
    point = tmp_path / "merged"
    with mounted(point, "-t", "overlay", "-o", layers, "overlay"):
        product = protect(point, tmp_path)
        shutil.rmtree(product.project)
        assert state_of(product, tmp_path) == ("orphan", 1)
    assert state_of(product, tmp_path) == ("detached", 1)


def test_a_project_that_was_deleted_and_made_again_goes_on(tmp_path: Path) -> None:
    product = protect(tmp_path / "plain", tmp_path)
    shutil.rmtree(product.project)
    assert state_of(product, tmp_path) == ("orphan", 1)
    write(product.project / "new.py", "new\n")
    assert take(product, tmp_path) == 0
    assert state_of(product, tmp_path) == ("live", 2)
