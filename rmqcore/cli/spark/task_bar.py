"""A bar of Spark's tasks on stderr, for people only."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rmqcore.cli.common.progress import wanted
from rmqcore.cli.common.shown import ReportConsole, printable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_SECONDS = 0.2


@contextmanager
def task_bar(spark: SparkSession, what: str, *, no_progress: bool) -> Iterator[None]:
    """Show how many tasks are done, with the time left, while the body runs jobs."""
    if not wanted(no_progress):
        yield
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    bars = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("tasks"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=ReportConsole(stderr=True),
        transient=True,
    )
    ended = threading.Event()
    counts = TaskCounts(spark.sparkContext.statusTracker())

    def poll() -> None:
        while not ended.wait(POLL_SECONDS):
            done, total = counts.look()
            bars.update(bar, completed=done, total=total or None)

    with bars:
        bar = bars.add_task(printable(what), total=None)
        thread = threading.Thread(target=poll, name="spark-progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


class TaskCounts:
    """Counts the tasks of all jobs that ran since it was made, also of jobs that Spark has forgotten again.

    Parameters
    ----------
    tracker : pyspark.StatusTracker
    """

    def __init__(self, tracker: Any) -> None:
        self._tracker = tracker
        self._stages: dict[int, tuple[int, int]] = {}

    def look(self) -> tuple[int, int]:
        """Return the number of tasks that are done, and of all tasks known so far."""
        running = set()
        for job_id in self._tracker.getActiveJobsIds():
            job = self._tracker.getJobInfo(job_id)
            for stage_id in job.stageIds if job is not None else ():
                stage = self._tracker.getStageInfo(stage_id)
                if stage is not None:
                    running.add(stage_id)
                    self._stages[stage_id] = (stage.numCompletedTasks, stage.numTasks)
        for stage_id, (_, total) in self._stages.items():
            if stage_id not in running:
                self._stages[stage_id] = (total, total)
        return (
            sum(done for done, _ in self._stages.values()),
            sum(total for _, total in self._stages.values()),
        )
