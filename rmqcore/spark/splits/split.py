"""A split: the part of one CommitLog file that one task reads.

A split owns the records, and the damaged ranges, that start in [`start`, `end`). The union of a file's splits is
what one walk over the file gives, whatever their number.
"""

from __future__ import annotations

from dataclasses import dataclass

from rmqcore.offline.log.log_files import LogFile, LogShape

DEFAULT_MAX_RECORD_SIZE = 4 * 1024 * 1024 + 64 * 1024
"""The largest record at Java's default maxMessageSize: a body of 4 MiB, topic and properties."""


@dataclass(frozen=True, slots=True)
class Split:
    """What a task needs to read its part; small, and sent to it by pickle.

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
        No record is longer, in bytes; see `rmqcore.spark.splits.split_start`.
    check_end : bool
        Have the task compare where its records end with where the next split begins.
    must_reach : bool
        A record, or damage, was seen to end at `end`: a task that does not come so far reads another log than the planner did.
    walk_to_start : bool
        Have the task walk from the file's beginning to its start: the split before is left out, which would check the start.
    """

    broker: str
    file: LogFile
    shape: LogShape
    start: int
    end: int | None
    aligned: bool = True
    max_record_size: int = DEFAULT_MAX_RECORD_SIZE
    check_end: bool = False
    must_reach: bool = False
    walk_to_start: bool = False

    @property
    def byte_count(self) -> int:
        """Bytes from `start` to `end`."""
        return (self.file.end_offset if self.end is None else self.end) - self.start
