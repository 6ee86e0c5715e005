"""Where a file holds bytes at all: its parts that are no holes, and where what was written to a file of its full length ends."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from rmqcore._native.scan import places
from rmqcore.disk.read_range import opened, read_exactly
from rmqcore.errors import StoreFormatError, is_of_the_system

CHUNK = 256 * 1024
"""So little that the memory of one read serves the next, and stays in a core's cache."""


def used_end(path: str, begin: int, end: int) -> int:
    """Return the position behind the last byte of [begin, end) in a file that is not zero; `begin` when all bytes are zero."""
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
    """The parts of an open file that are no holes, asked for one after the other.

    A file of many holes is asked about each once, however often it is gone over: the last answer is kept.

    Parameters
    ----------
    fd : int
    end : int
        What lies behind this position does not count.
    """

    def __init__(self, fd: int, end: int) -> None:
        self._fd = fd
        self._end = end
        self._asked = self._first = self._last = 0

    def following(self, pos: int) -> tuple[int, int]:
        """The first bytes at or behind `pos` that are no hole, as far as the file system tells; without any, none at the end.

        Raises
        ------
        OSError
            A signal handler's, never one of the file system: then every byte may be data.
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
            return pos, self._end  # the file system cannot tell: every byte may be data
        return min(first, self._end), min(last, self._end)
