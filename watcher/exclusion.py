"""Which directories of a project the watch leaves out, by the rules of the moment at which it looked into each one.

Owns the rules that the watch asks. They are the watch's own, so that what it knows of a directory was read after that
directory was watched: whatever changes there later has an event. What an event means belongs to `watcher.follower`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from store.ignore import IgnoreRules
    from store.patterns import Patterns


class ExclusionRules:
    """Answer for the directories of one project. Used on the watch's thread alone."""

    def __init__(self, root: bytes, find_patterns: Callable[[], Patterns]) -> None:
        """Prepare the rules; nothing is read yet.

        Args:
            root: The workdir.
            find_patterns: Returns what counts now, the project's own `.gitignore` files apart.
        """
        self._root = root
        self._find_patterns = find_patterns
        self._rules: IgnoreRules | None = None

    def is_excluded(self, directory: bytes) -> bool:
        """Tell whether a directory needs no watching."""
        if self._rules is None:
            self._rules = self._find_patterns().compile(self._root)
        return self._rules.is_ignored(directory, is_dir=True)

    def forget(self, directory: bytes) -> None:
        """Read the rules at and below a directory again; for the workdir, all that counts."""
        if not directory:
            self._rules = None
        elif self._rules is not None:
            self._rules.forget(directory)
