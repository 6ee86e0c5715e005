"""A split: the part of one CommitLog file that one task reads.

A split owns the records and damaged ranges that start in [`start`, `end`), or nothing if its boundary does not count
(`rmqcore.spark.reading.settle`). The union of a file's splits equals one walk over the file, for any number of splits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rmqcore.offline.log.log_files import LogFile, LogShape
from rmqcore.spark.storage.store_pin import FileEnd

DEFAULT_MAX_RECORD_SIZE = 4 * 1024 * 1024 + 64 * 1024
"""The largest record at Java's default maxMessageSize: a body of 4 MiB, topic and properties."""

TAIL_RECORDS = 16
"""No boundary lies within this many largest records of a file's end: the BLANK there can be longer than the largest record
(a batch that does not fit leaves its whole stored size, 11 times the size at which it was accepted), and the bytes under it
may be sound records of an earlier use of the file, at their offsets."""


@dataclass(frozen=True, slots=True)
class Split:
    """The part of the log that one task reads; small, and sent to the task by pickle.

    Attributes
    ----------
    broker : str
        Name of the store.
    file : LogFile
    shape : LogShape
        Of the whole log.
    start, end : int
        CommitLog offsets; `end` is None in the last split of a file, whose walk ends where the file does.
    aligned : bool
        A record or a damaged range is known to start at `start`. Otherwise the task finds the first one at or after it.
    max_record_size : int
        No record is longer, in bytes; see `rmqcore.spark.reading.split_start`.
    cuts : int
        Number of equal parts into which the file was cut, from which `later_boundaries` follow. 1: the split ends at
        `end`, whatever lies there.
    last_end : int or None
        `end` of the last split of the file that is read: no task continues behind it. Unused if `cuts` is 1.
    check_end : bool
        Have the task compare the end of its records with the start of the next split.
    must_reach : bool
        The planner saw a record, or damage, end at `farthest_end`: a task that does not reach it reads a different log
        than the planner did.
    walk_to_start : bool
        Have the task walk from the file's beginning to its start, because the split before, whose task would check it,
        is left out.
    pinned : FileEnd or None
        Where the log ended in the file when the store was pinned. The task that ends there adds the damage behind that
        end; a task that ends elsewhere reads a different log than the pinned one.
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
        """Where the task ends if no boundary before counts; None for the end of the file."""
        return self.end if self.cuts == 1 else self.last_end


def boundaries(file: LogFile, cuts: int, last: int, number: int = 1) -> Iterator[int]:
    """Yield the CommitLog offsets that cut a file into `cuts` equal parts, from part `number` on, up to `last`."""
    for part in range(number, cuts):
        boundary = file.file_from_offset + part * file.size // cuts
        if boundary > last:
            return
        yield boundary


def last_boundary(file: LogFile, shape: LogShape, max_record_size: int) -> int:
    """Return the last offset that can be a boundary: behind it, and in all of the tail file, stale records may lie."""
    if file.file_from_offset >= shape.tail_from:
        return file.file_from_offset
    return file.end_offset - TAIL_RECORDS * max_record_size
