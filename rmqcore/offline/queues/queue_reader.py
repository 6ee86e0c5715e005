"""One ConsumeQueue's files and their entries, read in ranges: nothing is mapped, nothing stays open between calls."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Container, Iterator
from typing import NamedTuple

import numpy as np

from rmqcore._native.format.cq_arrays import CQ_DTYPE, unpack_cq_entries
from rmqcore._native.format.layout import CQ_STORE_UNIT_SIZE
from rmqcore.disk.inside.links import is_file
from rmqcore.disk.inside.skeletons import occupied_bytes
from rmqcore.disk.paths import parse_file_name
from rmqcore.disk.queue_ends import corrected_min, newest_entry, recovered_end, truncated_end
from rmqcore.disk.queue_files import Entries, QueueFile
from rmqcore.disk.read_range import entries_of
from rmqcore.queries.time_search import Boundary, StoreTime, offset_by_time

DEFAULT_FILE_SIZE = 6_000_000
NO_END = 0, 0


class Unit(NamedTuple):
    """A record that a queue leads to.

    Attributes
    ----------
    next_offset : int
        Queue offset behind its last message.
    phy_offset, msg_size, tags_code : int
        As in an entry.
    messages : int
        How many messages it has.
    """

    next_offset: int
    phy_offset: int
    msg_size: int
    tags_code: int
    messages: int


class QueueFiles:
    """The files of one queue.

    Files whose names are not the offset of an entry, and files shorter than one entry, are ignored, as if they
    were missing.

    Parameters
    ----------
    topic : str
    queue_id : int
    directory : path-like
    leave_out_links : bool
        A link among the files is left out, and no `LinkError`.
    left_out : collection of str
        Paths of files that are left out.

    Attributes
    ----------
    directory : str
    files : list of QueueFile
        Oldest first.
    file_size : int
        Bytes of a whole file of this queue: the size that most of them have.
    disk_bytes : int
        Bytes that the files occupy; behind a URL their sizes.
    known_end : (int, int)
        Note of `queues.max_offset`: first offset of the last file it looked at, and the number of valid entries there.
    """

    unit_size = CQ_STORE_UNIT_SIZE
    """Bytes of an entry."""

    __slots__ = (
        "_leave_out_links",
        "_left_out",
        "directory",
        "disk_bytes",
        "file_size",
        "files",
        "known_end",
        "queue_id",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        queue_id: int,
        directory: str | os.PathLike[str],
        *,
        leave_out_links: bool = False,
        left_out: Container[str] = (),
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.directory = os.fspath(directory)
        self.files: list[QueueFile] = []
        self.file_size = DEFAULT_FILE_SIZE
        self.disk_bytes = 0
        self.known_end = NO_END
        self._leave_out_links = leave_out_links
        self._left_out = left_out
        self.refresh()

    def refresh(self) -> None:
        """List the directory again."""
        found = []
        self.disk_bytes = 0
        for entry in entries_of(self.directory):
            start = parse_file_name(entry.name)
            if start is None or start % CQ_STORE_UNIT_SIZE:
                continue
            if entry.path in self._left_out:
                continue
            if not is_file(entry, leave_out_links=self._leave_out_links):
                continue
            try:
                status = entry.stat()
            except FileNotFoundError:
                continue
            self.disk_bytes += occupied_bytes(entry.path, status)
            if status.st_size >= CQ_STORE_UNIT_SIZE:
                found.append((start, status.st_size, entry.path))
        next_starts = [*(start for start, _, _ in found), 1 << 63][1:]
        self.files = [
            QueueFile(path, start, size, min(size, following - start) // CQ_STORE_UNIT_SIZE)
            for (start, size, path), following in zip(found, next_starts, strict=False)
        ]
        if self.files:
            most_common = self.files[0].size
            if len(self.files) > 1:
                most_common = Counter(file.size for file in self.files).most_common(1)[0][0]
            self.file_size = most_common - most_common % CQ_STORE_UNIT_SIZE

    @property
    def entries_per_file(self) -> int:
        """Entries that a whole file of this queue holds."""
        return self.file_size // CQ_STORE_UNIT_SIZE

    def file_of(self, queue_offset: int) -> QueueFile | None:
        """Return the file that holds an entry; None if it is missing or too short."""
        at = bisect_right(self.files, queue_offset, key=lambda file: file.first_offset) - 1
        if at < 0 or queue_offset - self.files[at].first_offset >= self.files[at].entry_count:
            return None
        return self.files[at]

    def entries(self, start: int, count: int) -> Entries:
        """Read entries `start`, `start + 1`, ... as a structured array.

        Fields ``phy_offset``, ``msg_size``, ``tags_code``, big-endian as on disk. The array is shorter than `count` before a
        missing file and at the end of the last file. Entries may be invalid: they are not checked.
        """
        parts = []
        while count > 0:
            file = self.file_of(start)
            data = file.read(start - file.first_offset, count) if file is not None else b""
            if not data:
                break
            parts.append(data)
            start += len(data) // CQ_STORE_UNIT_SIZE
            count -= len(data) // CQ_STORE_UNIT_SIZE
        return unpack_cq_entries(b"".join(parts)) if parts else np.empty(0, CQ_DTYPE)

    def units(self, start: int, stop: int) -> Iterator[Unit]:
        """Yield the records of queue offsets [start, stop), as far as their entries exist."""
        rows = self.entries(start, stop - start).tolist()
        for next_offset, (phy_offset, msg_size, tags_code) in enumerate(rows, start + 1):
            yield Unit(next_offset, phy_offset, msg_size, tags_code, 1)

    def phy_offset(self, queue_offset: int) -> int:
        """Return the CommitLog offset that an entry holds; -1 if there is no entry."""
        entry = self.entries(queue_offset, 1)
        return int(entry["phy_offset"][0]) if len(entry) else -1

    def get_ends_at(self, queue_offset: int) -> int | None:
        """Return the queue offset at which one read of a get ends: a file's end.

        None when the file is missing, or too short to have the entry.

        Source: RocketMQ 5.5.0 ConsumeQueue#iterateFrom.
        """
        file = self.file_of(queue_offset)
        return None if file is None else file.first_offset + file.entry_count

    def get_behind_missing(self, queue_offset: int) -> int:
        """Return the queue offset from which a consumer continues behind a missing entry: where the next file starts.

        Source: RocketMQ 5.5.0 ConsumeQueue#rollNextFile.
        """
        per_file = self.entries_per_file
        return queue_offset + per_file - queue_offset % per_file

    def max_offset(self, log_end: int | None = None) -> int:
        """Find the queue offset after the last entry; see `rmqcore.offline.queues.queues.max_offset`."""
        at, valid = recovered_end(self.files, self.known_end)
        if at < 0:
            return 0
        self.known_end = (self.files[at].first_offset, valid)
        newest = newest_entry(self.files, at, valid)
        if log_end is not None and newest is not None and int(newest["phy_offset"]) >= log_end:
            at, valid = truncated_end(self.files, at, valid, log_end)
        return self.files[at].first_offset + valid if at >= 0 else 0

    def min_offset(self, log_min: int, end: int) -> int:
        """Find the queue offset of the first entry in the log; see `rmqcore.offline.queues.queues.min_offset`."""
        if end <= 0 or not self.files:
            return 0
        first = self.files[0]
        count = min(first.entry_count, end - first.first_offset)
        newest = self.phy_offset(end - 1)
        return corrected_min(0, end, first.first_offset, count, log_min, newest, self.phy_offset)

    def offset_by_time(
        self,
        start: int,
        end: int,
        log_min: int,
        timestamp_ms: int,
        boundary: Boundary,
        store_time: StoreTime,
    ) -> int:
        """Find the queue offset for a time; see `rmqcore.queries.time_search.offset_by_time`."""
        return offset_by_time(self, start, end, log_min, timestamp_ms, boundary, store_time)

    @property
    def file_count(self) -> int:
        """Number of files."""
        return len(self.files)

    def spans(self) -> list[tuple[int, int]]:
        """Queue offset of each file's first entry, and how many the file has."""
        return [(file.first_offset, file.entry_count) for file in self.files]
