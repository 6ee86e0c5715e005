"""Where the log ends by its queues, and whether older bytes lie behind that end.

A recovery of RocketMQ that cuts the log moves its write position back and leaves the bytes behind it. Until new messages have
overwritten them they read as sound records in their places; the queues, which the recovery cut too, show where the log ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.disk.paths import StorePaths
from rmqcore.offline.log.log_files import LogFile, LogShape
from rmqcore.offline.log.walk import Blank, LogWalk
from rmqcore.offline.queues.queues import each_queue, max_offset


class LogRange(NamedTuple):
    """CommitLog offsets of a message's first byte, and of the byte behind it."""

    start: int
    end: int


NO_MESSAGE = LogRange(0, 0)


def newest_dispatched(paths: StorePaths, enough: int | None = None) -> LogRange:
    """Find the newest message that is in a queue; `NO_MESSAGE` without queue entries.

    Parameters
    ----------
    paths : StorePaths
    enough : int, optional
        CommitLog offset: return the first message that is found to end at or behind it.
    """
    newest = NO_MESSAGE
    for queue in each_queue(paths):
        for entry in queue.entries(max_offset(queue) - 1, 1) if queue.files else ():
            start = int(entry["phy_offset"])
            newest = max(newest, LogRange(start, start + int(entry["msg_size"])))
        if enough is not None and newest.end >= enough:
            break
    return newest


def cut_before(paths: StorePaths, files: Sequence[LogFile], phy_offset: int) -> int | None:
    """Return where the log ends if a recovery cut it before an offset and left older records behind its end, else None.

    Proof is the store time: the first record behind the newest message of the queues was stored before that message. Queues that
    only lag behind their log, as after a power cut, lead to no such record.

    Parameters
    ----------
    paths : StorePaths
        A store on a local disk.
    files : sequence of LogFile
        Its whole log.
    phy_offset : int
        Up to here the log is known from before.
    """
    newest = newest_dispatched(paths, enough=phy_offset)
    if newest == NO_MESSAGE or newest.end >= phy_offset:
        return None
    known = _first_record(files, newest.start, newest.end)
    behind = _first_record(files, newest.end, phy_offset)
    if known is None or behind is None or known.phy_offset != newest.start:
        return None
    return newest.end if behind.store_timestamp_ms < known.store_timestamp_ms else None


class _Record(NamedTuple):
    phy_offset: int
    store_timestamp_ms: int


def _first_record(files: Sequence[LogFile], start: int, stop: int) -> _Record | None:
    """The first sound record that begins between two offsets; what lies before it is passed as damage."""
    sink = ColumnScan(("phy_offset", "store_timestamp_ms"), batch_rows=1)
    shape = LogShape.of(list(files))
    walk: LogWalk[Batch] = LogWalk(
        list(files),
        sink,
        [],
        verify_crc=True,
        start=start,
        stop=stop,
        aligned_start=True,
        shape=shape,
    )
    try:
        for rows in walk.run():
            if not isinstance(rows, Blank) and rows.num_rows:
                at, time_ms = (
                    int(np.frombuffer(rows.buffer(name), np.int64)[0])
                    for name in ("phy_offset", "store_timestamp_ms")
                )
                return _Record(at, time_ms) if at < stop else None
    except FileNotFoundError:  # cleaned since it was listed
        return None
    return None
