"""Hash slots of an IndexFile that lead to no entry, though entries of the file belong to them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from rmqcore._native.format.layout import INDEX_HEADER_SIZE, INDEX_SLOT_SIZE
from rmqcore._native.index.index_reader import IndexHeader
from rmqcore.disk.index.index_check import MOST_SLOTS
from rmqcore.disk.index.index_entries import read_entries
from rmqcore.disk.read_range import read_range


def lost_slots(path: Path, header: IndexHeader, slot_count: int) -> npt.NDArray[np.int64]:
    """Return the numbers of the lost slots, ascending.

    The slots are counted first: a sound file has as many in use as its header says, and its entries are not read. Those of
    a file that RocketMQ before 4.7.1 wrote are: it counts a slot for each entry. A broker that writes the file puts an
    entry into its slot before the header counts it, so a header that was read before the slots never counts too many.

    Parameters
    ----------
    path : Path
    header : IndexHeader
        Read from the file before the call.
    slot_count : int
        Slots that the file has room for. A file with more than `MOST_SLOTS` is not looked at, which fsck reports.

    Raises
    ------
    OSError
        The file cannot be read.
    """
    none = np.empty(0, np.int64)
    if slot_count > MOST_SLOTS:
        return none
    table = read_range(path, INDEX_HEADER_SIZE, INDEX_SLOT_SIZE * slot_count)
    if len(table) < INDEX_SLOT_SIZE * slot_count:  # the cleaner has deleted it, or it is short
        return none
    empty = np.frombuffer(table, ">i4") <= 0
    if slot_count - np.count_nonzero(empty) >= header.hash_slot_count:
        return none
    belonging = np.zeros(slot_count, bool)
    for _, entries in read_entries(path, slot_count, 1, header.index_count):
        belonging[entries["key_hash"].astype(np.int64) % slot_count] = True
    return np.flatnonzero(empty & belonging)
