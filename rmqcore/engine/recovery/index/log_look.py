"""The files of a log, mapped for a check alone."""

from __future__ import annotations

from bisect import bisect_right
from typing import Self

from rmqcore._native.format.codec import DelayLevels, MessageView
from rmqcore._native.put.log_views import view_at
from rmqcore._native.put.mapped_file import MappedFile, MappedFiles
from rmqcore.engine.log.commitlog import CommitLog

MOST_FILES = 8
"""Files mapped at once: a check of the whole log may not use up what a process may map."""


class LogLook:
    """Reads a CommitLog as dispatch does. Its mappings end with the ``with`` block, and those of the log itself are not touched.

    A store that maps a file of its log only when it is read keeps fewer files mapped, and finds one that was cut before.

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
        self._looked_at: dict[
            int, MappedFiles
        ] = {}  # by the offset at which the file begins: this file alone

    @property
    def min_offset(self) -> int:
        """Start of the first file."""
        return self._starts[0] if self._starts else 0

    def file_starts(self) -> list[int]:
        """Return the offsets at which the files begin."""
        return self._starts

    def window(self, phy_offset: int) -> tuple[memoryview, int, int] | None:
        """Return the bytes of the file that holds an offset, and where it begins and ends; None if no file does."""
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
