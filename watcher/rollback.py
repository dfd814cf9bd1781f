"""The `/rollback` grammar, and its text: one for every surface.

Owns what may be typed after `/rollback` and what people read. The work is done by `watcher.operations`, from and to
JSON.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from config.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

USAGE = "Usage: /rollback [list] | diff <N> | <N> [--all] | <N> <file>… | --resume | --abort"
_OPTIONS = frozenset({"--all", "--force", "--dry-run", "--resume", "--abort"})
_NAMED_FILES = 5
_NAMED_TO_AGENT = 50

ENABLE_TEXT = """\
Checkpoints are not enabled.
Enable with: hermes-checkpoints watch add
Or in config.yaml: checkpoints: { enabled: true }"""

_FOOTER = """\
  /rollback <N>             restore to checkpoint N (keeps your hand-edits)
  /rollback <N> --all       full restore, overwriting your hand-edits too
  /rollback diff <N>        preview changes since checkpoint N
  /rollback <N> <file>      restore a single file from checkpoint N"""


@dataclass(frozen=True, slots=True)
class ListRequest:
    """Ask for the list of checkpoints."""


@dataclass(frozen=True, slots=True)
class DiffRequest:
    """Ask what changed since a checkpoint."""

    checkpoint: str


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """Ask to put back a checkpoint, or some of its paths."""

    checkpoint: str
    paths: tuple[str, ...] = ()
    everything: bool = False
    """Hand edits too."""
    dry_run: bool = False
    session: str | None = None
    """Only what this session wrote."""


@dataclass(frozen=True, slots=True)
class SettleRequest:
    """Ask to finish a rollback that was cut off, or to take it back."""

    action: str
    """`resume` or `abort`."""


Request = ListRequest | DiffRequest | RestoreRequest | SettleRequest


def parse_rollback(words: Sequence[str]) -> Request:
    """Return what the words after `/rollback` ask for.

    Options may stand anywhere before `--`; what follows it is files, whatever it looks like.

    Raises:
        UsageError: They make no sense.
    """
    options, rest, session = _split_options(words)
    if settling := options & {"--resume", "--abort"}:
        if len(options) > 1 or rest or session is not None:
            raise UsageError(f"{min(settling)} stands alone. {USAGE}")
        return SettleRequest(min(settling)[2:])
    if session is not None and (not rest or rest[0] in ("list", "diff")):
        raise UsageError(f"--session goes with a checkpoint to restore. {USAGE}")
    if not rest or rest == ["list"]:
        _refuse_options(options)
        return ListRequest()
    first, *others = rest
    if first == "diff":
        _refuse_options(options)
        if len(others) != 1:
            raise UsageError("Usage: /rollback diff <N>")
        return DiffRequest(others[0])
    everything = bool(options & {"--all", "--force"})
    if session is not None and (everything or others):
        raise UsageError("--session takes back what one session wrote; it goes neither with --all nor with files.")
    if everything and others:
        raise UsageError("--all restores the whole checkpoint; name files or give --all, not both.")
    return RestoreRequest(first, tuple(others), everything, "--dry-run" in options, session)


def parse_chat(line: str) -> Request:
    """Return what a chat line such as `/rollback 2 "my file"` asks for; quoting is as in a shell.

    Raises:
        UsageError: It is no such line.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"The quoting is not complete: {error}.") from error
    if words == ["/diff", "session"]:
        return DiffRequest("session")
    if not words or words[0] != "/rollback":
        raise UsageError(USAGE)
    return parse_rollback(words[1:])


def _split_options(words: Sequence[str]) -> tuple[set[str], list[str], str | None]:
    """Return the options, the other words, and the session, if one is named."""
    options: set[str] = set()
    rest: list[str] = []
    session: str | None = None
    given = iter(words)
    for word in given:
        if word == "--":
            rest += given
        elif word == "--session" or word.startswith("--session="):
            session = word.partition("=")[2] if "=" in word else next(given, "")
            if not session:
                raise UsageError("--session needs the session's name.")
        elif word in _OPTIONS:
            options.add(word)
        else:
            rest.append(word)
    return options, rest, session


def _refuse_options(options: set[str]) -> None:
    if options:
        raise UsageError(f"{min(options)} goes with a checkpoint to restore. {USAGE}")


def render_list(listed: Mapping[str, object]) -> str:
    """Return the list of checkpoints for people, in their own time zone."""
    checkpoints = listed["checkpoints"]
    assert isinstance(checkpoints, list)  # noqa: S101 - our own JSON
    workdir = printable(str(listed["workdir"]))
    if not checkpoints:
        if not listed["enabled"]:
            return ENABLE_TEXT
        elsewhere = listed.get("elsewhere")
        lines = [f"No checkpoints found for {workdir}"]
        if isinstance(elsewhere, list) and elsewhere:
            lines += ["There are some for:", *(f"  {printable(str(other))}" for other in elsewhere)]
        return "\n".join(lines)
    rows = [_render_row(checkpoint) for checkpoint in checkpoints]
    left_out = name_left_out(checkpoints[0].get("skipped"))
    notes = ["", f"  ↷ Not in the newest checkpoint: {left_out}"] if left_out else []
    notes += _render_cut_off(listed.get("cut_off")) + _render_health(listed.get("health"))
    return "\n".join([f"📸 Checkpoints for {workdir}:", "", *rows, "", _FOOTER, *notes])


def name_left_out(skipped: object) -> str:
    """Return what a checkpoint left out and why, shortened; empty when it left nothing out."""
    if not isinstance(skipped, list):
        return ""
    named = [f"{printable(str(each['path']))} ({each['reason']})" for each in skipped if isinstance(each, dict)]
    return _shorten(named)


def _render_row(checkpoint: Mapping[str, object]) -> str:
    when = datetime.fromisoformat(str(checkpoint["timestamp"])).astimezone().strftime("%Y-%m-%d %H:%M")
    count = checkpoint["files_changed"]
    counted = ""
    if count:
        files = "1 file" if count == 1 else f"{count} files"
        counted = f"  ({files}, +{checkpoint['insertions']}/-{checkpoint['deletions']})"
    message = printable(str(checkpoint["message"]))
    return f"  {checkpoint['number']}. {checkpoint['short_hash']}  {when}  {message}{counted}"


def _render_cut_off(cut_off: object) -> list[str]:
    """Return what the list says of a rollback that was cut off."""
    if not isinstance(cut_off, dict):
        return []
    what = f"A rollback to {cut_off['restoring_to']} was cut off" if "restoring_to" in cut_off else cut_off["error"]
    return ["", f"  ⚠️ {what}.", "     /rollback --resume finishes it, /rollback --abort takes it back"]


def describe_to_agent(done: Mapping[str, object], workdir: str) -> str:
    """Return what an agent is told after a rollback of files that it may remember otherwise.

    Args:
        done: The JSON of the rollback.
        workdir: The project.
    """
    restored, removed = _names(done, "restored_files"), _names(done, "deleted_files")
    parts = [f"The user rolled back files in {printable(workdir)} to an earlier state."]
    if restored:
        parts.append(f"Put back: {_shorten(restored, _NAMED_TO_AGENT)}.")
    if removed:
        parts.append(f"Removed: {_shorten(removed, _NAMED_TO_AGENT)}.")
    parts.append("What you remember of these files is out of date: read them again before you change them.")
    return " ".join(parts)


def _render_health(health: object) -> list[str]:
    """Return what the list says of a project that is not protected right now."""
    if not isinstance(health, dict) or health.get("protected") or not health.get("why"):
        return []
    return ["", f"  ⚠️ Not protected right now: {printable(str(health['why']))}"]


def render_restore(done: Mapping[str, object], paths: Sequence[str]) -> str:
    """Return what a rollback did, or would do, for people.

    Args:
        done: The JSON of the rollback.
        paths: The files that were asked for; none for a whole checkpoint.
    """
    reason = printable(str(done["message"]))
    restored, removed = _names(done, "restored_files"), _names(done, "deleted_files")
    lines = []
    if done["dry_run"]:
        lines += [f"Would restore to checkpoint {done['restored_to']}: {reason}"]
        lines += [f"  put back  {name}" for name in restored] + [f"  remove    {name}" for name in removed]
    elif not done["success"]:
        lines.append(f"❌ {printable(str(done['error']))}")
    elif paths:
        named = _shorten([printable(path) for path in paths])
        lines.append(f"✅ Restored {named} from checkpoint {done['restored_to']}: {reason}")
    else:
        lines.append(f"✅ Restored to checkpoint {done['restored_to']}: {reason}")
    if not restored and not removed and done["success"]:
        lines.append("Nothing had to change.")
    if done["mode"] == "everything-recorded":
        lines.append("No agent's write was ever recorded here: every captured file was put back, and nothing removed.")
    lines += _render_rest(done)
    return "\n".join(lines)


def _render_rest(done: Mapping[str, object]) -> list[str]:
    """Return the lines about what stayed as it was."""
    lines = []
    if kept := _names(done, "skipped_user_edits"):
        lines += [f"↷ Kept your hand-edits: {_shorten(kept)}", "Use /rollback <N> --all to restore those too."]
    if large := _names(done, "skipped_oversize"):
        lines.append(f"↷ Kept (too large for checkpoints, no stored copy to revert to): {_shorten(large)}")
    left = done["left_in_place"]
    if isinstance(left, list):
        lines += [f"⚠️ Left in place: {printable(each['path'])} ({each['reason']})" for each in left]
    return lines


def _names(done: Mapping[str, object], field: str) -> list[str]:
    names = done[field]
    return [printable(str(name)) for name in names] if isinstance(names, list) else []


def _shorten(names: Sequence[str], count: int = _NAMED_FILES) -> str:
    """Return the first names, and how many more there are."""
    more = f" (+{len(names) - count})" if len(names) > count else ""
    return ", ".join(names[:count]) + more


def render_diff(diff: Mapping[str, object]) -> str:
    """Return a comparison for people: the summary, then the patch."""
    if diff["empty"]:
        return "  No changes since this checkpoint."
    beside = diff["beside"]
    assert isinstance(beside, list)  # noqa: S101 - our own JSON
    told = "".join(f" {_tell_beside(each)}\n" for each in beside)
    return f"{diff['stat']}{told}\n{diff['diff']}".rstrip("\n")


def _tell_beside(change: Mapping[str, object]) -> str:
    """Return a line on what a patch has no place for."""
    path, old, new = printable(str(change["path"])), change["old"], change["new"]
    if old is None or new is None:
        return f"create {new} {path}" if old is None else f"remove {old} {path}"
    return f"change {old} => {new} {path}"


def printable(text: str) -> str:
    """Return a name with control characters and broken bytes escaped, so that no name writes to the terminal."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape", "surrogatepass").decode()
        for character in text
    )
