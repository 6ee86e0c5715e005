"""Parts of a file that are not holes, and the end of the bytes written to a file of full length."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from rmqcore._native.scan import places
from rmqcore.disk.read_range import opened, read_exactly
from rmqcore.errors import StoreFormatError, is_of_the_system

CHUNK = 256 * 1024
"""Bytes of one read: few, so that the next read reuses the same memory in a core's cache."""


def used_end(path: str, begin: int, end: int) -> int:
    """Return the position behind the last byte in [begin, end) of a file that is not zero; `begin` if all are zero."""
    with opened(path, os.O_RDONLY) as fd:
        size = os.fstat(fd).st_size
        if size < end:
            raise StoreFormatError(f"{path}: file size is {size}, expected {end}")
        for first, last in reversed(list(data_ranges(fd, begin, end))):
            stop = last
            while stop > first:
                at = max(first, stop - CHUNK)
                data = read_exactly(fd, path, at, stop)
                used = places.used_bytes(data, len(data))
                if used:
                    return at + used
                stop = at
    return begin


def data_ranges(fd: int, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of [begin, end) that are not holes, as far as the file system reports them."""
    extents = DataExtents(fd, end)
    pos = begin
    while pos < end:
        first, pos = extents.following(pos)
        if first < pos:
            yield first, pos


class DataExtents:
    """The parts of an open file that are not holes, searched one after the other.

    The last answer of the file system is kept, so repeated scans of a file with many holes look up each hole once.

    Parameters
    ----------
    fd : int
    end : int
        Bytes behind this position do not count.
    """

    def __init__(self, fd: int, end: int) -> None:
        self._fd = fd
        self._end = end
        self._asked = self._first = self._last = 0

    def following(self, pos: int) -> tuple[int, int]:
        """Return start and end of the next data from `pos` on, as the file system reports it; empty without any.

        Raises
        ------
        OSError
            Raised by a signal handler only: after an error of the file system every byte counts as data.
        """
        if not self._asked <= pos < self._last:
            self._asked = pos
            self._first, self._last = self._ask(pos)
        return max(pos, self._first), max(pos, self._last)

    def _ask(self, pos: int) -> tuple[int, int]:
        if pos >= self._end or not hasattr(os, "SEEK_DATA"):
            return pos, max(pos, self._end)
        try:
            first = os.lseek(self._fd, pos, os.SEEK_DATA)
            last = os.lseek(self._fd, first, os.SEEK_HOLE)
        except OSError as error:
            if not is_of_the_system(error):
                raise
            if error.errno == errno.ENXIO:
                return self._end, self._end
            return pos, self._end  # the file system does not report holes: every byte may be data
        return min(first, self._end), min(last, self._end)
