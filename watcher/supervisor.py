"""Who keeps the service running: systemd or launchd, or nobody, and then it is started by hand.

Owns the unit's file and the commands to the manager. What stands in the file belongs to `watcher.units`.
Source: systemctl(1), launchctl(1).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from config.paths import resolve_paths
from store.errors import StoreError
from store.files import make_private_directory, write_atomically
from watcher.client import Client
from watcher.errors import ServiceUnreachable
from watcher.units import format_launchd, format_systemd, label_agent, name_service

if TYPE_CHECKING:
    from config.paths import Paths

_MANAGER_S = 60.0
_ANSWER_S = 15.0
_LOOK_AGAIN_S = 0.05
_KEPT_VARIABLES = ("PATH", "TMPDIR")
"""What the service finds git by, and its socket."""


class Supervisor(ABC):
    """Start and stop the service of one home."""

    kind: str
    """Who does it, in a word."""

    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        default = resolve_paths(home=None, profile=None, environ={**os.environ, "HERMES_HOME": ""})
        self.name = name_service(paths.home, default_home=default.home)

    @property
    @abstractmethod
    def unit_file(self) -> str | None:
        """Return the file that tells the manager of the service; nothing without a manager."""

    @abstractmethod
    def start(self) -> None:
        """Have it run.

        Raises:
            StoreError: It does not answer.
        """

    @abstractmethod
    def stop(self) -> None:
        """Have it end, and wait until it has; nothing happens when it does not run."""

    @property
    def is_installed(self) -> bool:
        """Tell whether the service is started at every login."""
        return self.unit_file is not None and os.path.exists(self.unit_file)

    def install(self) -> None:
        """Have it run now and at every login; what an older version installed is replaced."""
        self.start()

    def uninstall(self) -> None:
        """Have it end, and not start again."""
        self.stop()

    def command(self) -> list[str]:
        """Return the service's command line. Modules are not looked for in the current directory."""
        return [sys.executable, "-P", "-m", "watcher.main", "--home", self.paths.home, "serve"]

    def environment(self) -> dict[str, str]:
        """Return the variables that the service is run with."""
        return {name: value for name in _KEPT_VARIABLES if (value := os.environ.get(name))}

    def wait_until_it_answers(self) -> None:
        """Wait for the service's first answer.

        Raises:
            StoreError: There was none in time.
        """
        until = time.monotonic() + _ANSWER_S
        while not is_answering(self.paths):
            if time.monotonic() > until:
                raise StoreError("The service was started and does not answer.", hint=f"See {self.paths.log_file}")
            time.sleep(_LOOK_AGAIN_S)


def find_supervisor(paths: Paths) -> Supervisor:
    """Return who keeps the service of a home running on this machine."""
    if sys.platform == "darwin" and shutil.which("launchctl"):
        return Launchd(paths)
    if shutil.which("systemctl") and _ask("systemctl", "--user", "show-environment").returncode == 0:
        return Systemd(paths)
    return ByHand(paths)


def is_answering(paths: Paths) -> bool:
    """Tell whether the service of a home answers."""
    try:
        with Client(paths.socket, timeout_s=_ANSWER_S) as client:
            client.call("ping")
    except ServiceUnreachable:
        return False
    return True


class Systemd(Supervisor):
    """A systemd user unit."""

    kind = "systemd"

    @property
    def unit_file(self) -> str:
        """Return the unit's file."""
        base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
        return os.path.join(base, "systemd", "user", f"{self.name}.service")

    def install(self) -> None:
        """Write the unit, and have it started now and at every login."""
        _write(self.unit_file, format_systemd(self.command(), self.environment()))
        _order("systemctl", "--user", "daemon-reload")
        _order("systemctl", "--user", "enable", f"{self.name}.service")
        self.stop()
        self.start()

    def uninstall(self) -> None:
        """Stop it, and remove the unit."""
        if self.is_installed:
            _order("systemctl", "--user", "disable", "--now", f"{self.name}.service")
            os.unlink(self.unit_file)
            _order("systemctl", "--user", "daemon-reload")
        _stop_answering(self.paths)

    def start(self) -> None:
        """Start the unit; without one, the service alone."""
        if not self.is_installed:
            _start_alone(self)
            return
        _stop_answering(self.paths)  # one that was started by hand holds the home
        _order("systemctl", "--user", "start", f"{self.name}.service")
        self.wait_until_it_answers()

    def stop(self) -> None:
        """Stop the unit, and a service that was started by hand."""
        if self.is_installed:
            _order("systemctl", "--user", "stop", f"{self.name}.service")
        _stop_answering(self.paths)


class Launchd(Supervisor):
    """A launchd agent of the user."""

    kind = "launchd"

    @property
    def unit_file(self) -> str:
        """Return the agent's property list."""
        return os.path.expanduser(f"~/Library/LaunchAgents/{label_agent(self.name)}.plist")

    @property
    def _target(self) -> str:
        return f"gui/{os.getuid()}/{label_agent(self.name)}"

    def install(self) -> None:
        """Write the property list, and load it."""
        self.stop()
        _write(self.unit_file, format_launchd(label_agent(self.name), self.command(), self.environment()))
        self.start()

    def uninstall(self) -> None:
        """Unload it, and remove the property list."""
        self.stop()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.unit_file)

    def start(self) -> None:
        """Load the agent; without one, start the service alone."""
        if not self.is_installed:
            _start_alone(self)
            return
        _stop_answering(self.paths)
        _order("launchctl", "bootstrap", f"gui/{os.getuid()}", self.unit_file)
        self.wait_until_it_answers()

    def stop(self) -> None:
        """Unload the agent, and stop a service that was started by hand."""
        if self.is_installed:
            _ask("launchctl", "bootout", self._target)
        _stop_answering(self.paths)


class ByHand(Supervisor):
    """Nobody: in containers and where no manager runs. The service is a process of its own until it is stopped."""

    kind = "none"

    @property
    def unit_file(self) -> None:
        """Return nothing: there is no manager."""
        return

    def start(self) -> None:
        """Start the service alone."""
        _start_alone(self)

    def stop(self) -> None:
        """Stop it."""
        _stop_answering(self.paths)


def _start_alone(supervisor: Supervisor) -> None:
    """Start the service apart from this process and its terminal."""
    if is_answering(supervisor.paths):
        return
    process = subprocess.Popen(
        supervisor.command(),
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    process.returncode = 0  # it lives on when this process is gone, so nobody waits for it
    supervisor.wait_until_it_answers()


def _stop_answering(paths: Paths) -> None:
    """Ask the service to end, and wait until it has."""
    try:
        with Client(paths.socket, timeout_s=_ANSWER_S) as client:
            client.call("shutdown")
    except ServiceUnreachable:
        return
    until = time.monotonic() + _MANAGER_S
    while is_answering(paths):
        if time.monotonic() > until:
            raise StoreError("The service does not end.", hint=f"See {paths.log_file}")
        time.sleep(_LOOK_AGAIN_S)


def _write(path: str, text: str) -> None:
    make_private_directory(os.path.dirname(path))
    write_atomically(path, text.encode())


def _order(*command: str) -> None:
    """Tell the manager something.

    Raises:
        StoreError: It did not do it.
    """
    done = _ask(*command)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise StoreError(f"{' '.join(command)} failed{f': {said[-1]}' if said else '.'}")


def _ask(*command: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False, timeout=_MANAGER_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StoreError(f"{command[0]} can't be used: {error}") from error
