"""Requests without a service: the same operations, on the same functions, under the lock."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from watcher.home import Home
from watcher.operations import Operations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from config.paths import Paths


@contextmanager
def open_directly(paths: Paths) -> Iterator[Operations]:
    """Give the operations on a home, in this process."""
    home = Home(paths, user_home=os.path.expanduser("~"), follow_events=False)
    try:
        yield Operations(home, serving=False)
    finally:
        home.close()
