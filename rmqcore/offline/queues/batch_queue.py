"""A queue of batches (``queue.type=BatchCQ``): an entry is a record with several messages, and covers as many queue offsets.

======  ====  =====  ==============  ==========================================================
Offset  Size  Type   Field           Meaning
======  ====  =====  ==============  ==========================================================
0       8     long   phy_offset      where the record lies
8       4     int    msg_size        its bytes
12      8     long   tags_code
20      8     long   store_ms        when it was stored
28      8     long   base_offset     queue offset of its first message
36      2     short  batch_size      how many messages it has; 1 for a plain one
38      8            not used
======  ====  =====  ==============  ==========================================================

Source: RocketMQ 5.5.0 BatchConsumeQueue.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rmqcore._native.format.cq_arrays import CQ_DTYPE
from rmqcore.disk.data_extents import used_end
from rmqcore.disk.inside.links import is_file
from rmqcore.disk.inside.skeletons import occupied_bytes
from rmqcore.disk.paths import parse_file_name
from rmqcore.disk.queue_files import Entries
from rmqcore.disk.read_range import entries_of, read_range
from rmqcore.errors import StoreFormatError
from rmqcore.offline.queues.queue_reader import NO_END, QueueFiles, Unit

BATCH_DTYPE = np.dtype(
    [
        *CQ_DTYPE.descr,
        ("store_ms", ">i8"),
        ("base_offset", ">i8"),
        ("batch_size", ">i2"),
        ("unused", ">i8"),
    ]
)
UNIT_SIZE = BATCH_DTYPE.itemsize
AT_ONCE = 4096
"""Entries that are read at once."""


@dataclass(frozen=True, slots=True)
class BatchFile:
    """A file of the queue: its path, its length, and how many entries it has."""

    path: str
    size: int
    count: int

    def read(self, start: int, count: int) -> Entries:
        """Read entries from number `start` on; fewer at the end."""
        count = min(count, self.count - start)
        data = read_range(self.path, start * UNIT_SIZE, count * UNIT_SIZE)
        return np.frombuffer(data[: len(data) - len(data) % UNIT_SIZE], BATCH_DTYPE)


class BatchQueue(QueueFiles):
    """The files of one queue of batches; arguments are those of `QueueFiles`.

    Attributes
    ----------
    batch_files : list of BatchFile
        Oldest first. `files` is empty: no file has entries of 20 bytes.
    """

    __slots__ = ("batch_files", "first_bases")

    unit_size = UNIT_SIZE

    def refresh(self) -> None:
        """List the directory again; entries end with the last one that has a byte other than zero."""
        self.files = []
        self.file_size = 0
        self.known_end = NO_END
        self.disk_bytes = 0
        self.batch_files: list[BatchFile] = []
        for entry in entries_of(self.directory):
            if parse_file_name(entry.name) is None or entry.path in self._left_out:
                continue
            if not is_file(entry, leave_out_links=self._leave_out_links):
                continue
            try:
                status = entry.stat()
                used = used_end(entry.path, 0, status.st_size)
            except (FileNotFoundError, StoreFormatError):
                continue  # it was deleted or cut since it was listed
            self.disk_bytes += occupied_bytes(entry.path, status)
            count = min(-(-used // UNIT_SIZE), status.st_size // UNIT_SIZE)
            found = BatchFile(os.fspath(entry.path), status.st_size, count)
            self.batch_files.append(found)
        self.batch_files = [file for file in self.batch_files if self._sound_end(file) is not None]
        self.first_bases = [int(file.read(0, 1)["base_offset"][0]) for file in self.batch_files]

    @staticmethod
    def _sound_end(file: BatchFile) -> np.void | None:
        """The newest entry of a file that a broker takes for one."""
        entries = file.read(max(0, file.count - AT_ONCE), AT_ONCE)
        sound = np.flatnonzero(sound_entries(entries))
        return entries[sound[-1]] if len(sound) else None

    @property
    def file_count(self) -> int:
        """Number of files."""
        return len(self.batch_files)

    def spans(self) -> list[tuple[int, int]]:
        """Queue offset of each file's first message, and how many messages the file has."""
        ends = [*self.first_bases[1:], self.max_offset()]
        return [(base, end - base) for base, end in zip(self.first_bases, ends, strict=True)]

    def batches(self, queue_offset: int) -> Iterator[np.void]:
        """Yield the entries from the one that holds a queue offset on: the one with the greatest base at or before it."""
        at = max(0, bisect_right(self.first_bases, queue_offset) - 1)
        for number, file in enumerate(self.batch_files[at:]):
            start = self._place_in(file, queue_offset) if number == 0 else 0
            for begin in range(start, file.count, AT_ONCE):
                yield from file.read(begin, AT_ONCE)

    @staticmethod
    def _place_in(file: BatchFile, queue_offset: int) -> int:
        low, high = 0, file.count
        while low < high:
            middle = (low + high) // 2
            entry = file.read(middle, 1)
            if len(entry) and int(entry["base_offset"][0]) <= queue_offset:
                low = middle + 1
            else:
                high = middle
        return max(0, low - 1)

    def units(self, start: int, stop: int) -> Iterator[Unit]:
        """Yield the batches that hold messages of queue offsets [start, stop)."""
        for entry in self.batches(start):
            base, size = int(entry["base_offset"]), int(entry["batch_size"])
            if base >= stop or size <= 0 or int(entry["msg_size"]) <= 0:
                return
            if base + size > start:
                yield Unit(
                    base + size,
                    int(entry["phy_offset"]),
                    int(entry["msg_size"]),
                    int(entry["tags_code"]),
                    size,
                )

    def entries(self, start: int, count: int) -> Entries:
        """Return an entry of an ordinary queue for each queue offset, that of its record; fewer at the end."""
        rows = []
        for unit in self.units(start, start + count):
            row = unit.phy_offset, unit.msg_size, unit.tags_code
            first = max(start, unit.next_offset - unit.messages)
            rows += [row] * (min(unit.next_offset, start + count) - first)
        return np.array(rows, CQ_DTYPE)

    def get_ends_at(self, queue_offset: int) -> int | None:
        """Return the queue offset at which one read of a get ends: the first message of the next file."""
        if not self.batch_files:
            return None
        following = bisect_right(self.first_bases, queue_offset)
        return (
            self.first_bases[following] if following < len(self.first_bases) else self.max_offset()
        )

    def get_behind_missing(self, queue_offset: int) -> int:
        """Return the queue offset of the next file's first message; the queue's end without one."""
        following = bisect_right(self.first_bases, queue_offset)
        return (
            self.first_bases[following] if following < len(self.first_bases) else self.max_offset()
        )

    def max_offset(self, log_end: int | None = None) -> int:
        """Find the queue offset behind the last message; messages at or after `log_end` do not count."""
        for file in reversed(self.batch_files):
            newest = self._sound_end(file)
            if newest is not None and (log_end is None or int(newest["phy_offset"]) < log_end):
                return int(newest["base_offset"]) + int(newest["batch_size"])
            entries = file.read(0, file.count)
            kept = np.flatnonzero(sound_entries(entries) & (entries["phy_offset"] < (log_end or 0)))
            if len(kept):
                last = entries[kept[-1]]
                return int(last["base_offset"]) + int(last["batch_size"])
        return 0

    def min_offset(self, log_min: int, end: int) -> int:
        """Find the queue offset of the first message in the log; `end` where none is.

        Source: RocketMQ 5.5.0 BatchConsumeQueue#correctMinOffset.
        """
        for file in self.batch_files:
            for begin in range(0, file.count, AT_ONCE):
                entries = file.read(begin, AT_ONCE)
                kept = np.flatnonzero(sound_entries(entries) & (entries["phy_offset"] >= log_min))
                if len(kept):
                    return min(end, int(entries["base_offset"][kept[0]]))
        return end


def sound_entries(entries: Entries) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which entries a broker takes for entries. Source: RocketMQ 5.5.0 BatchConsumeQueue#recover."""
    sound: np.ndarray[tuple[int], np.dtype[np.bool_]] = (
        (entries["phy_offset"] >= 0)
        & (entries["msg_size"] > 0)
        & (entries["base_offset"] >= 0)
        & (entries["batch_size"] > 0)
    )
    return sound
