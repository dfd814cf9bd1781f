"""Read our section of the user's configuration file, and nothing else of it: the rest belongs to the agent.

Owns what YAML would silently resolve. Which keys the section may have belongs to `config.rules`.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import yaml

from config.errors import ConfigError
from config.rules import SECTION, show_key

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_FILE_BYTES = 1024 * 1024

_Loader: type[yaml.SafeLoader | yaml.CSafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The same loader in C, where PyYAML was built with it: ten times faster on a file of 1 MiB."""


def read_section(file: str, problems: list[str]) -> object:
    """Return the section of the user's file; None if there is none."""
    text = _read_text(file)
    try:
        return _parse_section(text, file, problems)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark is not None else ""
        raise ConfigError(f"{file} is not valid YAML{where}.") from error


def _read_text(file: str) -> str:
    """Return the text of the user's file; none if it is missing."""
    try:
        with open(file, "rb", opener=_open_without_waiting) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise ConfigError(f"{file} is not a regular file.")
            raw = stream.read(_MAX_FILE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise ConfigError(f"{file} can't be read: {error.strerror}.") from error
    if len(raw) > _MAX_FILE_BYTES:
        raise ConfigError(f"{file} is larger than 1 MiB, too large for settings.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{file} is not UTF-8.") from None


def _open_without_waiting(file: str, flags: int) -> int:
    """Open a file; a pipe in its place must not make us wait for a writer."""
    return os.open(file, flags | os.O_NONBLOCK)


def _parse_section(text: str, file: str, problems: list[str]) -> object:
    """Return the section as Python values. Nothing else in the file is made into values: it belongs to the agent."""
    loader = _Loader(text)
    try:
        document = loader.get_single_node()
        if document is None:
            return None
        if not isinstance(document, yaml.MappingNode):
            raise ConfigError(f"{file} must be a mapping at its top level.")
        sections = [value for key, value in document.value if key.value == SECTION]
        if len(sections) > 1:
            problems.append(f"{file}: {SECTION} is given twice.")
        if not sections:
            return None
        found = list(_find_node_problems(sections[0], SECTION, set()))
        problems.extend(f"{file}: {problem}" for problem in found)
        return None if found else loader.construct_document(sections[0])
    finally:
        loader.dispose()


def _find_node_problems(node: yaml.Node, name: str, seen: set[int]) -> Iterator[str]:
    """Yield what YAML would silently resolve: keys given twice, and aliases, by which a small file becomes huge."""
    if id(node) in seen:
        yield f"{name} must be written out; aliases can't be used here."
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        keys: set[object] = set()
        for key, value in node.value:
            child = f"{name}.{show_key(key.value)}"
            if isinstance(key, yaml.ScalarNode) and key.value in keys:
                yield f"{child} is given twice."
            keys.add(key.value if isinstance(key, yaml.ScalarNode) else id(key))
            yield from _find_node_problems(key, child, seen)
            yield from _find_node_problems(value, child, seen)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _find_node_problems(item, f"{name}[{index}]", seen)
