"""`diff`: two stores compared on this machine, as ranges of the log that differ and as queues."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor

from rmqcore.disk.paths import StorePaths, absolute_path
from rmqcore.errors.exit_codes import DAMAGED, OK
from rmqcore.offline.diff.difference import Difference, differences
from rmqcore.offline.diff.logs import LogsDiff
from rmqcore.offline.diff.plan import Side
from rmqcore.offline.diff.queue_diff import QueuesDiff, compare_queues
from rmqcore.offline.diff.report import DiffReport, FirstRecord, LogDifference
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.long_record import MOST_WHOLE
from rmqcore.offline.log.walk import Progress
from rmqcore.offline.log.window import record_at
from rmqcore.offline.missing_log import emptied_files, missing_log
from rmqcore.offline.reader import LogDirectories, store_paths

THREADS = 4
MOST_NAMED = 1_000
KINDS = {
    "missing_right": "only_a",
    "missing_left": "only_b",
    "damaged_left": "damaged_a",
    "damaged_right": "damaged_b",
}
"""What a range is called here; Spark's comparison has a left and a right side."""


def diff(
    a: str | os.PathLike[str],
    b: str | os.PathLike[str],
    *,
    commitlog: LogDirectories | None = None,
    commitlog_b: LogDirectories | None = None,
    follow_links: bool = False,
    queues: bool = True,
    progress: Progress | None = None,
) -> DiffReport:
    """Compare two stores, such as a master's and its slave's, or one before and after: logs byte by byte, queues entry by entry.

    Both are only read, and may be in use: messages appended after the start are ignored. The bytes behind a BLANK's header and
    the room behind a log's end are not compared, nor is the index, which two stores of the same log make with other names and
    times.

    Parameters
    ----------
    a, b : path-like
        Roots of stores, or their ``commitlog`` directories.
    commitlog, commitlog_b : str, path-like or sequence of path-like, optional
        Where the CommitLog of `a`, and that of `b`, is; see `StoreReader`.
    follow_links : bool
        As of `StoreReader`.
    queues : bool
        Compare ConsumeQueues too.
    progress : callable, optional
        Called with (bytes done, bytes in all).

    Returns
    -------
    DiffReport

    Raises
    ------
    NotAStoreError, LinkError, FileNotFoundError, NotADirectoryError
        As `StoreReader`.
    StoreFormatError
        A file lies in two directories of a log.
    StoreError
        A file was cut while it was compared.
    """
    began = time.monotonic()
    path_a = store_paths(absolute_path(a, "a"), None, commitlog, follow_links=follow_links)
    path_b = store_paths(absolute_path(b, "b"), None, commitlog_b, follow_links=follow_links)
    threads = ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1), "rmqcore-diff")
    try:
        found = LogsDiff(path_a, path_b, threads, progress)
        found.compare()
    finally:
        threads.shutdown(cancel_futures=True)
    bounds_a, bounds_b = map(_bounds, found.sides)
    of_queues = QueuesDiff()
    if queues:
        of_queues = compare_queues(path_a, path_b, bounds_a, bounds_b)
    missing_a, missing_b = _missing(path_a, bounds_a[1]), _missing(path_b, bounds_b[1])
    differ = found.count or of_queues.differing_queues or missing_a or missing_b
    return DiffReport(
        a=str(path_a.root),
        b=str(path_b.root),
        min_phy_offset_a=bounds_a[0],
        max_phy_offset_a=bounds_a[1],
        min_phy_offset_b=bounds_b[0],
        max_phy_offset_b=bounds_b[1],
        compared_bytes=found.compared_bytes,
        differences=[
            _named(one, found.sides, with_records=number < MOST_NAMED)
            for number, one in enumerate(differences(found.ranges, found.sides))
        ],
        difference_count=found.count,
        differing_bytes=found.differing_bytes,
        compared_queues=of_queues.compared_queues,
        compared_entries=of_queues.compared_entries,
        queues=of_queues.queues,
        only_a=of_queues.only_a,
        only_b=of_queues.only_b,
        deleted_meanwhile=sorted(found.gone),
        missing_a=missing_a,
        missing_b=missing_b,
        seconds=time.monotonic() - began,
        exit_code=DAMAGED if differ else OK,
    )


def _missing(paths: StorePaths, log_end: int) -> list[DamageRange]:
    """Return what a log lacks at its start and at its end."""
    return [*emptied_files(paths), *missing_log(paths, log_end)]


def _bounds(side: Side) -> tuple[int, int]:
    ranges = side.ranges()
    return (ranges[0][0], ranges[-1][1]) if ranges else (0, 0)


def _named(one: Difference, sides: tuple[Side, Side], *, with_records: bool) -> LogDifference:
    start = one.start_phy_offset
    first_a, first_b = (_record(side, start) if with_records else None for side in sides)
    return LogDifference(
        start,
        one.end_phy_offset,
        KINDS.get(one.kind, one.kind),
        one.left_path,
        one.right_path,
        first_a,
        first_b,
    )


def _record(side: Side, phy_offset: int) -> FirstRecord | None:
    found = record_at(side.files, phy_offset, most_whole=MOST_WHOLE)
    if found is None:
        return None
    return FirstRecord(found.topic, found.queue_id, found.queue_offset, found.store_timestamp_ms)
