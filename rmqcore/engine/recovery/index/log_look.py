"""Separate mappings of a log's files, for checks."""

from __future__ import annotations

from bisect import bisect_right
from typing import Self

from rmqcore._native.files.log_views import view_at
from rmqcore._native.files.mapped_file import MappedFile, MappedFiles
from rmqcore._native.format.codec import DelayLevels, MessageView
from rmqcore.engine.log.commitlog import CommitLog

MOST_FILES = 8
"""Most files mapped at the same time: a check of the whole log must not use up the mappings of the process."""


class LogLook:
    """Reads a CommitLog as dispatch does. The ``with`` block ends its mappings; the log's own mappings do not change.

    A store that maps log files only for reads keeps fewer files mapped, and notices a file that was cut before the
    read.

    Parameters
    ----------
    commitlog : CommitLog
        Loaded.
    end_offset : int
        CommitLog offset behind the last record.
    """

    def __init__(self, commitlog: CommitLog, end_offset: int) -> None:
        self.delay_levels: DelayLevels = commitlog.delay_levels
        self.max_offset = end_offset
        self._files = commitlog.files.files
        self._starts = [file.file_from_offset for file in self._files]
        self._looked_at: dict[int, MappedFiles] = {}  # one file, by its start

    @property
    def min_offset(self) -> int:
        """Start of the first file."""
        return self._starts[0] if self._starts else 0

    def file_starts(self) -> list[int]:
        """Return the CommitLog offsets at which the files start."""
        return self._starts

    def window(self, phy_offset: int) -> tuple[memoryview, int, int] | None:
        """Return the bytes of the file that holds an offset, and its start and end; None if no file holds it."""
        files = self._file_of(phy_offset)
        if files is None:
            return None
        (file,) = files.files
        start = file.file_from_offset
        return memoryview(file), start, start + file.file_size

    def view_at(self, phy_offset: int) -> MessageView | None:
        """Return the message whose record starts at an offset; None if no record does."""
        files = self._file_of(phy_offset)
        if files is None:
            return None
        return view_at(files, phy_offset, self.max_offset, self.delay_levels)

    def _file_of(self, phy_offset: int) -> MappedFiles | None:
        at = bisect_right(self._starts, phy_offset) - 1
        if at < 0 or phy_offset >= self._starts[at] + self._files[at].file_size:
            return None
        file, start = self._files[at], self._starts[at]
        if start not in self._looked_at:
            if len(self._looked_at) == MOST_FILES:
                del self._looked_at[next(iter(self._looked_at))]
            own = MappedFile(file.path, file.file_size, start)
            self._looked_at[start] = MappedFiles(file.file_size, (own,))
        return self._looked_at[start]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for files in self._looked_at.values():
            files.replace(())
        self._looked_at.clear()
