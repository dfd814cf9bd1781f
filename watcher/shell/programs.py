"""What the well-known programs do to files, by their arguments.

Pure. A program that stands in no table is taken to destroy nothing; what it does change is learned afterwards.
Words that nobody knows beforehand are nothing, and make the whole of it unknown where they may name a file.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from watcher.shell.words import Word


@dataclass(frozen=True, slots=True)
class Effects:
    """Say what a command may do to files before it is run."""

    targets: frozenset[str] = frozenset()
    """The files and directories that it may change or remove, as it names them."""
    anything: bool = False
    """Whether it may change any other one as well."""
    scripts: tuple[str, ...] = ()
    """Commands in the shell's language that it runs, to be looked at as well."""
    commands: tuple[tuple[Word, ...], ...] = ()
    """Other programs that it runs, each with its arguments, to be looked at as well."""


NOTHING = Effects()
ANYTHING = Effects(anything=True)


def find_effects_of(words: Sequence[Word]) -> Effects:
    """Return what a program does.

    Args:
        words: Its name and its arguments.
    """
    if not words:
        return NOTHING
    name, arguments = words[0], list(words[1:])
    if name is None:
        return ANYTHING
    program = os.path.basename(name)
    if program in _WRAPPERS:
        return _run(_skip_options(arguments, _WRAPPERS[program]))
    rule = _RULES.get(program)
    return rule(arguments) if rule is not None else NOTHING


def is_shell(word: Word) -> bool:
    """Tell whether a program runs commands that it reads."""
    return word is not None and os.path.basename(word) in _SHELLS


def _touch_all(paths: Sequence[Word]) -> Effects:
    known = frozenset(path for path in paths if path is not None)
    return Effects(known, anything=len(known) < len(set(paths)))


def _run(words: Sequence[Word]) -> Effects:
    """Return that another program is run, if one is named."""
    return Effects(commands=(tuple(words),)) if words else NOTHING


def _split(arguments: Sequence[Word], *with_value: str) -> tuple[list[str], list[Word]]:
    """Return the options, and what else there is; what is not known is no option.

    Args:
        arguments: All of them.
        with_value: The options that the next argument belongs to.
    """
    options: list[str] = []
    operands: list[Word] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--":
            operands += rest
            break
        if word is None or not word.startswith("-") or word == "-":
            operands.append(word)
            continue
        options.append(word)
        if word in with_value and rest:
            rest.pop(0)
    return options, operands


def _value(arguments: Sequence[Word], short: str, long: str = "") -> list[Word]:
    """Return the values of an option, in every form: `-o F`, `-oF`, `--out F`, `--out=F`."""
    found: list[Word] = []
    for word, following in pairwise((*arguments, None)):
        if word is None:
            continue
        if word in (short, long) and word:
            found.append(following)
        elif long and word.startswith(f"{long}="):
            found.append(word[len(long) + 1 :])
        elif word.startswith(short) and len(short) == 2 and not word.startswith("--") and len(word) > 2:
            found.append(word[2:])
    return found


def _has(options: Sequence[str], letter: str, *long: str) -> bool:
    """Tell whether an option is there: by its letter, alone or with others, or by its long name."""
    return any(
        (option.startswith("--") and option.split("=")[0] in long)
        or (not option.startswith("--") and letter != "" and letter in option[1:])
        for option in options
    )


def _skip_options(arguments: Sequence[Word], with_value: str) -> list[Word]:
    """Return the program that another one runs, with its arguments."""
    rest = list(arguments)
    while rest:
        word = rest[0]
        if word is None:
            return rest
        if word == "--":
            return rest[1:]
        if re.fullmatch(r"[A-Za-z_]\w*=.*", word, re.DOTALL) or re.fullmatch(r"[0-9.]+[smhd]?", word):
            rest.pop(0)
        elif word.startswith("-") and len(word) > 1:
            rest.pop(0)
            if len(word) == 2 and word[1] in with_value and rest:
                rest.pop(0)
        else:
            return rest
    return rest


def _operands(arguments: list[Word]) -> Effects:
    return _touch_all(_split(arguments)[1])


def _copy(arguments: list[Word]) -> Effects:
    """`cp`, `install`, `rsync`: what is there already under the target's name goes."""
    options, operands = _split(arguments, "-t", "-S", "-m", "-o", "-g", "-e")
    if _has(options, "", "--dry-run"):
        return NOTHING
    into = _value(arguments, "-t", "--target-directory")
    sources, target = (operands, into[0]) if into else (operands[:-1], operands[-1] if operands else None)
    if target is None:
        return ANYTHING if operands else NOTHING
    if any(source is None for source in sources):
        return Effects(frozenset({target}), anything=True)
    below = {os.path.join(target, os.path.basename(source.rstrip("/"))) for source in sources if source is not None}
    return Effects(frozenset({target} | below))


def _move(arguments: list[Word]) -> Effects:
    copied, moved = _copy(arguments), _operands(arguments)
    return Effects(copied.targets | moved.targets, anything=copied.anything or moved.anything)


def _link(arguments: list[Word]) -> Effects:
    return _copy(arguments) if _has(_split(arguments)[0], "f", "--force") else NOTHING


def _truncate(arguments: list[Word]) -> Effects:
    return _touch_all(_split(arguments, "-s", "--size", "-r", "--reference")[1])


def _dd(arguments: list[Word]) -> Effects:
    if None in arguments:
        return ANYTHING
    return _touch_all([word[3:] for word in arguments if word is not None and word.startswith("of=")])


def _edit_in_place(script_options: tuple[str, ...]) -> Callable[[list[Word]], Effects]:
    """`sed -i`, `perl -i`: every file among the operands, the first of which may be the script."""

    def rule(arguments: list[Word]) -> Effects:
        options, operands = _split(arguments, *script_options, "-f", "--file", "--expression")
        # A script follows its option directly, or is the next word; either way, letters after `e` are not options.
        letters = [option if option.startswith("--") else option.split("e")[0] for option in options]
        if not _has(letters, "i", "--in-place"):
            return NOTHING
        has_script = _has(options, "e", "--expression") or _has(options, "f", "--file")
        return _touch_all(operands if has_script else operands[1:])

    return rule


def _awk(arguments: list[Word]) -> Effects:
    is_in_place = ("-i", "inplace") in pairwise(arguments)
    return ANYTHING if is_in_place or "--include=inplace" in arguments else NOTHING


def _find(arguments: list[Word]) -> Effects:
    if "-delete" in arguments:
        return ANYTHING
    written = [arguments[at + 1] for at, word in enumerate(arguments[:-1]) if word in _FIND_WRITES]
    starts = [at + 1 for at, word in enumerate(arguments) if word in _FIND_RUNS]
    runs = [tuple(takewhile(lambda word: word not in _FIND_RUN_ENDS, arguments[start:])) for start in starts]
    return replace(_touch_all(written), commands=tuple(runs))


def _xargs(arguments: list[Word]) -> Effects:
    run = _skip_options(arguments, "IaEdLnPsJR")
    return _run([*run, None] if run else [])


def _git(arguments: list[Word]) -> Effects:
    rest = list(arguments)
    while rest and (rest[0] is None or rest[0].startswith("-")):
        option = rest.pop(0)
        if option is None:
            return ANYTHING
        if option in ("-C", "-c", "--git-dir", "--work-tree", "--namespace") and rest:
            value = rest.pop(0)
            if value is None or (option == "-c" and value.startswith("alias.")):
                return ANYTHING
    if not rest:
        return NOTHING
    verb = rest.pop(0)
    harmless = _GIT_HARMLESS_FORMS.get(verb or "", frozenset())
    if verb is None or (verb in _GIT_DESTROYS and not harmless & set(rest)):
        return ANYTHING
    return NOTHING


def _tar(arguments: list[Word]) -> Effects:
    first = next((word for word in arguments if word is not None), "")
    letters = first if not first.startswith("--") else ""
    clusters = [word for word in arguments if word is not None and word.startswith("-") and not word.startswith("--")]
    is_extracting = any("x" in cluster for cluster in [letters, *clusters]) or "--extract" in arguments
    return ANYTHING if is_extracting or "--get" in arguments or None in arguments[:1] else NOTHING


def _unless(*letters_and_names: str) -> Callable[[list[Word]], Effects]:
    """Anything may change, unless an option says that nothing is done."""

    def rule(arguments: list[Word]) -> Effects:
        options, _ = _split(arguments)
        letters = [each for each in letters_and_names if len(each) == 1]
        names = [each for each in letters_and_names if len(each) > 1]
        return NOTHING if any(_has(options, letter, *names) for letter in (*letters, "")) else ANYTHING

    return rule


def _compress(arguments: list[Word]) -> Effects:
    options, operands = _split(arguments)
    is_reading = any(_has(options, letter) for letter in "cltk") or _has(options, "", "--stdout", "--list", "--keep")
    return NOTHING if is_reading else _touch_all(operands)


def _output_to(short: str, long: str) -> Callable[[list[Word]], Effects]:
    return lambda arguments: _touch_all([path for path in _value(arguments, short, long) if path != "-"])


def _shell(arguments: list[Word]) -> Effects:
    """A shell that is given a script in its arguments. One that reads it from elsewhere is the caller's to find."""
    for at, word in enumerate(arguments):
        if word is None:
            return ANYTHING
        if word.startswith("-") and not word.startswith("--") and "c" in word:
            script = arguments[at + 1] if at + 1 < len(arguments) else ""
            return ANYTHING if script is None else Effects(scripts=(script,))
        if not word.startswith(("-", "+")):
            return NOTHING
    return NOTHING


def _eval(arguments: list[Word]) -> Effects:
    known = [word for word in arguments if word is not None]
    return ANYTHING if len(known) < len(arguments) else Effects(scripts=(" ".join(known),))


def _watch(arguments: list[Word]) -> Effects:
    """`watch`: the words after its options are given to a shell."""
    return _eval(_skip_options(arguments, "nq"))


def _env(arguments: list[Word]) -> Effects:
    """`env`: a program, or with `-S` a text that is split into one."""
    return (
        _eval(split) if (split := _value(arguments, "-S", "--split-string")) else _run(_skip_options(arguments, "uC"))
    )


def _with_script(arguments: list[Word]) -> Effects:
    """`su`, `script`, `flock`: a script after `-c`; `flock` else runs the program after its file."""
    scripts = _value(arguments, "-c", "--command")
    return _eval(scripts) if scripts else _run(_split(arguments)[1][1:])


def _trap(arguments: list[Word]) -> Effects:
    return _eval(_split(arguments)[1][:1])


_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish"})
_FIND_RUNS = ("-exec", "-execdir", "-ok", "-okdir")
_FIND_RUN_ENDS = (";", "+")
_FIND_WRITES = ("-fprint", "-fprint0", "-fprintf", "-fls")
_GIT_DESTROYS = frozenset(
    {"reset", "clean", "checkout", "restore", "switch", "stash", "rebase", "merge", "pull", "rm", "mv", "apply", "am",
     "cherry-pick", "revert", "bisect", "submodule", "worktree", "sparse-checkout", "read-tree", "checkout-index",
     "filter-branch"}
)  # fmt: skip
_GIT_HARMLESS_FORMS = {
    "stash": frozenset({"list", "show"}),
    "apply": frozenset({"--check", "--stat", "--numstat"}),
    "clean": frozenset({"-n", "--dry-run", "-nd", "-dn"}),
    "worktree": frozenset({"list"}),
    "submodule": frozenset({"status", "summary"}),
    "rm": frozenset({"--cached"}),
}

_WRAPPERS = {
    "sudo": "ugpCRThDrt", "doas": "uC", "nice": "n", "ionice": "cnp", "nohup": "", "time": "of",
    "timeout": "ks", "stdbuf": "ioe", "setsid": "", "command": "", "exec": "a", "builtin": "", "chronic": "",
    "unbuffer": "", "busybox": "", "toybox": "", "coproc": "", "strace": "eo",
    "caffeinate": "tw",
}  # fmt: skip
"""Programs that run another one, each with its options of one letter that a value follows."""

_RULES: dict[str, Callable[[list[Word]], Effects]] = {
    **dict.fromkeys(("rm", "rmdir", "unlink", "shred", "tee"), _operands),
    **dict.fromkeys(("cp", "install", "rsync", "scp"), _copy),
    **dict.fromkeys(("gzip", "gunzip", "bzip2", "bunzip2", "xz", "unxz", "zstd", "lzma"), _compress),
    **dict.fromkeys(("awk", "gawk", "mawk"), _awk),
    **dict.fromkeys(_SHELLS, _shell),
    "mv": _move,
    "ln": _link,
    "truncate": _truncate,
    "dd": _dd,
    "sed": _edit_in_place(("-e",)),
    "gsed": _edit_in_place(("-e",)),
    "perl": _edit_in_place(("-e", "-pe", "-ne")),
    "ruby": _edit_in_place(("-e", "-pe", "-ne")),
    "find": _find,
    "xargs": _xargs,
    "git": _git,
    "tar": _tar,
    "bsdtar": _tar,
    "unzip": _unless("l", "p", "t", "v", "Z"),
    "patch": _unless("--dry-run"),
    "curl": _output_to("-o", "--output"),
    "wget": _output_to("-O", "--output-document"),
    "sort": _output_to("-o", "--output"),
    **dict.fromkeys(("su", "runuser", "script", "flock"), _with_script),
    "env": _env,
    "watch": _watch,
    "eval": _eval,
    "trap": _trap,
}
