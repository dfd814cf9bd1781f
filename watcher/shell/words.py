"""The words of a shell command as the shell would pass them on: quotes and escapes gone.

A word is nothing where it can't be known before the command runs: it has a variable, a substitution or a pattern.
"""

from __future__ import annotations

import ast
import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tree_sitter import Node

Word = str | None

_ESCAPED = re.compile(r"\\(\n|.)", re.DOTALL)
_ESCAPED_IN_QUOTES = re.compile(r'\\([$`"\\\n])')
_UNESCAPED_MAGIC = re.compile(r"(?<!\\)(?:\\\\)*[*?\[{}]")
_BRACES = re.compile(r"\{.*(?:,|\.\.).*\}", re.DOTALL)


def read_word(node: Node) -> Word:
    """Return the word that a node of the tree is; nothing when it is not known before the command runs."""
    if node.type == "command_name" and node.named_child_count == 1:
        return read_word(node.named_children[0])
    text = os.fsdecode(node.text or b"")
    read = _READERS.get(node.type)
    return read(node, text) if read is not None else None


def _read_bare(text: str) -> Word:
    if text.startswith("~") or _UNESCAPED_MAGIC.search(text):
        return None
    return _unescape(_ESCAPED, text)


def _read_string(node: Node, text: str) -> Word:
    """Return what stands between double quotes, unless part of it is put in later."""
    if any(child.type not in ("string_content", "string") for child in node.named_children):
        return None
    return _unescape(_ESCAPED_IN_QUOTES, text.removeprefix("$")[1:-1])


def _unescape(escaped: re.Pattern[str], text: str) -> str:
    return escaped.sub(lambda found: "" if found[1] == "\n" else found[1], text)


def _read_ansi(text: str) -> Word:
    r"""Return what `$'…'` means; its escapes are Python's but for a few, of which nothing is known here."""
    inner = text[2:-1]
    if re.search(r"\\[cueE?]", inner):
        return None
    try:
        read = ast.literal_eval('"' + inner.replace('"', r"\"").replace("\n", r"\n") + '"')
    except (ValueError, SyntaxError):
        return None
    return read if isinstance(read, str) else None


def _join(node: Node, text: str) -> Word:
    if _BRACES.search(text):
        return None
    parts = [read_word(child) for child in node.named_children]
    known = [part for part in parts if part is not None]
    return "".join(known) if len(known) == len(parts) else None


_READERS: dict[str, Callable[[Node, str], Word]] = {
    "word": lambda _, text: _read_bare(text),
    "number": lambda _, text: _read_bare(text),
    "variable_name": lambda _, text: _read_bare(text),
    "raw_string": lambda _, text: text[1:-1],
    "ansi_c_string": lambda _, text: _read_ansi(text),
    "string": _read_string,
    "translated_string": _read_string,
    "concatenation": _join,
}
"""How a node of each kind is read, with its text."""
