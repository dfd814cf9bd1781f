"""Where things live: the home's rules, the socket's place, and that finding them imports nothing heavy."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import config
from config.errors import UsageError
from config.paths import Paths, resolve_paths


def _resolve(environ: dict[str, str], home: str | None = None, profile: str | None = None) -> Paths:
    return resolve_paths(home=home, profile=profile, environ=environ)


def test_the_home_is_below_the_users_home_by_default(tmp_path: Path) -> None:
    assert _resolve({"HOME": str(tmp_path)}).home == str(tmp_path / ".hermes")


def test_the_environment_names_the_home(tmp_path: Path) -> None:
    assert _resolve({"HOME": "/nowhere", "HERMES_HOME": str(tmp_path)}).home == str(tmp_path)


def test_an_empty_variable_names_no_home(tmp_path: Path) -> None:
    assert _resolve({"HOME": str(tmp_path), "HERMES_HOME": ""}).home == str(tmp_path / ".hermes")


def test_an_option_goes_over_the_environment(tmp_path: Path) -> None:
    assert _resolve({"HERMES_HOME": "/nowhere"}, home=str(tmp_path)).home == str(tmp_path)


@pytest.mark.parametrize("home", ["~", "~/", "~/x/.."])
def test_a_tilde_is_the_given_users_home(tmp_path: Path, home: str) -> None:
    assert _resolve({"HOME": str(tmp_path)}, home=home).home == str(tmp_path)


def test_a_tilde_without_a_home_variable_is_expanded_as_python_does() -> None:
    assert _resolve({}, home="~/a").home == os.path.realpath(os.path.expanduser("~/a"))


def test_a_relative_home_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _resolve({}, home="here").home == str(tmp_path / "here")


def test_a_relative_home_in_a_deleted_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(UsageError, match="can't be resolved"):
        _resolve({}, home="here")


def test_links_to_a_home_are_the_home(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    real, link = (_resolve({}, home=str(tmp_path / name)) for name in ("real", "link"))
    assert link == real
    assert hash(link) == hash(real)


@pytest.mark.parametrize("home", ["", "a\0b"])
def test_a_home_that_is_no_directory_name_is_refused(home: str) -> None:
    with pytest.raises(UsageError, match="home can't be named"):
        _resolve({}, home=home)


def test_a_profile_is_a_home_below_the_home(tmp_path: Path) -> None:
    assert _resolve({}, home=str(tmp_path), profile="work").home == str(tmp_path / "profiles" / "work")


@pytest.mark.parametrize("profile", ["", ".", "..", "a/b", "/", "a\0b", "-x"])
def test_a_profile_that_is_no_plain_name_is_refused(tmp_path: Path, profile: str) -> None:
    with pytest.raises(UsageError, match="profile can't be named"):
        _resolve({}, home=str(tmp_path), profile=profile)


def test_everything_has_its_place_in_the_home() -> None:
    paths = Paths("/h", "/s")
    assert paths.config_file == "/h/config.yaml"
    assert paths.watched_file == "/h/watched.yaml"
    assert paths.lock_file == "/h/.checkpoints.lock"
    assert paths.base == "/h/checkpoints"
    assert paths.store == "/h/checkpoints/store"
    assert paths.last_prune == "/h/checkpoints/.last_prune"
    assert paths.logs_dir == "/h/logs"
    assert paths.log_file == "/h/logs/checkpoints.log"
    assert paths.socket == "/s"


def test_paths_do_not_change_and_are_equal_by_content() -> None:
    paths = Paths("/h", "/s")
    with pytest.raises(AttributeError):
        paths.home = "/other"  # type: ignore[misc]
    assert paths == Paths("/h", "/s")
    assert paths != Paths("/h", "/t")
    assert paths != "/h"
    assert repr(paths) == "Paths(home='/h', socket='/s')"


def test_finding_the_paths_creates_nothing(tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    _resolve({"TMPDIR": str(tmp_path)}, home=str(tmp_path / "new"))
    assert sorted(tmp_path.rglob("*")) == before


def _name(home: str) -> str:
    return hashlib.sha256(os.fsencode(home)).hexdigest()[:16] + ".sock"


def test_the_socket_is_in_the_users_runtime_directory() -> None:
    runtime = os.environ["XDG_RUNTIME_DIR"]
    paths = _resolve({"XDG_RUNTIME_DIR": runtime}, home="/h")
    assert paths.socket == f"{runtime}/hermes-checkpoints-{_name('/h')}"


def test_homes_have_sockets_of_their_own() -> None:
    assert _resolve({}, home="/h").socket != _resolve({}, home="/i").socket


def test_a_home_that_is_not_utf8_has_a_socket(tmp_path: Path) -> None:
    home = os.path.join(tmp_path, os.fsdecode(b"na\xe9"))
    assert _resolve({}, home=home).socket.endswith(_name(home))


@pytest.mark.parametrize("runtime", ["", "relative", "/does/not/exist", "/etc/passwd"])
def test_a_runtime_directory_that_is_none_is_passed_over(runtime: str) -> None:
    socket = _resolve({"XDG_RUNTIME_DIR": runtime}, home="/h").socket
    assert socket == f"/tmp/hermes-checkpoints-{os.getuid()}/{_name('/h')}"


@pytest.mark.skipif(os.getuid() != 0, reason="needs to give a directory away")
def test_a_runtime_directory_of_somebody_else_is_passed_over() -> None:
    runtime = os.environ["XDG_RUNTIME_DIR"]
    os.chown(runtime, 12345, -1)
    assert _resolve({"XDG_RUNTIME_DIR": runtime}, home="/h").socket.startswith("/tmp/hermes-checkpoints-")


def test_the_temporary_directory_of_the_environment_is_used() -> None:
    short = os.environ["XDG_RUNTIME_DIR"]
    assert _resolve({"TMPDIR": short}, home="/h").socket == f"{short}/hermes-checkpoints-{os.getuid()}/{_name('/h')}"


@pytest.mark.parametrize("temporary", ["relative", "/does/not/exist"])
def test_a_temporary_directory_that_is_none_is_passed_over(temporary: str) -> None:
    assert _resolve({"TMPDIR": temporary}, home="/h").socket.startswith("/tmp/")


def test_a_socket_too_long_for_its_address_goes_to_the_temporary_directory() -> None:
    short = os.environ["XDG_RUNTIME_DIR"]
    long = os.path.join(short, "d" * 60)
    os.mkdir(long)
    socket = _resolve({"XDG_RUNTIME_DIR": long, "TMPDIR": short}, home="/h").socket
    assert socket.startswith(f"{short}/hermes-checkpoints-{os.getuid()}/")
    socket = _resolve({"XDG_RUNTIME_DIR": long, "TMPDIR": long}, home="/h").socket
    assert socket.startswith(f"/tmp/hermes-checkpoints-{os.getuid()}/")


@pytest.mark.parametrize(("extra", "fits"), [(103, True), (104, False)])
def test_the_longest_address_is_103_bytes(extra: int, fits: bool) -> None:
    short = os.environ["XDG_RUNTIME_DIR"]
    runtime = os.path.join(short, "d" * (extra - len(short) - len("//hermes-checkpoints-") - len(_name("/h"))))
    os.mkdir(runtime)
    socket = _resolve({"XDG_RUNTIME_DIR": runtime}, home="/h").socket
    assert socket.startswith(runtime) == fits
    assert len(socket) <= 103


def test_finding_the_paths_imports_nothing_heavy() -> None:
    root = str(Path(config.__file__).parent.parent)
    program = (
        f"import sys; sys.path.insert(0, {root!r})\n"
        "from config.paths import resolve_paths\n"
        "resolve_paths(home='/h', profile=None, environ={})\n"
        "print(*sorted({'dataclasses', 'hashlib', 'pathlib', 'tempfile', 'typing', 'yaml'} & set(sys.modules)))\n"
    )
    run = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "\n"
