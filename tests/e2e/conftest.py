"""The product on a project, once with the service and once without: the same steps, the same answers."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from tests.support.steps import Product, serving
from tests.support.workdir import fingerprint_git, make_project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(params=["service", "direct"])
def product(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Product]:
    """Give an opted-in project; afterwards its own `.git` is what it was."""
    project = make_project(tmp_path / "project")
    before = fingerprint_git(project)
    product = Product(project)
    with serving(product) if request.param == "service" else nullcontext():
        assert product.run("watch", "add").code == 0
        yield product
    assert fingerprint_git(project) == before, "the project's own repository was touched"
