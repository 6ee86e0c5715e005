"""The header of an IndexFile, read from the file."""

from __future__ import annotations

import os
from pathlib import Path

from rmqcore._native.format.layout import INDEX_HEADER_SIZE
from rmqcore._native.index.index_reader import IndexHeader, decode_header
from rmqcore.disk.read_range import opened


def read_header(path: Path) -> IndexHeader:
    """Read a file's header. A file that ends inside it is read as if zeros followed, which is how Java maps it.

    Raises
    ------
    OSError
        The file cannot be read.
    """
    with opened(path, os.O_RDONLY) as fd:
        return decode_header(os.pread(fd, INDEX_HEADER_SIZE, 0).ljust(INDEX_HEADER_SIZE, b"\0"))
