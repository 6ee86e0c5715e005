"""Reads the ends of ConsumeQueues into the page cache, right after an open: consumers ask for them first."""

from __future__ import annotations

import os
from pathlib import Path

from rmqcore._native.format.layout import CQ_STORE_UNIT_SIZE
from rmqcore.disk.paths import file_name
from rmqcore.disk.read_range import opened

WARM_BYTES = 64 * 1024  # per queue: the newest 3,277 entries


def warm_queue(folder: Path, file_size: int, max_offset: int) -> None:
    """Ask the system to read the newest entries of a queue into the page cache, without waiting for the read.

    Parameters
    ----------
    folder : Path
        The queue's directory.
    file_size : int
        Bytes of each of its files.
    max_offset : int
        Queue offset after its last entry.

    Raises
    ------
    OSError
        The newest file exists and cannot be opened.
    """
    last = max_offset * CQ_STORE_UNIT_SIZE - 1
    if last < 0 or not hasattr(os, "posix_fadvise"):
        return
    start = last // file_size * file_size
    end = last + 1 - start
    begin = max(0, end - WARM_BYTES)
    try:
        with opened(folder / file_name(start), os.O_RDONLY) as fd:
            os.posix_fadvise(fd, begin, end - begin, os.POSIX_FADV_WILLNEED)
    except FileNotFoundError:
        return  # the file has been deleted
