"""Background jobs on APScheduler, which is only a ticker here: each job decides itself whether it has work.

Owns the scheduler's settings. Nothing is lost in a pause: a missed run is made up once.
"""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from apscheduler.schedulers.background import BackgroundScheduler

if TYPE_CHECKING:
    from collections.abc import Callable


class Schedule:
    """Run jobs at intervals, never two of a kind at once."""

    def __init__(self) -> None:
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
            executors={"default": {"type": "threadpool", "max_workers": 2}},
        )

    def every(self, interval_s: float, name: str, job: Callable[[], None]) -> None:
        """Run a job again and again; the first time after one interval.

        Args:
            interval_s: A minute or more, since a jump of the clock makes the scheduler list every run it missed.
            name: The job's own name.
            job: What to run; an error in it is logged and the next run comes all the same.
        """
        self._scheduler.add_job(job, "interval", seconds=interval_s, id=name, replace_existing=True)

    def next_runs(self) -> dict[str, float | None]:
        """Return when each job runs next, in seconds since the epoch."""
        jobs = self._scheduler.get_jobs() if self._scheduler.running else []
        return {job.id: job.next_run_time.timestamp() if job.next_run_time else None for job in jobs}

    def start(self) -> None:
        """Begin to run jobs."""
        self._scheduler.start()

    def stop(self) -> None:
        """Stop, and wait for a job that runs."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=True)
