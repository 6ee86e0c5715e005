"""Which files ``auto`` walks on the driver: those whose walk takes less time than it saves.

A walk makes exact cuts where the rule leaves many bytes in one part. The driver walks before the first task starts. In return the
largest part gets smaller, and a read takes at least as long as its largest part.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from rmqcore.offline.log.log_files import LogFile

TASK_PER_WALK = 4
"""A task takes at least this many times as long for a byte as the walk does. Measured CPU seconds for a GB in the page cache:
0.27 for the walk, 1.26 for an audit, 1.83 for four columns into Spark, 4.98 for all columns (docs/spark.md)."""


@dataclass(frozen=True)
class WalkableFile:
    """A file that the driver can walk.

    Attributes
    ----------
    file : LogFile
    walked_bytes : int
        What the walk reads.
    uncut_bytes : int
        The largest part without the walk.
    """

    file: LogFile
    walked_bytes: int
    uncut_bytes: int


def worth_walking(
    files: Iterable[WalkableFile], most_bytes: int, tasks_at_once: int
) -> frozenset[str]:
    """Locations of the files to walk.

    Parameters
    ----------
    files : iterable of WalkableFile
    most_bytes : int
        What a part should have at most.
    tasks_at_once : int
        With this many files that are one large part each no task waits for another; 1 if it is not known.
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
