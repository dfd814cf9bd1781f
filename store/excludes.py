"""The store's `info/exclude`: begins as the shipped list, belongs to the user from then on, and follows newer lists.

Owns the merging. A line that a newer list adds is added, one that it drops is dropped, and every other line stays as
the user left it. What was shipped last stands beside it, so that the difference is known. A list that another program
wrote is left alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.files import read_file, write_atomically

if TYPE_CHECKING:
    from store.layout import Layout


def refresh_excludes(layout: Layout, shipped: bytes) -> bool:
    """Bring `info/exclude` up to the list that is shipped today. The caller holds the lock.

    Args:
        layout: The store.
        shipped: Today's list.

    Returns:
        Whether the file changed.
    """
    before = read_file(layout.shipped_excludes_file)
    if before == shipped:
        return False
    present = read_file(layout.exclude_file)
    merged = present
    if present is None:
        merged = shipped
    elif before is not None:
        merged = merge_lists(present, before, shipped)
    if merged is not None and merged != present:
        write_atomically(layout.exclude_file, merged)
    write_atomically(layout.shipped_excludes_file, shipped)  # last: after a crash the merge is simply repeated
    return merged != present


def merge_lists(present: bytes, before: bytes, shipped: bytes) -> bytes:
    """Return a list as it stands with what changed between two shipped ones.

    New lines go behind the last line that was shipped, so that what the user added below them still wins.

    Args:
        present: The list as the user left it.
        before: What was shipped when it was last merged.
        shipped: What is shipped now.
    """
    old, new = _split(before), _split(shipped)
    dropped = set(old) - set(new)
    kept = [line for line in _split(present) if line not in dropped]
    added = [line for line in new if line and line not in old and line not in kept]
    places = [place for place, line in enumerate(kept) if line and line in old]
    at = places[-1] + 1 if places else 0
    return b"\n".join([*kept[:at], *added, *kept[at:]]) + b"\n"


def _split(text: bytes) -> list[bytes]:
    """Return the lines of a list; nothing but a newline ends one, and nothing else is taken from it."""
    return text.removesuffix(b"\n").split(b"\n") if text else []
