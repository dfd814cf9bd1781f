"""How far long work is: the form in which it is told, from the reading of files to the terminal."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Called now and then with how many of how many files are read."""
