"""`doctor`: is this project protected right now, and if not, why?"""

from __future__ import annotations

import os

import click

from config.errors import CheckpointError
from config.settings import SettingsSource
from store.errors import TooBroadError
from store.files import find_free_bytes
from store.project import refuse_too_broad
from watcher.cli.terminal import Terminal
from watcher.diagnosis import Finding, Known, diagnose
from watcher.installation import AGENTS, find_file, is_hooked, is_present


@click.command("doctor")
@click.pass_obj
def command(terminal: Terminal) -> int:
    """Tell whether this project is protected right now, and if not, why and what helps; exit code 0 when it is."""
    known = _look(terminal)
    findings = diagnose(known)
    serious = next((finding.what for finding in findings if finding.is_serious), None)
    answer: dict[str, object] = {
        "workdir": known.workdir,
        "protected": serious is None,
        "why": serious,
        "findings": [{"what": each.what, "remedy": each.remedy} for each in findings],
    }
    terminal.show(answer, lambda: _render(known.workdir, findings, is_protected=serious is None))
    return 0 if serious is None else 1


def _render(workdir: str, findings: list[Finding], *, is_protected: bool) -> str:
    state = "is protected" if is_protected else "is NOT protected"
    lines = [f"{workdir} {state}."]
    for finding in findings:
        lines += [f"  {'!!' if finding.is_serious else '- '} {finding.what}", f"     {finding.remedy}"]
    return "\n".join(lines)


def _look(terminal: Terminal) -> Known:
    status = terminal.ask("status")
    listed = terminal.ask("rollback.list", workdir=terminal.directory)
    workdir, health, service = str(listed["workdir"]), listed["health"], status["service"]
    project = next((each for each in _list(status["projects"]) if each.get("workdir") == workdir), {})
    watching, skipped = project.get("watching"), project.get("skipped")
    is_scanned = isinstance(watching, dict) and watching.get("mode") == "scan"
    present = tuple(name for name, agent in AGENTS.items() if is_present(agent))
    return Known(
        workdir=workdir,
        is_in_effect=listed["enabled"] is True,
        is_git_found=status["git"] is not None,
        is_service_running=isinstance(service, dict) and service.get("running") is True,
        is_too_broad=_is_too_broad(terminal, workdir),
        state=str(project.get("state", "live")),
        state_reason=str(project.get("state_reason", "")),
        failing=str(project.get("failing") or ""),
        watching=str(watching.get("why") or "") if is_scanned and isinstance(watching, dict) else "",
        settings_problem=str(status.get("problem") or ""),
        is_space_short=_is_space_short(terminal),
        cut_off=isinstance(health, dict) and listed.get("cut_off") is not None,
        left_out_count=len(skipped) if isinstance(skipped, list) else 0,
        agents_present=present,
        agents_hooked=tuple(name for name, agent in AGENTS.items() if _is_hooked(name, terminal.directory)),
    )


def _list(value: object) -> list[dict[str, object]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _is_hooked(name: str, directory: str) -> bool:
    agent = AGENTS[name]
    return any(is_hooked(find_file(agent, place)) for place in (None, directory))


def _is_too_broad(terminal: Terminal, workdir: str) -> bool:
    try:
        refuse_too_broad(workdir, home=os.path.realpath(os.path.expanduser("~")), base=terminal.paths.base)
    except TooBroadError:
        return True
    return False


def _is_space_short(terminal: Terminal) -> bool:
    paths = terminal.paths
    settings, _ = SettingsSource(paths.config_file).current()
    place = paths.base if os.path.isdir(paths.base) else os.path.expanduser("~")
    try:
        return find_free_bytes(place) < settings.min_free_bytes
    except (CheckpointError, OSError):
        return False
