"""What a checkpoint did not hold though it was there: what it left out, and what was ignored then.

Owns the question whether a path that a checkpoint does not know was really created since. What was merely out of its
scope is in no checkpoint of that time, and a rollback never removes it.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

from store.files import read_file
from store.ignore import IgnoreRules, Rules, parse_rules
from store.tree import look_up

if TYPE_CHECKING:
    from store.entries import Oid
    from store.objects import Commit, ObjectStore
    from store.patterns import Patterns


class ScopeThen:
    """Tell what was out of the scope of one checkpoint."""

    def __init__(self, objects: ObjectStore, checkpoint: Commit, patterns: Patterns | None) -> None:
        skipped = checkpoint.note.get("skipped")
        self._skipped = {
            os.fsencode(str(each.get("path"))): str(each.get("reason"))
            for each in (skipped if isinstance(skipped, list) else [])
            if isinstance(each, dict)
        }
        self._objects = objects
        self._tree = checkpoint.tree
        self._patterns = patterns

    @cached_property
    def _rules(self) -> _RulesThen | None:
        """The rules, which cost some milliseconds and are seldom asked for."""
        return None if self._patterns is None else _RulesThen(self._objects, self._tree, self._patterns)

    def explain(self, path: bytes, *, is_dir: bool = False) -> str:
        """Return why the checkpoint could not hold a path; empty when it could have."""
        above = path
        while above:
            if above in self._skipped:
                return f"the checkpoint left it out ({self._skipped[above]})"
            above = above.rpartition(b"/")[0]
        if self._rules is not None and self._rules.is_ignored(path, is_dir=is_dir):
            return "it was ignored when the checkpoint was taken"
        return ""


class _RulesThen(IgnoreRules):
    """Read the `.gitignore` files of a checkpoint instead of those on disk."""

    def __init__(self, objects: ObjectStore, tree: Oid, patterns: Patterns) -> None:
        defaults = parse_rules(read_file(patterns.exclude_file) or b"", b"")
        super().__init__(b"", defaults, (*patterns.exclude, *patterns.opened), patterns.include, patterns.never)
        self._objects = objects
        self._tree = tree

    def _read_rules(self, directory: bytes) -> Rules | None:
        entry = look_up(self._objects, self._tree, os.path.join(directory, b".gitignore"))
        if entry is None or entry.is_tree or not entry.mode.startswith(b"100"):
            return None
        return parse_rules(self._objects.read_blob(entry.oid), directory)
