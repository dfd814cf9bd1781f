"""How much each checkpoint changed against the one before it.

Owns the counts and the file that keeps them by commit id, so that a list costs one small read. They are computed
once, by git, off the hot path.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from store.errors import CorruptFileError, GitFailedError
from store.files import read_json_object, write_json
from store.git import run_git

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from store.layout import Layout, ProjectHash
    from store.objects import Commit

_COUNT = re.compile(rb"(\d+) (file|insertion|deletion)")


@dataclass(frozen=True, slots=True)
class Statistics:
    """Count what changed."""

    files_changed: int = 0
    insertions: int = 0
    """Lines added."""
    deletions: int = 0
    """Lines removed."""


def list_statistics(layout: Layout, project: ProjectHash, commits: Sequence[Commit]) -> Mapping[str, Statistics]:
    """Return the statistics of checkpoints, newest first, by their hex id.

    What was never computed is computed now and kept. The oldest one has none, as nothing is known before it; where
    git can't be asked, what is missing is missing.
    """
    known = _load(layout, project)
    pairs = {newer.oid.hex(): (older.tree.hex(), newer.tree.hex()) for newer, older in pairwise(commits)}
    missing = {oid: pair for oid, pair in pairs.items() if oid not in known}
    if missing:
        try:
            known |= _compute(layout, missing)
        except GitFailedError:
            return known
        write_json(
            layout.statistics_file(project),
            {oid: [known[oid].files_changed, known[oid].insertions, known[oid].deletions] for oid in pairs},
        )
    return known


def _compute(layout: Layout, pairs: Mapping[str, tuple[str, str]]) -> dict[str, Statistics]:
    """Count for several pairs of trees with one git process. Source: git-diff-tree(1), `--stdin`."""
    wanted = "".join(f"{old} {new}\n" for old, new in pairs.values()).encode()
    arguments = ["diff-tree", "--stdin", "-r", "--shortstat", "--no-renames", "--no-ext-diff", "--no-textconv"]
    by_pair: dict[tuple[str, str], Statistics] = {}
    pair = ("", "")
    for line in run_git(layout.store, arguments, stdin=wanted).splitlines():
        if line.startswith(b" "):
            counts = {name: int(number) for number, name in _COUNT.findall(line)}
            by_pair[pair] = Statistics(counts.get(b"file", 0), counts.get(b"insertion", 0), counts.get(b"deletion", 0))
        elif line:
            old, new = line.decode().split()
            pair = (old, new)
    return {oid: by_pair.get(pair, Statistics()) for oid, pair in pairs.items()}


def _load(layout: Layout, project: ProjectHash) -> dict[str, Statistics]:
    """Return what was computed before; a file that can't be used is computed anew."""
    try:
        raw = read_json_object(layout.statistics_file(project)) or {}
    except CorruptFileError:
        return {}
    return {
        oid: Statistics(*counts)
        for oid, counts in raw.items()
        if isinstance(counts, list) and len(counts) == 3 and all(isinstance(count, int) for count in counts)
    }
