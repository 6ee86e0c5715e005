"""The new log: files of the store's size, filled from the first byte to the last record without a gap."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator

from rmqcore._native.format.layout import MAGIC_BLANK
from rmqcore._native.threads.descriptor import Descriptor
from rmqcore.disk.data_extents import data_ranges
from rmqcore.disk.inside.folder import Folder
from rmqcore.disk.inside.opened import naming, write_all
from rmqcore.disk.paths import file_name
from rmqcore.errors import StoreError, is_of_the_system
from rmqcore.maintenance.salvage.close_gaps import with_longer_properties
from rmqcore.maintenance.salvage.filler import fillers
from rmqcore.vocabulary.units import PAGE

BLANK_SIZE = 8
"""Least bytes that a record leaves free: for the BLANK that ends each file."""
PIECE = 1 << 20
AT_ONCE = 64 << 20
"""Most bytes to copy in one call: signal handlers run between two calls."""
_CANNOT = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.ETXTBSY}


class NewLog:
    """The files of the new log, one of which is open.

    Parameters
    ----------
    folder : Folder
        Becomes the ``commitlog`` folder.
    file_size : int

    Attributes
    ----------
    end : int
        CommitLog offset behind the last record; -1 before the first one.
    filled_bytes : int
        Bytes of records that stand for lost ones.
    """

    def __init__(self, folder: Folder, file_size: int) -> None:
        self.end = -1
        self.filled_bytes = 0
        self._last = -1
        # Records of `put` that are not written yet: `close_gap` may still lengthen the last one.
        self._held = bytearray()
        self._held_from = -1
        self._folder = folder
        self._file_size = file_size
        self._start = -1
        self._file: Descriptor | None = None
        self._kernel_copies = hasattr(os, "copy_file_range")

    def copy(
        self,
        source: Descriptor,
        source_from_offset: int,
        begin: int,
        end: int,
        timestamp_ms: int,
        *,
        last: int,
    ) -> None:
        """Copy sound records from a file of the old log, after the fillers that stand for what lies before them.

        Parameters
        ----------
        source : Descriptor
        source_from_offset : int
            CommitLog offset of its first byte.
        begin, end : int
            Where the records lie, all in one file.
        timestamp_ms : int
            Store time of the first one.
        last : int
            Where the last one lies.

        Raises
        ------
        OSError
            The disk is full, or bytes cannot be read.
        StoreError
            The old file was cut since the records were read.
        """
        self._write_held()
        self._fill_to(begin, timestamp_ms)
        target = self._open(begin).fileno()
        shift = begin - begin % self._file_size - source_from_offset
        for first, stop in _parts(
            source.fileno(), begin - source_from_offset, end - source_from_offset
        ):
            self._copy(source.fileno(), target, first, stop, first - shift)
        self.end, self._last = end, last

    def put(self, records: bytes, phy_offset: int, timestamp_ms: int, *, last: int) -> None:
        """Append sound records whose first one lies at `phy_offset`; they stay in memory until about 1 MiB is gathered."""
        if phy_offset != self.end or not self._held:
            self._write_held()
            self._fill_to(phy_offset, timestamp_ms)
            self._held_from = phy_offset
        self._held += records
        self.end, self._last = phy_offset + len(records), last
        if len(self._held) >= PIECE:
            self._write_held()

    def close_gap(self, phy_offset: int) -> bool:
        """Lengthen the last record up to a CommitLog offset in the same file; return False if its properties have no room."""
        if self._held:
            record = bytes(self._held[self._last - self._held_from :])
        else:
            fd = self._open(self._last).fileno()
            with naming(self._path):
                record = os.pread(fd, self.end - self._last, self._last % self._file_size)
        longer = with_longer_properties(record, phy_offset - self.end)
        if longer is None:
            return False
        if self._held:
            self._held[self._last - self._held_from :] = longer
        else:
            self._write(self._last, longer)
        self.end = phy_offset
        return True

    def close(self) -> None:
        """Write the records in memory, and close the open file."""
        try:
            self._write_held()
        finally:
            self._close_file()

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write_held(self) -> None:
        held, self._held = self._held, bytearray()
        if held:
            self._write(self._held_from, memoryview(held))

    # ---- what lies between records ------------------------------------------------------------------

    def _fill_to(self, begin: int, timestamp_ms: int) -> None:
        if self.end < 0:
            self.end = begin - begin % self._file_size
        while self.end // self._file_size < begin // self._file_size:
            room = self._file_size - self.end % self._file_size
            self._write(self.end, struct.pack(">ii", room, MAGIC_BLANK))
            self.end += room
        if self.end < begin:
            for phy_offset, data in fillers(self.end, begin, timestamp_ms):
                self._write(phy_offset, data)
            self.filled_bytes += begin - self.end

    def _write(self, phy_offset: int, data: bytes | memoryview) -> None:
        file = self._open(phy_offset)
        with naming(self._path):
            write_all(file.fileno(), data, phy_offset % self._file_size)

    def _open(self, phy_offset: int) -> Descriptor:
        """The file of a CommitLog offset; a new one has its whole length, and no block yet."""
        start = phy_offset - phy_offset % self._file_size
        if self._file is None or start != self._start:
            self._close_file()
            self._start = start
            name = file_name(start)
            self._file = self._folder.open_file(name, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            with naming(self._path):
                os.ftruncate(self._file.fileno(), self._file_size)
        return self._file

    @property
    def _path(self) -> str:
        return os.fspath(self._folder.path / file_name(self._start))

    # ---- bytes --------------------------------------------------------------------------------------

    def _copy(self, source: int, target: int, first: int, last: int, pos: int) -> None:
        with naming(self._path):
            while first < last:
                done = self._copy_some(source, target, first, last, pos)
                if done == 0:
                    raise cut_meanwhile(file_name(self._start))
                first, pos = first + done, pos + done

    def _copy_some(self, source: int, target: int, first: int, last: int, pos: int) -> int:
        piece = min(PIECE, last - first)
        if first % PAGE and last - first >= PIECE:
            piece = min(piece, PAGE - first % PAGE)  # blocks that are shared begin where one does
        elif self._kernel_copies and last - first >= PIECE:
            try:
                return os.copy_file_range(source, target, min(AT_ONCE, last - first), first, pos)
            except OSError as error:
                if not is_of_the_system(error) or error.errno not in _CANNOT:
                    raise
                self._kernel_copies = False
        data = os.pread(source, piece, first)
        write_all(target, data, pos)
        return len(data)


def cut_meanwhile(name: str) -> StoreError:
    """Error for a file of the old log that was cut after its records were read."""
    return StoreError(f"a file of the log was cut while it was read: run salvage again ({name})")


def _parts(fd: int, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """What of a range is no hole; a short range is not worth the question."""
    if end - begin < PIECE:
        return iter([(begin, end)])
    return data_ranges(fd, begin, end)
