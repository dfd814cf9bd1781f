"""`service …`: installed with systemd, or started by hand where there is none."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.support.steps import Product
from tests.support.workdir import make_project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FAKE = """#!/bin/sh
# Stands for systemctl: writes down what it is told, and starts what the unit says.
echo "$*" >> "{log}"
case "$2" in
  start) setsid sh -c "exec $(sed -n 's/^ExecStart=//p' "{units}/$3")" > /dev/null 2>&1 < /dev/null & ;;
esac
"""


@pytest.fixture(params=["systemd", "by hand"])
def product(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Product]:
    units, log = tmp_path / "config" / "systemd" / "user", tmp_path / "systemctl.log"
    log.touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    bin_directory = tmp_path / "bin"
    bin_directory.mkdir()
    fake = bin_directory / "systemctl"
    fake.write_text(_FAKE.format(log=log, units=units) if request.param == "systemd" else "#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_directory}:{os.environ['PATH']}")
    product = Product(make_project(tmp_path / "project"))
    yield product
    product.run("service", "stop")


def told(tmp_path: Path) -> list[str]:
    return (tmp_path / "systemctl.log").read_text().splitlines()


def unit_files(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "config").rglob("*.service"))


def test_it_is_installed_runs_and_is_uninstalled(product: Product, tmp_path: Path) -> None:
    done = product.run("--json", "service", "install")
    assert done.json["running"], done
    is_installed = done.json["kind"] == "systemd"
    assert done.json["installed"] == is_installed
    assert product.run("ping").code == 0
    assert len(unit_files(tmp_path)) == is_installed
    assert product.run("service", "status").code == 0
    again = product.run("--json", "service", "install")
    assert again.json["running"]
    assert len(unit_files(tmp_path)) == is_installed
    assert product.run("service", "uninstall").code == 0
    assert product.run("ping").code == 1
    assert product.run("service", "status").code == 1
    assert not unit_files(tmp_path)
    if is_installed:
        calls = [line.removeprefix("--user ").split()[0] for line in told(tmp_path)]
        assert calls.index("daemon-reload") < calls.index("enable") < calls.index("start") < calls.index("disable")


def test_it_is_stopped_and_started_and_tells_what_it_did(product: Product) -> None:
    assert product.run("service", "logs").code == 1
    for words in (["start"], ["start"], ["restart"]):
        assert product.run("service", *words).code == 0
        assert product.run("ping").code == 0
    shown = product.run("service", "logs", "-n", "2").out.splitlines()
    assert len(shown) == 2
    assert "serving" in product.run("service", "logs").out
    assert product.run("service", "stop").code == 0
    assert product.run("service", "stop").code == 0
    assert product.run("ping").code == 1


def test_a_project_is_protected_after_a_restart_of_the_service(product: Product) -> None:
    product.run("service", "start")
    product.run("watch", "add")
    product.run("service", "restart")
    product.agent_writes("a.py", "by the agent\n", turn="t1")
    assert product.run("rollback", "1").code == 0
    assert (product.project / "a.py").read_text() == "one\n"
