"""The CommitLog files of a store in a stream: the file that holds an offset, and the missing parts of the log."""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from rmqcore.errors import DataLossError
from rmqcore.offline.log.log_files import LogFile, LogShape
from rmqcore.offline.queues.log_end import cut_before
from rmqcore.spark.storage.locations import StoreLocation

LOG = logging.getLogger(__name__)


@lru_cache(maxsize=1024)
def warn_once(text: str) -> None:
    """Log a warning the first time only: every batch would repeat it."""
    LOG.warning("%s", text)


@dataclass(frozen=True)
class OffsetInFile:
    """An offset, and the file that holds it.

    Attributes
    ----------
    phy_offset : int
    file : LogFile
    file_end : int
        CommitLog offset at which the file's part of the log ends, whatever its size on disk.
    sealed : bool
        The log continues in the next file, so the broker no longer writes to this file.
    next_file : LogFile or None
    """

    phy_offset: int
    file: LogFile
    file_end: int
    sealed: bool
    next_file: LogFile | None


class StreamFiles:
    """The files of one store at one moment.

    Parameters
    ----------
    location : StoreLocation
    fail_on_data_loss : bool
        Raise if the file of an offset no longer exists; else continue behind the hole.
    """

    def __init__(self, location: StoreLocation, *, fail_on_data_loss: bool = True) -> None:
        self.location = location
        self._fail_on_data_loss = fail_on_data_loss
        self.refresh()

    def refresh(self) -> None:
        """List the directory again."""
        self.files = self.location.log_files()
        self.shape = LogShape.of(self.files)

    @property
    def first_offset(self) -> int | None:
        """CommitLog offset of the first file; None without files."""
        return self.files[0].file_from_offset if self.files else None

    def begin(self) -> int | None:
        """Return `first_offset`, for a reader that begins with the first message of the log.

        Raises
        ------
        DataLossError
            Files before it are empty: their messages are lost, and were not deleted by the broker's cleaner.
        """
        for emptied in self.location.emptied_files():
            self.lost(emptied.start_phy_offset, self.first_offset, "its file has 0 bytes")
        return self.first_offset

    def end_before(self, phy_offset: int) -> bool:
        """Return True if all files end before an offset, also if the last file grows to its full size."""
        if not self.files:
            return False
        last = self.files[-1]
        return phy_offset > last.file_from_offset + max(last.size, self.shape.file_size)

    def find(self, phy_offset: int) -> OffsetInFile | None:
        """Return the place of an offset, or the first place behind the hole that has it; None at the end of the files.

        Raises
        ------
        DataLossError
            The offset lies in a hole, or behind the end of the files.
        """
        while True:
            at = bisect_right(self.files, phy_offset, key=lambda file: file.file_from_offset) - 1
            if at < 0:
                available = self.first_offset
                self.lost(phy_offset, available, "its file was deleted")
                if available is None:
                    return None
                phy_offset = available
                continue
            file, next_file = self.files[at], self._file(at + 1)
            end = file.file_from_offset + max(file.size, self.shape.file_size)
            if next_file is not None:
                end = min(end, next_file.file_from_offset)
            if phy_offset < min(end, file.end_offset):
                sealed = file.file_from_offset < self.shape.tail_from
                return OffsetInFile(phy_offset, file, end, sealed, next_file)
            if next_file is None:
                if phy_offset > end:
                    self.lost(phy_offset, end, "the log ends before it")
                return None
            if phy_offset >= end:
                self.lost(phy_offset, next_file.file_from_offset, "its file was deleted")
            phy_offset = next_file.file_from_offset

    def lost(self, wanted: int, available: int | None, reason: str) -> None:
        """Report a missing part of the log, by an error or a warning."""
        error = DataLossError(self.location.broker, wanted, available, reason)
        if self._fail_on_data_loss:
            raise error
        warn_once(str(error))

    def _file(self, at: int) -> LogFile | None:
        return self.files[at] if at < len(self.files) else None


def log_cut_before(
    location: StoreLocation, files: Sequence[LogFile], phy_offset: int
) -> int | None:
    """Return where a log ends if its queues prove that a recovery cut it before an offset (`cut_before`), else None.

    The queues of a remote store are not fetched for this.
    """
    if not location.is_local:
        return None
    with location.local_copy("consumequeue") as paths:
        return cut_before(paths, files, phy_offset)
