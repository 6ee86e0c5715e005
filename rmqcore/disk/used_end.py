"""Where the bytes of a file that was made at its full length end."""

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
    """Give the position behind the last byte of [begin, end) in a file that is not zero; `begin` when all bytes are zero."""
    with opened(path, os.O_RDONLY) as fd:
        size = os.fstat(fd).st_size
        if size < end:
            raise StoreFormatError(f"{path}: file size is {size}, expected {end}")
        for first, last in reversed(list(_data_ranges(fd, begin, end))):
            stop = last
            while stop > first:
                at = max(first, stop - CHUNK)
                data = read_exactly(fd, path, at, stop)
                used = places.used_bytes(data, len(data))
                if used:
                    return at + used
                stop = at
    return begin


def _data_ranges(fd: int, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Give the parts of [begin, end) that are no holes, as far as the file system tells."""
    if not hasattr(os, "SEEK_DATA"):
        yield begin, end
        return
    pos = begin
    while pos < end:
        try:
            first = os.lseek(fd, pos, os.SEEK_DATA)
            pos = os.lseek(fd, first, os.SEEK_HOLE)
        except OSError as error:
            if not is_of_the_system(error):
                raise
            if error.errno != errno.ENXIO:  # the file system cannot tell: every byte may be data
                yield pos, end
            return
        if first < end:
            yield first, min(pos, end)
