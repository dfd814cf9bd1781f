"""A progress bar, for work that reads many files."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from watcher.progress import Progress


@contextmanager
def progress_bar(*, shown: bool) -> Iterator[Progress | None]:
    """Give what shows how far the work is; the bar appears with the first word of it, and goes with the last.

    Args:
        shown: Whether there is anybody to see it.
    """
    if not shown:
        yield None
        return
    with ExitStack() as stack:
        update: Progress | None = None

        def report(done_count: int, total_count: int) -> None:
            nonlocal update
            if update is None:
                update = _open_bar(stack)
            update(done_count, total_count)

        yield report


def _open_bar(stack: ExitStack) -> Progress:
    from rich.console import Console  # noqa: PLC0415 - slow to import, and seldom needed
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415
    from rich.progress import Progress as Bars  # noqa: PLC0415

    columns = (TextColumn("Reading files"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bars = stack.enter_context(Bars(*columns, console=Console(stderr=True), transient=True))
    task = bars.add_task("read", total=None)
    return lambda done_count, total_count: bars.update(task, completed=done_count, total=total_count)
