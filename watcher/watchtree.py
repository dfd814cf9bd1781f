"""Which watch number stands for which directory: a tree of directories, held in step by `watcher.observer`.

Pure bookkeeping, no system call. Whatever the tree forgets is returned as watch numbers for the caller to remove.
"""

from __future__ import annotations


class Directory:
    """A watched directory.

    Args:
        path: Relative to the workdir, which itself is b"".
        wd: Its watch number.
        seen: The round in which it was last placed.
    """

    __slots__ = ("children", "is_nested", "path", "prefix", "seen", "wd")

    def __init__(self, path: bytes, wd: int, seen: int) -> None:
        self.path = path
        self.prefix = path + b"/" if path else b""
        self.wd = wd
        self.seen = seen
        self.is_nested = False
        self.children: dict[bytes, Directory] = {}


class WatchTree:
    """The watched directories of one project."""

    def __init__(self) -> None:
        self._by_wd: dict[int, Directory] = {}
        self._root: Directory | None = None
        self._round = 0

    def __len__(self) -> int:
        return len(self._by_wd)

    def paths(self) -> set[bytes]:
        """Return the paths of all watched directories."""
        return {directory.path for directory in self._by_wd.values()}

    def at(self, wd: int) -> Directory | None:
        """Return the directory of a watch number; None when it is unknown or forgotten."""
        return self._by_wd.get(wd)

    def find(self, path: bytes) -> Directory | None:
        """Return the directory at a path; None when it is not watched."""
        node = self._root
        if path:
            for name in path.split(b"/"):
                if node is None:
                    break
                node = node.children.get(name)
        return node

    def has_parent(self, path: bytes) -> bool:
        """Say whether a directory at this path could be placed: it is the root, or its parent is watched."""
        return not path or self.find(path.rpartition(b"/")[0]) is not None

    def place(self, wd: int, path: bytes) -> list[int]:
        """Bind a watch number to a path, and forget what that shows to be outdated.

        A number that stood for another path belongs to a directory that was moved; what was below it is found
        again by the walk that found the directory. Another number at this path belongs to a directory that is
        no longer there.

        Returns:
            The watch numbers to remove; the given one is among them when the path's parent is not watched.
        """
        holder = self._by_wd.get(wd)
        if holder is not None and holder.path == path:
            holder.seen = self._round
            return []
        gone = self._drop(holder) if holder is not None else []
        gone += self.drop(path)
        if not self.has_parent(path):
            return [*gone, wd] if holder is None else gone
        directory = Directory(path, wd, self._round)
        self._by_wd[wd] = directory
        if path:
            above, _, name = path.rpartition(b"/")
            parent = self.find(above)
            assert parent is not None  # noqa: S101 - has_parent said so
            parent.children[name] = directory
        else:
            self._root = directory
        return [number for number in gone if number != wd]

    def drop(self, path: bytes) -> list[int]:
        """Forget the directory at a path and all below it; return their watch numbers."""
        directory = self.find(path)
        return self._drop(directory) if directory is not None else []

    def drop_below(self, directory: Directory) -> list[int]:
        """Forget what is below a directory, not the directory itself; return the watch numbers."""
        return [wd for child in list(directory.children.values()) for wd in self._drop(child)]

    def begin_round(self) -> None:
        """Begin a walk over everything: what is placed from now on counts as seen."""
        self._round += 1

    def drop_unseen(self) -> list[int]:
        """Forget every directory that was not placed since the round began; return their watch numbers."""
        stale = [directory for directory in self._by_wd.values() if directory.seen != self._round]
        return [wd for directory in stale if self._by_wd.get(directory.wd) is directory for wd in self._drop(directory)]

    def _drop(self, top: Directory) -> list[int]:
        if top is self._root:
            self._root = None
        else:
            above, _, name = top.path.rpartition(b"/")
            parent = self.find(above)
            if parent is not None and parent.children.get(name) is top:
                del parent.children[name]
        gone = []
        pending = [top]
        while pending:
            directory = pending.pop()
            gone.append(directory.wd)
            del self._by_wd[directory.wd]
            pending.extend(directory.children.values())
        return gone
