"""A ConsumeQueue in RocksDB, read as if its entries were one file."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rmqcore._native.format.cq_arrays import CQ_DTYPE, unpack_cq_entries
from rmqcore._native.format.layout import CQ_STORE_UNIT_SIZE
from rmqcore.disk.paths import MAX_OFFSET
from rmqcore.disk.queue_files import Entries, QueueFile
from rmqcore.offline.queues.queue_reader import NO_END, QueueFiles
from rmqcore.offline.queues.rocksdb_time import TimedEntry, offset_by_time
from rmqcore.offline.rocksdb.database import Queue, QueueDatabase
from rmqcore.queries.time_search import Boundary, StoreTime


@dataclass(frozen=True, slots=True)
class _Rows(QueueFile):
    """The entries of a queue, with the methods of a file; `path` names the queue in the database."""

    topic: str = ""
    queue_id: int = 0
    database: QueueDatabase = field(kw_only=True)

    def read(self, start: int, count: int) -> bytes:
        """Read at most `count` entries, from number `start` on; fewer before one that is missing."""
        first = self.first_offset + start
        count = min(count, self.entry_count - start)
        parts: list[bytes] = []
        for queue_offset, entry in self.database.entries(self.topic, self.queue_id, first, count):
            if queue_offset != first + len(parts):
                break
            parts.append(entry)
        return b"".join(parts)

    def used_end(self, begin: int, end: int) -> int:
        """Return `end`: no entry of a database is a hole in a file."""
        return max(begin, end)

    def read_into(self, out: memoryview, start: int) -> None:
        """Fill `out` with entries from number `start` on; the places of missing ones are left as they are."""
        first, unit = self.first_offset + start, CQ_STORE_UNIT_SIZE
        rows = self.database.entries(self.topic, self.queue_id, first, len(out) // unit)
        for queue_offset, entry in rows:
            place = (queue_offset - first) * unit
            out[place : place + unit] = entry


class RocksdbQueue(QueueFiles):
    """A queue of a database; one that the database does not have has no files.

    Parameters
    ----------
    database : QueueDatabase
    topic : str
    queue_id : int
    found : Queue, optional
        Where it begins and ends, if that is known.

    Notes
    -----
    Its one file begins at the first entry that is there: a broker's compaction takes the entries of expired messages away.
    """

    __slots__ = ("_database", "_found", "_known")

    def __init__(
        self, database: QueueDatabase, topic: str, queue_id: int, found: Queue | None = None
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.directory = f"{database.place}/{topic}/{queue_id}"
        self.disk_bytes = 0
        self.known_end = NO_END
        self._database = database
        self._known = found
        self.refresh()

    def refresh(self) -> None:
        """Ask the database where the queue begins and ends; what was written since it was opened counts."""
        found, self._known = self._known, None
        if found is None:
            found = self._database.queue(self.topic, self.queue_id)
        self._found = found
        self.files = []
        self.file_size = 0
        if found is None:
            return
        first = self._database.first_entry(self.topic, self.queue_id, found.first.queue_offset)
        end = min(found.last.queue_offset, MAX_OFFSET // CQ_STORE_UNIT_SIZE - 1) + 1
        if first is None or first >= end:
            return
        self.file_size = (end - first) * CQ_STORE_UNIT_SIZE
        self.files = [
            _Rows(
                self.directory,
                first * CQ_STORE_UNIT_SIZE,
                self.file_size,
                end - first,
                self.topic,
                self.queue_id,
                database=self._database,
            )
        ]

    @property
    def file_count(self) -> int:
        """No file is the queue's own."""
        return 0

    def get_ends_at(self, queue_offset: int) -> int | None:
        """Return the queue offset at which one read of a get ends: the queue's end, for there are no files that end before it.

        None if the entry is missing. Source: RocketMQ 5.5.0 RocksDBConsumeQueue#iterateFrom.
        """
        return self.max_offset() if self._next_entry(queue_offset) == queue_offset else None

    def get_behind_missing(self, queue_offset: int) -> int:
        """Return the queue offset of the next entry; the queue's end without one.

        In RocketMQ 5.5.0 this get is a NullPointerException (docs/compat.md).
        """
        found = self._next_entry(queue_offset)
        return self.max_offset() if found is None else found

    def _next_entry(self, queue_offset: int) -> int | None:
        return self._database.first_entry(self.topic, self.queue_id, queue_offset)

    def max_offset(self, log_end: int | None = None) -> int:
        """Find the queue offset after the last entry; entries of messages at or after `log_end` do not count.

        Source: RocketMQ 5.5.0 RocksDBConsumeQueueStore#getMaxOffsetInQueue.
        """
        if self._found is None:
            return 0
        last = self._found.last
        if log_end is None or last.phy_offset < log_end or not self.files:
            return last.queue_offset + 1
        low, high = self.files[0].first_offset, last.queue_offset + 1
        while low < high:
            middle = (low + high) // 2
            if self.phy_offset(middle) < log_end:
                low = middle + 1
            else:
                high = middle
        return low

    def min_offset(self, log_min: int, end: int) -> int:
        """Find the queue offset of the first entry whose message the CommitLog still holds.

        Source: RocketMQ 5.5.0 RocksDBConsumeQueueOffsetTable#getMinCqOffset.
        """
        if self._found is None:
            return 0
        first = self._found.first
        if first.phy_offset >= log_min:
            return min(first.queue_offset, end)
        if not self.files:
            return end
        return QueueFiles.min_offset(self, log_min, end)

    def offset_by_time(
        self,
        start: int,
        end: int,
        log_min: int,
        timestamp_ms: int,
        boundary: Boundary,
        store_time: StoreTime,
    ) -> int:
        """Find the queue offset for a time, by the times that the database has.

        Source: RocketMQ 5.5.0 RocksDBConsumeQueueStore#getOffsetInQueueByTime.
        """
        del store_time
        if end <= 0:
            return 0
        return offset_by_time(self._timed_entry, start, end - 1, log_min, timestamp_ms, boundary)

    def _timed_entry(self, queue_offset: int) -> TimedEntry | None:
        found = self._database.timed_entry(self.topic, self.queue_id, queue_offset)
        return None if found is None else TimedEntry(*found)

    def entries(self, start: int, count: int) -> Entries:
        """Read entries as `QueueFiles.entries`; the array is shorter than `count` before a missing entry."""
        if not self.files:
            return np.empty(0, CQ_DTYPE)
        file = self.files[0]
        if count <= 0 or not file.first_offset <= start < file.first_offset + file.entry_count:
            return np.empty(0, CQ_DTYPE)
        return unpack_cq_entries(file.read(start - file.first_offset, count))
