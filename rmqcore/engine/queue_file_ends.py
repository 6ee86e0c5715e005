"""Where a queue begins and ends, found from its entries: the rules of Java's recovery."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rmqcore._native.cq import CQ_FILLER_SIZE, prefix_below, unpack_cq, valid_prefix
from rmqcore.engine.paths import MAX_OFFSET
from rmqcore.engine.queue_files import QueueFile

RECOVERED_FILES = 3
"""Java's recovery of a queue starts at the third file from the end."""
FIRST_CHUNK = 200
CHUNK_ENTRIES = 50_000


def recovered_end(files: Sequence[QueueFile], known: tuple[int, int] = (-1, 0)) -> tuple[int, int]:
    """Find where the entries of a queue end: up to the first invalid one, from the third file from the end on.

    Parameters
    ----------
    files : sequence of QueueFile
        Oldest first.
    known : (int, int)
        First offset of a file, and how many of its entries are known to be valid: an earlier answer, to go on from.

    Returns
    -------
    tuple
        The place in the list of the file in which they end, and the valid entries there; (-1, 0) without files.

    Notes
    -----
    Source: RocketMQ 5.5.0 ConsumeQueue#recover.
    """
    if not files:
        return -1, 0
    at, valid = max(0, len(files) - RECOVERED_FILES), 0
    for place in range(at, len(files)):
        if files[place].first_offset == known[0]:
            at, valid = place, known[1]
    while True:
        valid = count_entries(files[at], valid, None)
        if valid < files[at].entry_count or at == len(files) - 1:
            return at, valid
        at, valid = at + 1, 0


def first_hole(files: Sequence[QueueFile], phy_offset: int) -> tuple[int, int] | None:
    """Find the first place behind which entries are missing, in the files with messages at or behind a CommitLog offset.

    A power cut can leave a younger file of a queue and take an older one, or pages of it: `recovered_end` sees that in the newest
    three files only, and entries before the end are not made again.

    Parameters
    ----------
    files : sequence of QueueFile
        Oldest first; the last one has valid entries at its start.
    phy_offset : int
        Entries of older messages are known to be there.

    Returns
    -------
    tuple or None
        As `recovered_end`; None when nothing is missing. The file of the answer may have no valid entry.
    """
    at = len(files) - 1
    while at > 0 and not _begins_before(files[at], phy_offset):
        at -= 1
    for place in range(at, len(files) - 1):
        file = files[place]
        valid = count_entries(file, 0, None)
        follows = files[place + 1].file_from_offset == file.file_from_offset + file.size
        if valid < file.entry_count or not follows:
            return place, valid
    return None


def _begins_before(file: QueueFile, phy_offset: int) -> bool:
    """Whether a file's first entry is one of an older message."""
    return prefix_below(file.read(0, 1), phy_offset) > 0


def truncated_end(files: Sequence[QueueFile], at: int, valid: int, log_end: int) -> tuple[int, int]:
    """Find where they end without those of messages at or after `log_end`, given where `recovered_end` says that they do.

    A file that begins with such an entry goes as a whole; (-1, 0) when none is left. Java takes the first entry of a file even
    if it is invalid; here the file before it is looked at then.

    Source: RocketMQ 5.5.0 ConsumeQueue#truncateDirtyLogicFiles.
    """
    for place in range(at, -1, -1):
        kept = count_entries(files[place], 0, log_end)
        if place == at:
            kept = min(kept, valid)
        if kept > 0:
            return place, kept
    return -1, 0


def count_entries(file: QueueFile, known: int, log_end: int | None) -> int:
    """Entries of a file before the first that is invalid or beyond `log_end`; `known` of them need no look."""
    chunk = FIRST_CHUNK
    while known < file.entry_count:
        data = file.read(known, chunk)
        good = valid_prefix(data) if log_end is None else prefix_below(data, log_end)
        known += good
        if good < chunk:
            break
        chunk = CHUNK_ENTRIES
    return known


def newest_entry(files: Sequence[QueueFile], at: int, valid: int) -> np.void | None:
    """The last of the entries that end there, None without any."""
    if valid == 0:
        if at <= 0:
            return None
        at, valid = at - 1, files[at - 1].entry_count
    entry = unpack_cq(files[at].read(valid - 1, 1))
    return entry[0] if len(entry) else None


def end_of_message(entry: np.void | None) -> int:
    """CommitLog offset behind the message of an entry; -1 without one, and for a filler."""
    if entry is None or int(entry["msg_size"]) == CQ_FILLER_SIZE:
        return -1
    return min(int(entry["phy_offset"]) + int(entry["msg_size"]), MAX_OFFSET)


def corrected_min(
    known_min: int,
    end: int,
    first_offset: int,
    first_count: int,
    log_min: int,
    newest_phy_offset: int,
    phy_offset: Callable[[int], int],
) -> int:
    """Find the queue offset of the first entry whose message the CommitLog still holds.

    Only the first file is searched, so the answer can be what it was although that whole file has expired; in a queue that was
    rebuilt from mid-file on, it can be one of the fillers there.

    Parameters
    ----------
    known_min, end : int
        The queue's min offset so far (0 after a load) and its max offset.
    first_offset, first_count : int
        Queue offset of the first file's first entry, and how many entries before `end` that file has.
    log_min : int
        CommitLog offset of its first byte.
    newest_phy_offset : int
        What the last entry says; -1 when the last file has none (Java does not look further back).
    phy_offset : callable
        What the entry at a queue offset says, -1 when it cannot be read.

    Notes
    -----
    Source: RocketMQ 5.5.0 ConsumeQueue#correctMinOffset.
    """
    if known_min >= end or first_count <= 0:
        return known_min
    if 0 <= newest_phy_offset < log_min:
        return end
    start = max(known_min - first_offset, 0)
    if start >= first_count:
        return known_min
    if known_min >= first_offset and phy_offset(first_offset + start) >= log_min:
        return known_min
    low, high = 0, first_count - start - 1
    base = first_offset + start
    while high - low > 1:
        middle = (low + high) // 2
        found = phy_offset(base + middle)
        if found == log_min:
            low = high = middle
        elif found > log_min:
            high = middle
        else:
            low = middle
    for place in range(low, high + 1):
        if phy_offset(base + place) >= log_min:
            return base + place
    return known_min
