"""Is a project protected right now, and if not, why, and what helps: decided from what is known, without a look.

Pure. Finding out what is known belongs to the command `doctor`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Known:
    """Hold what is known of one project and of everything around it."""

    workdir: str
    is_in_effect: bool
    """Whether it was opted in, or checkpoints are on for all."""
    is_git_found: bool
    is_service_running: bool
    is_too_broad: bool = False
    state: str = "live"
    """Where its directory is."""
    state_reason: str = ""
    failing: str = ""
    """Why the last attempt to protect it failed; empty when it did not."""
    watching: str = ""
    """Why events are not trusted, so that everything is looked at each time; empty when they are."""
    settings_problem: str = ""
    is_space_short: bool = False
    cut_off: bool = False
    """Whether a rollback was cut off."""
    left_out_count: int = 0
    agents_present: tuple[str, ...] = ()
    """The agents found on this machine."""
    agents_hooked: tuple[str, ...] = ()
    """Those whose settings hold our hooks."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Say one thing that is not as it should be, and what helps."""

    what: str
    remedy: str
    is_serious: bool
    """Whether the project is unprotected as long as it is so."""


def diagnose(known: Known) -> list[Finding]:
    """Return what is to be said of a project, the serious things first."""
    return [*_list_serious(known), *_list_others(known)]


def _list_serious(known: Known) -> list[Finding]:
    found = []
    if known.is_too_broad:
        found.append((f"{known.workdir} is never captured: it is too broad.", "Choose one project below it."))
    if not known.is_in_effect:
        found.append(("Checkpoints are not enabled for this project.", "hermes-checkpoints watch add"))
    if not known.is_git_found:
        found.append(("git was not found on PATH.", "Install git."))
    if known.state in ("detached", "unknown"):
        found.append((f"The project is {known.state}: {known.state_reason}.", "Mount its volume."))
    if known.failing:
        found.append((f"The last checkpoint failed: {known.failing}", "hermes-checkpoints take"))
    if known.is_space_short:
        found.append(("So little disk is free that nothing is added.", "hermes-checkpoints prune"))
    return [Finding(what, remedy, is_serious=True) for what, remedy in found]


def _list_others(known: Known) -> list[Finding]:
    found = []
    if not known.is_service_running:
        what = "The service does not run: hooks do its work, and changes that none announces are not seen."
        found.append((what, "hermes-checkpoints service install"))
    if known.watching:
        found.append((f"The project is scanned at each request: {known.watching}.", "Nothing has to be done."))
    if known.settings_problem:
        found.append((f"The settings are not understood: {known.settings_problem}", "Mend config.yaml."))
    if known.cut_off:
        found.append(("A rollback was cut off.", "hermes-checkpoints rollback --resume, or --abort"))
    if known.left_out_count:
        what = f"Not captured: {known.left_out_count} files or folders."
        found.append((what, "hermes-checkpoints status names them, and why."))
    found += [
        (f"{agent} is not hooked.", f"hermes-checkpoints agent install {agent}")
        for agent in known.agents_present
        if agent not in known.agents_hooked
    ]
    return [Finding(what, remedy, is_serious=False) for what, remedy in found]
