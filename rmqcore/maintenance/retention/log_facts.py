"""The files of a log with what decides on them: when they were changed, and when their records were stored."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from rmqcore.offline.log.log_files import LogFile, LogShape
from rmqcore.offline.log.store_times import Stored, first_stored, last_stored
from rmqcore.offline.log.walk import Progress


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A file with data; `first` and `last` are None if it has no record."""

    file: LogFile
    disk_bytes: int
    mtime_ms: int
    first: Stored | None
    last: Stored | None


@dataclass(frozen=True)
class LogFacts:
    """A log, without empty files that were made ahead.

    Attributes
    ----------
    files : sequence of FileFacts
        Oldest first.
    shape : LogShape
    end_phy_offset : int
        Behind the last record.
    """

    files: Sequence[FileFacts]
    shape: LogShape
    end_phy_offset: int

    @property
    def begins_at(self) -> int:
        """CommitLog offset of the first byte."""
        return self.files[0].file.file_from_offset if self.files else 0

    @property
    def disk_bytes(self) -> int:
        """Bytes that all files use on disk."""
        return sum(facts.disk_bytes for facts in self.files)


def read_log(files: list[LogFile], progress: Progress | None = None) -> LogFacts:
    """Gather the facts: of each file the first and the last records are read."""
    shape = LogShape.of(files)
    found: list[FileFacts] = []
    done, total = 0, sum(file.size for file in files)
    for file in files:
        done += file.size
        if progress is not None:
            progress(done, total)
        if file.link_of is not None or file.file_from_offset > shape.tail_from:
            continue
        try:
            status = os.stat(file.path)
            first = first_stored(file, shape)
            last = None if first is None else last_stored(file, shape)
        except FileNotFoundError:  # cleaned since it was listed
            continue
        mtime_ms = status.st_mtime_ns // 1_000_000
        found.append(FileFacts(file, status.st_blocks * 512, mtime_ms, first, last))
    ends = (facts.last.end_phy_offset for facts in reversed(found) if facts.last is not None)
    return LogFacts(found, shape, next(ends, found[0].file.file_from_offset if found else 0))
