"""Records that no queue takes stay in the new log, as ones of a transaction that was prepared and never ended.

Such a record gets no queue entry, from any broker, and its keys are in the index: it can be looked up by its message id and
found by its keys, and no consumer is given it in the place of another. What changes is the transaction type in its SYSFLAG, and
the ``__CRC32#`` that covers it.
"""

from __future__ import annotations

import os
import zlib
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from rmqcore._native.format.layout import CRC_MASK, REC_SYSFLAG
from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.disk.inside.files import open_file
from rmqcore.disk.inside.opened import write_all
from rmqcore.disk.set_aside import SetAside
from rmqcore.maintenance.rebuild.queue_runs import ints, longs
from rmqcore.maintenance.salvage.filler import PROP_CRC_SIZE
from rmqcore.offline.log.log_files import LogFile
from rmqcore.offline.log.long_record import LongRecords
from rmqcore.offline.log.walk import Blank, LogWalk
from rmqcore.vocabulary.sysflag import TRANSACTION_MASK, TRANSACTION_PREPARED, has_queue_entry
from rmqcore.vocabulary.topics import QueueKey

COLUMNS = ("phy_offset", "msg_size", "queue_id", "queue_offset", "sys_flag", "topic_id")
TOPIC_ROOM = 8 << 20
PROP_CRC = b"__CRC32#\x01"
PIECE = 1 << 20


def set_aside(files: list[LogFile], aside: Iterable[SetAside]) -> int:
    """Mark the records of a new log that no queue takes; answer how many they are.

    Parameters
    ----------
    files : list of LogFile
        Of the new log.
    aside : iterable of SetAside

    Raises
    ------
    OSError
        A file cannot be read or written.
    """
    wanted: dict[QueueKey, list[SetAside]] = defaultdict(list)
    for one in aside:
        wanted[one.topic, one.queue_id].append(one)
    if not wanted:
        return 0
    for of_queue in wanted.values():
        of_queue.sort(key=lambda one: one.first_phy_offset)
    scan = ColumnScan(COLUMNS, batch_rows=262_144, batch_bytes=16 << 20, topic_room=TOPIC_ROOM)
    walk: LogWalk[Batch] = LogWalk(files, scan, [], long_records=LongRecords())
    count = 0
    for batch in walk.run():
        assert not isinstance(batch, Blank)
        for phy_offset, msg_size in _chosen(scan, batch, wanted):
            _mark(files, phy_offset, msg_size)
            count += 1
    return count


def _chosen(
    scan: ColumnScan, batch: Batch, wanted: dict[QueueKey, list[SetAside]]
) -> list[tuple[int, int]]:
    """Places and sizes of the records of a batch that are set aside."""
    topics = scan.topics(0)
    names = {topic for topic, _ in wanted}
    of_topic = np.fromiter((name in names for name in topics), np.bool_, len(topics))
    topic_ids, queue_ids = ints(batch, "topic_id"), ints(batch, "queue_id")
    rows = np.flatnonzero(of_topic[topic_ids] & has_queue_entry(ints(batch, "sys_flag")))
    phy_offsets, offsets = longs(batch, "phy_offset"), longs(batch, "queue_offset")
    sizes = ints(batch, "msg_size")
    found = []
    for row in rows.tolist():
        place = topics[topic_ids[row]], int(queue_ids[row])
        if _is_among(wanted.get(place, []), int(phy_offsets[row]), int(offsets[row])):
            found.append((int(phy_offsets[row]), int(sizes[row])))
    return found


def _is_among(aside: list[SetAside], phy_offset: int, queue_offset: int) -> bool:
    """Return True if a record of a queue is set aside; there may be as many items as records, in the order of the log."""
    at = bisect_right(aside, phy_offset, key=lambda one: one.first_phy_offset) - 1
    while (
        at >= 0 and aside[at].last_phy_offset >= phy_offset
    ):  # parts of one run lie between the same bounds
        if aside[at].first_queue_offset <= queue_offset <= aside[at].last_queue_offset:
            return True
        at -= 1
    return False


def _mark(files: list[LogFile], phy_offset: int, msg_size: int) -> None:
    file = next(one for one in files if one.file_from_offset <= phy_offset < one.end_offset)
    pos = phy_offset - file.file_from_offset
    opened = open_file(str(file.path), os.O_RDWR)
    try:
        fd = opened.fileno()
        sys_flag = int.from_bytes(os.pread(fd, 4, pos + REC_SYSFLAG), "big", signed=True)
        sys_flag = sys_flag & ~TRANSACTION_MASK | TRANSACTION_PREPARED
        write_all(fd, sys_flag.to_bytes(4, "big", signed=True), pos + REC_SYSFLAG)
        end = pos + msg_size - PROP_CRC_SIZE
        if os.pread(fd, len(PROP_CRC), end) == PROP_CRC:
            crc = 0
            for at in range(pos, end, PIECE):
                crc = zlib.crc32(os.pread(fd, min(PIECE, end - at), at), crc)
            digits = f"{crc & CRC_MASK:010}"[::-1].encode()  # the last digit first
            write_all(fd, digits, end + len(PROP_CRC))
    finally:
        opened.close()
