"""Which files a shell command may change, or that it may change any.

Owns the walk over the parsed command: lists, pipes, subshells, redirections, and the scripts that commands are given.
What a single program does belongs to `watcher.shell.programs`. A command that can't be parsed may change anything.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import tree_sitter_bash
from tree_sitter import Language, Parser

from watcher.shell.programs import find_effects_of, is_shell
from watcher.shell.words import read_word

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tree_sitter import Node

    from watcher.shell.words import Word

_LONGEST = 256 * 1024
"""Bytes of a command that is still looked at."""
_DEEPEST = 200
"""Levels of a command's tree, and of scripts within scripts, that are still looked at."""
_NO_FILES = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/fd/", "/proc/self/fd/")
_WRITES = frozenset({">", ">>", ">|", "&>", "&>>", ">&", "<>"})
_CHANGES_DIRECTORY = ("cd", "pushd", "popd")
_BRANCHES = frozenset({"if_statement", "while_statement", "for_statement", "c_style_for_statement", "case_statement",
                       "function_definition"})  # fmt: skip


@dataclass(frozen=True, slots=True)
class CommandEffects:
    """Say what a command line may do to files before it runs."""

    paths: frozenset[str]
    """Absolute: what it may change or remove."""
    anything: bool
    """Whether it may change any other file as well."""


def find_effects(command: str, cwd: str) -> CommandEffects:
    """Return what a command in the shell's language may change.

    Args:
        command: Its text.
        cwd: Where it runs, absolute.
    """
    found = _Found()
    try:
        _look_at_script(command, _Place(cwd), found, depth=0)
    except _TooMuchError:
        found.anything = True
    return CommandEffects(frozenset(found.paths), found.anything)


class _TooMuchError(Exception):
    """The command is too long, too deep, or no shell would understand it."""


@dataclass(slots=True)
class _Place:
    """Hold where a command runs, as far as that is known."""

    cwd: str | None


@dataclass(slots=True)
class _Found:
    """Gather what a command may change."""

    paths: set[str] = field(default_factory=set)
    anything: bool = False

    def add(self, path: Word, place: _Place) -> None:
        if path is None or (place.cwd is None and not path.startswith("/")):
            self.anything = True
        elif path and not path.startswith(_NO_FILES):
            self.paths.add(os.path.normpath(os.path.join(place.cwd or "/", path)))


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))


def _look_at_script(script: str, place: _Place, found: _Found, *, depth: int) -> None:
    try:
        raw = os.fsencode(script)
    except UnicodeEncodeError as error:
        raise _TooMuchError from error
    if len(raw) > _LONGEST:
        raise _TooMuchError
    root = _parser().parse(raw).root_node
    if root.has_error:
        raise _TooMuchError
    _walk(root, place, found, depth)


def _walk(node: Node, place: _Place, found: _Found, depth: int) -> None:
    """Look at a part of a command, in the order in which it runs."""
    if depth > _DEEPEST:
        raise _TooMuchError
    if node.type == "command":
        _look_at_command(node, (), place, found, depth)
    elif node.type == "redirected_statement":
        _look_at_redirected(node, place, found, depth)
    elif node.type == "file_redirect":
        _look_at_redirect(node, place, found, depth)
    elif node.type == "pipeline":
        _look_at_pipeline(node, place, found, depth)
    elif node.type in ("subshell", "command_substitution", "process_substitution"):
        _walk_children(node, _Place(place.cwd), found, depth)
    elif node.type in _BRANCHES or _is_choice(node):
        inner = _Place(place.cwd)
        _walk_children(node, inner, found, depth)
        if inner.cwd != place.cwd:
            place.cwd = None
    else:
        _walk_children(node, place, found, depth)


def _walk_children(node: Node, place: _Place, found: _Found, depth: int) -> None:
    for child in node.named_children:
        _walk(child, place, found, depth + 1)


def _is_choice(node: Node) -> bool:
    return node.type == "list" and any(child.type == "||" for child in node.children)


def _look_at_redirected(node: Node, place: _Place, found: _Found, depth: int) -> None:
    redirects = node.children_by_field_name("redirect")
    body = node.child_by_field_name("body")
    if body is not None and body.type == "command":
        _look_at_command(body, redirects, place, found, depth)
    elif body is not None:
        _walk(body, place, found, depth + 1)
    for redirect in redirects:
        _walk(redirect, place, found, depth + 1)


def _look_at_redirect(node: Node, place: _Place, found: _Found, depth: int) -> None:
    operator = next((child.type for child in node.children if child.type in _WRITES), None)
    destination = node.child_by_field_name("destination")
    if destination is None:
        return
    _walk_children(node, place, found, depth)
    is_descriptor = operator == ">&" and destination.type == "number"
    if operator is not None and not is_descriptor and destination.type != "process_substitution":
        found.add(read_word(destination), place)


def _look_at_pipeline(node: Node, place: _Place, found: _Found, depth: int) -> None:
    """Look at each command of a pipe; a shell that reads its script from one may do anything."""
    for number, child in enumerate(node.named_children):
        command = child.child_by_field_name("body") if child.type == "redirected_statement" else child
        if number and command is not None and command.type == "command" and _reads_script(_read_words(command)):
            found.anything = True
        _walk(child, _Place(place.cwd), found, depth + 1)


def _look_at_command(node: Node, redirects: Sequence[Node], place: _Place, found: _Found, depth: int) -> None:
    words = _read_words(node)
    for child in node.named_children:
        _walk_children(child, _Place(place.cwd), found, depth + 1)
    _look_at_words(words, place, found, depth + 1)
    inner = next((redirect for redirect in (*redirects, *node.children_by_field_name("redirect"))
                  if redirect.type in ("heredoc_redirect", "herestring_redirect")), None)  # fmt: skip
    if inner is not None and _reads_script(words):
        script = _read_here(inner)
        if script is None:
            found.anything = True
        else:
            _look_at_script(script, _Place(place.cwd), found, depth=depth + 1)


def _look_at_words(words: Sequence[Word], place: _Place, found: _Found, depth: int) -> None:
    if depth > _DEEPEST:
        raise _TooMuchError
    if words and words[0] in _CHANGES_DIRECTORY:
        to = next((word for word in words[1:] if word is None or not word.startswith("-")), None)
        known = words[0] != "popd" and to is not None and place.cwd is not None
        place.cwd = os.path.join(place.cwd or "/", to or "") if known else None
        return
    effects = find_effects_of(words)
    found.anything |= effects.anything
    for path in effects.targets:
        found.add(path, place)
    for command in effects.commands:
        _look_at_words(command, place, found, depth + 1)
    for script in effects.scripts:
        _look_at_script(script, _Place(place.cwd), found, depth=depth + 1)


def _read_words(node: Node) -> list[Word]:
    name = node.child_by_field_name("name")
    arguments = node.children_by_field_name("argument")
    return [read_word(each) for each in ([name, *arguments] if name is not None else [])]


def _reads_script(words: Sequence[Word]) -> bool:
    """Tell whether a command is a shell, maybe run by another program, without a script in its arguments."""
    effects = find_effects_of(words)
    if effects.commands:
        return any(_reads_script(command) for command in effects.commands)
    if not words or not is_shell(words[0]) or effects.scripts:
        return False
    return all(word is not None and word.startswith(("-", "+")) for word in words[1:])


def _read_here(node: Node) -> Word:
    """Return the text that a command is given on its standard input; nothing when part of it is put in later."""
    if node.type == "herestring_redirect":
        return read_word(node.named_children[0]) if node.named_child_count else None
    body = next((child for child in node.named_children if child.type == "heredoc_body"), None)
    if body is None:
        return ""
    if any(child.type != "heredoc_content" for child in body.named_children):
        return None
    return os.fsdecode(body.text or b"")
