"""What service managers are told."""

from __future__ import annotations

import plistlib
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from config.errors import UsageError
from watcher.units import format_launchd, format_systemd, label_agent, name_service

if TYPE_CHECKING:
    from pathlib import Path

_ODD = ["/usr/bin/python3", "-P", "--home", "/tmp/a b/50% \"x\" '$HOME' <&>\\n", "serve"]


def test_each_home_has_its_own_name() -> None:
    assert name_service("/h/.hermes", default_home="/h/.hermes") == "hermes-checkpoints"
    other = name_service("/other", default_home="/h/.hermes")
    assert other.startswith("hermes-checkpoints-")
    assert other != name_service("/another", default_home="/h/.hermes")
    assert label_agent(other) == f"local.{other}"


def test_a_property_list_gives_every_word_back() -> None:
    read = plistlib.loads(format_launchd("local.x", _ODD, {"PATH": "/a & b"}).encode())
    assert read["ProgramArguments"] == _ODD
    assert read["EnvironmentVariables"] == {"PATH": "/a & b"}
    assert read["KeepAlive"] == {"SuccessfulExit": False}


def test_in_a_unit_nothing_has_a_meaning_of_its_own() -> None:
    unit = format_systemd(_ODD, {"PATH": "/a b:$c%"})
    assert 'ExecStart="/usr/bin/python3" "-P" "--home" ' in unit
    assert '"/tmp/a b/50%% \\"x\\" \'$$HOME\' <&>\\\\n"' in unit
    assert 'Environment="PATH=/a b:$c%%"\n' in unit
    assert "Restart=on-failure\n" in unit


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_finds_no_fault_in_the_unit(tmp_path: Path) -> None:
    path = tmp_path / "hermes-checkpoints.service"
    path.write_text(format_systemd(["/bin/sh", *_ODD[1:]], {"PATH": "/usr/bin:/bin"}))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)], capture_output=True, text=True, check=False
    )
    assert str(path.name) not in done.stderr, done.stderr


@pytest.mark.parametrize("word", ["a\nExecStart=/bin/evil", "nul\0", "\udcff"])
def test_what_can_not_be_written_in_one_line_is_refused(word: str) -> None:
    with pytest.raises(UsageError):
        format_systemd(["/bin/sh", word], {})
    with pytest.raises(UsageError):
        format_launchd("x", ["/bin/sh", word], {})
