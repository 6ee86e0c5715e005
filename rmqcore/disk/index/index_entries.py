"""The entries of an IndexFile, read a chunk at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rmqcore._native.format.layout import INDEX_ENTRY_SIZE, index_file_size
from rmqcore._native.index.index_reader import INDEX_ENTRY_DTYPE
from rmqcore.disk.read_range import read_range

CHUNK_ENTRIES = 1 << 18


def read_entries(
    path: Path, slot_count: int, first: int, stop: int
) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """Yield the entries with numbers [first, stop) as ``(number of the first, entries)``; fewer if the file ends early.

    The entries have the fields key_hash, phy_offset, time_diff, prev_index as they are on disk, big-endian.

    Raises
    ------
    OSError
        The file cannot be read.
    """
    base = index_file_size(slot_count, 0)
    while first < stop:
        count = min(CHUNK_ENTRIES, stop - first)
        data = read_range(path, base + INDEX_ENTRY_SIZE * first, INDEX_ENTRY_SIZE * count)
        raw = np.frombuffer(data[: len(data) - len(data) % INDEX_ENTRY_SIZE], INDEX_ENTRY_DTYPE)
        if not len(raw):
            return
        yield first, raw
        first += len(raw)
