"""Choice of the files that ``auto`` walks on the driver: those whose walk takes less time than it saves.

A walk makes exact cuts where the rule leaves many bytes in one part. The driver walks before the first task starts. In
return the largest part is smaller, and a read takes at least as long as its largest part.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from rmqcore.offline.log.log_files import LogFile

TASK_PER_WALK = 4
"""A task takes at least this many times as long per byte as the walk. Measured CPU seconds per GB in the page cache: 0.27 for
the walk, 1.26 for an audit, 1.83 for four columns into Spark, 4.98 for all columns (docs/spark.md)."""


@dataclass(frozen=True)
class WalkableFile:
    """A file that the driver can walk.

    Attributes
    ----------
    file : LogFile
    walked_bytes : int
        Bytes that the walk reads.
    uncut_bytes : int
        Bytes of the largest part without the walk.
    """

    file: LogFile
    walked_bytes: int
    uncut_bytes: int


def worth_walking(
    files: Iterable[WalkableFile], most_bytes: int, tasks_at_once: int
) -> frozenset[str]:
    """Return the locations of the files to walk.

    Parameters
    ----------
    files : iterable of WalkableFile
    most_bytes : int
        The most bytes that a part should have.
    tasks_at_once : int
        Number of tasks that run at once: if at least this many files are one large part each, all tasks are busy
        without a walk. 1 if unknown.
    """
    large = sorted(
        (one for one in files if one.uncut_bytes > most_bytes),
        key=lambda one: one.uncut_bytes,
        reverse=True,
    )
    if len(large) >= tasks_at_once > 1:
        return frozenset()
    walked = accumulate((one.walked_bytes for one in large), initial=0)
    largest_left = [*(one.uncut_bytes for one in large), most_bytes]
    cost = [read + TASK_PER_WALK * left for read, left in zip(walked, largest_left, strict=True)]
    least = min(cost)
    count = max(number for number, one in enumerate(cost) if one == least)
    return frozenset(one.file.location for one in large[:count])
