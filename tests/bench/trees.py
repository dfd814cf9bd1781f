"""Trees to measure on."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_FILES_IN_A_FOLDER = 10
_FOLDERS_IN_A_FOLDER = 20


def make_tree(
    root: Path, file_count: int, *, mean_bytes: int = 4096, in_a_folder: int = _FILES_IN_A_FOLDER
) -> list[Path]:
    """Make a tree of text files and return them in order.

    Args:
        root: Where; it must not exist.
        file_count: How many files.
        mean_bytes: The mean size of one.
        in_a_folder: How many of them stand in one folder.
    """
    source = random.Random(1)
    words = ["".join(source.choices("abcdefghijklmnopqrstuvwxyz_", k=source.randint(2, 9))) for _ in range(4000)]
    files = []
    for number in range(file_count):
        folder = number // in_a_folder
        place = root / f"a{folder // _FOLDERS_IN_A_FOLDER**2}" / f"b{folder // _FOLDERS_IN_A_FOLDER}" / f"c{folder}"
        if number % in_a_folder == 0:
            place.mkdir(parents=True, exist_ok=True)
        path = place / f"file_{number}.txt"
        length = source.randint(mean_bytes // 8, mean_bytes * 15 // 8)
        text = " ".join(source.choices(words, k=length // 6))
        path.write_text(text + "\n")
        files.append(path)
    return files


def change(files: Iterable[Path], mark: str) -> None:
    """Give every file another content of about the size that it had."""
    for number, path in enumerate(files):
        _, _, rest = path.read_text().removesuffix("\n").rpartition("\n")
        path.write_text(f"{mark} {number}\n{rest}")
