"""The arguments of a request, as they come in JSON: checked, and in the form that operations take."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from config.errors import UsageError
from store.files import to_path
from store.layout import ProjectHash

if TYPE_CHECKING:
    from collections.abc import Mapping

_MANY = 1e12


def parse_payload(text: str) -> Mapping[str, object]:
    """Return the JSON object that an agent sent.

    Raises:
        UsageError: It is not one.
    """
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError("The hook's payload is not JSON.") from error
    if not isinstance(payload, dict):
        raise UsageError("The hook's payload is not a JSON object.")
    return payload


def read_text(arguments: Mapping[str, object], name: str, *, default: str | None = None) -> str:
    """Return an argument that is text.

    Raises:
        UsageError: It is missing, or not that.
    """
    value = arguments.get(name, default)
    if not isinstance(value, str):
        raise UsageError(f"`{name}` must be given, as text.")
    return value


def read_number(arguments: Mapping[str, object], name: str, *, default: float) -> float:
    """Return an argument that is a number, 0 or more.

    Raises:
        UsageError: It is missing, or not that.
    """
    value = arguments.get(name)
    if value is None:
        return default
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < _MANY:
        raise UsageError(f"`{name}` must be a number, 0 or more.")
    return value


def read_hashes(arguments: Mapping[str, object], name: str) -> frozenset[ProjectHash]:
    """Return an argument that is a list of projects' hashes.

    Raises:
        UsageError: It is missing, or not that.
    """
    value = arguments.get(name) or []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise UsageError(f"`{name}` must be a list of projects' hashes.")
    return frozenset(ProjectHash(each) for each in value)


def read_path(arguments: Mapping[str, object], name: str, *, default: str | None = None) -> str:
    """Return an argument that names a file.

    Raises:
        UsageError: It is missing, or not that.
    """
    value = read_text(arguments, name, default=default)
    if value and to_path(value) is None:
        raise UsageError(f"`{name}` is {value!a}, which no file can be named.")
    return value
