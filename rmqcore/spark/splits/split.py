"""A split: the part of one CommitLog file that one task reads.

A split owns the records, and the damaged ranges, that start in [`start`, `end`), or none where its boundary turns out to be
none (`rmqcore.spark.reading.settle`). The union of a file's splits is what one walk over the file gives, whatever their number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rmqcore.offline.log.log_files import LogFile, LogShape
from rmqcore.spark.storage.store_pin import FileEnd

DEFAULT_MAX_RECORD_SIZE = 4 * 1024 * 1024 + 64 * 1024
"""The largest record at Java's default maxMessageSize: a body of 4 MiB, topic and properties."""

TAIL_RECORDS = 16
"""Boundaries are not told within so many largest records of a file's end: the BLANK there can be longer than the largest record
(a batch that does not fit leaves its whole stored size, 11 times the size at which it was accepted), and what lies under it
may be records of an earlier life of the file, sound and in their place."""


@dataclass(frozen=True, slots=True)
class Split:
    """Parameters of a task's part of the log; small, and sent to it by pickle.

    Attributes
    ----------
    broker : str
        Name of the store.
    file : LogFile
    shape : LogShape
        Of the whole log.
    start, end : int
        CommitLog offsets; `end` is None in the last split of a file: then the walk ends where the file does.
    aligned : bool
        A record or a damaged range is known to start at `start`. Otherwise the task finds the first one at or after it.
    max_record_size : int
        No record is longer, in bytes; see `rmqcore.spark.reading.split_start`.
    cuts : int
        The file was cut into so many parts of one size: `later_boundaries` follow from it. 1: the split ends at `end`,
        whatever lies there.
    last_end : int or None
        As `end`, of the last split of the file that is read: no task goes on behind it. Of no matter where `cuts` is 1.
    check_end : bool
        Have the task compare where its records end with where the next split begins.
    must_reach : bool
        A record, or damage, was seen to end at `farthest_end`: a task that does not come so far as it reads reads another log
        than the planner did.
    walk_to_start : bool
        Have the task walk from the file's beginning to its start: the split before is left out, which would check the start.
    pinned : FileEnd or None
        Where the log ended in the file when the store was pinned. The task that is to end there adds the damage that lay behind
        it; when it ends elsewhere, it reads another log than was pinned.
    """

    broker: str
    file: LogFile
    shape: LogShape
    start: int
    end: int | None
    aligned: bool = True
    max_record_size: int = DEFAULT_MAX_RECORD_SIZE
    cuts: int = 1
    last_end: int | None = None
    check_end: bool = False
    must_reach: bool = False
    walk_to_start: bool = False
    pinned: FileEnd | None = None

    @property
    def byte_count(self) -> int:
        """Bytes from `start` to `end`."""
        return (self.file.end_offset if self.end is None else self.end) - self.start

    @property
    def farthest_end(self) -> int | None:
        """Where the task ends when no boundary before tells; None when that is where the file does."""
        return self.end if self.cuts == 1 else self.last_end


def boundaries(file: LogFile, cuts: int, last: int, number: int = 1) -> Iterator[int]:
    """CommitLog offsets that cut a file into `cuts` parts of one size, from that of part `number` on, none behind `last`."""
    for part in range(number, cuts):
        boundary = file.file_from_offset + part * file.size // cuts
        if boundary > last:
            return
        yield boundary


def last_boundary(file: LogFile, shape: LogShape, max_record_size: int) -> int:
    """The last offset whose surrounding bytes can tell: behind it, and in all of the tail file, stale records may lie."""
    if file.file_from_offset >= shape.tail_from:
        return file.file_from_offset
    return file.end_offset - TAIL_RECORDS * max_record_size
