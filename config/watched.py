"""The opted-in projects of `watched.yaml`: from text to paths and back.

```yaml
projects:
- /home/you/code/app
- bytes: L2hvbWUveW91L2NhZuk=
```

A path that is not printable text, such as one that is not UTF-8 or holds a line break, stands as the base64 of its
bytes, since YAML holds text only. Reading and writing the file belongs to whoever keeps the list.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

import yaml

from config.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

_HEADER = """\
# The projects that hermes-checkpoints protects. Written by `hermes-checkpoints watch add|remove`.
# One absolute path each; a path that is not printable text stands as `bytes:` and the base64 of its bytes.
"""
_STRING_TAG = "tag:yaml.org,2002:str"
_UNFOLDED = 1 << 30
"""A path stays on its line, however long it is."""


def parse_watched(text: str, file: str) -> tuple[str, ...]:
    """Read the opted-in projects.

    Args:
        text: What stands in the file.
        file: The file's name, for the error.

    Returns:
        Absolute paths in the file's order; bytes that are not UTF-8 are surrogate escapes.

    Raises:
        ConfigError: The text is anything but such a list. An empty text is no list either: it may be what a full disk
            left over, and it must not read as "nothing is protected".
    """
    try:
        return _read_document(yaml.compose(text, Loader=yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError):
        problem = "it is not valid YAML"
    except _NotUnderstoodError as error:
        problem = str(error)
    raise ConfigError(
        f"{file} can't be understood: {problem}.",
        hint="Repair it, or move it away and add the projects again with `hermes-checkpoints watch add`.",
    )


def format_watched(paths: Iterable[str]) -> str:
    """Write the opted-in projects as the text of the file.

    Args:
        paths: Absolute paths; bytes that are not UTF-8 are surrogate escapes.

    Returns:
        Text that `parse_watched` reads back as the same paths, and that can be encoded as UTF-8.

    Raises:
        ValueError: A path is not absolute, or holds a NUL.
    """
    paths = tuple(paths)
    for path in paths:
        if not _is_absolute(path):
            raise ValueError(f"{path!r} is not an absolute path.")
    document = {"projects": [_format_path(path) for path in paths]}
    return _HEADER + yaml.safe_dump(document, allow_unicode=True, default_flow_style=False, width=_UNFOLDED)


class _NotUnderstoodError(Exception):
    """Say in half a sentence why a text is not a list of projects."""


def _read_document(node: yaml.Node | None) -> tuple[str, ...]:
    """Read the whole file. Nodes, not values: `- /etc: x` or an alias can't turn into something else on the way."""
    projects = _read_only_entry(node, "projects", "it must be `projects:` with a list of paths, and nothing else")
    if not isinstance(projects, yaml.SequenceNode):
        raise _NotUnderstoodError("`projects:` must be a list of paths")
    return tuple(_read_project(item) for item in projects.value)


def _read_project(node: yaml.Node) -> str:
    """Read one path, in either form."""
    wanted = f"line {node.start_mark.line + 1} must be an absolute path, or `bytes:` and the base64 of one"
    if isinstance(node, yaml.ScalarNode):
        path = _read_string(node, wanted)
    else:
        encoded = _read_string(_read_only_entry(node, "bytes", wanted), wanted)
        try:
            path = base64.b64decode(encoded, validate=True).decode("utf-8", "surrogateescape")
        except (binascii.Error, ValueError):
            raise _NotUnderstoodError(wanted) from None
    if not _is_absolute(path):
        raise _NotUnderstoodError(wanted)
    return path


def _read_only_entry(node: yaml.Node | None, key: str, wanted: str) -> yaml.Node:
    """Return the value of a mapping that has this key and no other."""
    if not isinstance(node, yaml.MappingNode) or len(node.value) != 1:
        raise _NotUnderstoodError(wanted)
    found: tuple[yaml.Node, yaml.Node] = node.value[0]
    if _read_string(found[0], wanted) != key:
        raise _NotUnderstoodError(wanted)
    return found[1]


def _read_string(node: yaml.Node, wanted: str) -> str:
    """Return the text of a node that YAML takes for text."""
    if not isinstance(node, yaml.ScalarNode) or node.tag != _STRING_TAG:
        raise _NotUnderstoodError(wanted)
    return str(node.value)


def _format_path(path: str) -> str | dict[str, str]:
    """Return the path as text if it is printable, and else its bytes."""
    # PyYAML writes some control characters so that it reads them back as others: U+0085 becomes a space.
    if path.isprintable():
        return path
    return {"bytes": base64.b64encode(path.encode("utf-8", "surrogateescape")).decode("ascii")}


def _is_absolute(path: str) -> bool:
    """Say whether this names a place wherever it is read."""
    return path.startswith("/") and "\0" not in path
