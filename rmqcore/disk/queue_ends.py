"""Start and end of a queue, found from its entries by the rules of Java's recovery."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rmqcore._native.format.cq import prefix_below, valid_prefix
from rmqcore._native.format.cq_arrays import unpack_cq_entries
from rmqcore._native.format.layout import CQ_FILLER_SIZE
from rmqcore.disk.paths import MAX_OFFSET
from rmqcore.disk.queue_files import QueueFile

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
        First queue offset of a file, and the number of its entries known to be valid: an earlier result to continue
        from.

    Returns
    -------
    tuple
        The index in `files` of the file in which the entries end, and the number of valid entries in it; (-1, 0)
        without files.

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


def truncated_end(files: Sequence[QueueFile], at: int, valid: int, log_end: int) -> tuple[int, int]:
    """Find the end of a queue after the entries of messages at or after CommitLog offset `log_end` are cut.

    `at` and `valid` are the result of `recovered_end`, and this result has the same form; (-1, 0) if no entry is left.
    A file whose first entry is cut is dropped whole. Java accepts a file's first entry without a check; here a file
    that starts with an invalid entry is dropped too.

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
    """Count the entries of a file before the first that is invalid or beyond `log_end`; the first `known` are not read."""
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
    """Return the last entry of a queue that ends behind the first `valid` entries of file `at`; None if empty."""
    if valid == 0:
        if at <= 0:
            return None
        at, valid = at - 1, files[at - 1].entry_count
    entry = unpack_cq_entries(files[at].read(valid - 1, 1))
    return entry[0] if len(entry) else None


def newest_by_bisection(files: Sequence[QueueFile]) -> np.void | None:
    """Find the newest entry of a queue of any length in a few reads; None if its last files have no entry.

    Entries lie side by side from a file's first byte on, followed by zeros. In a damaged queue the result is some entry
    before a place without one. Fillers do not count, nor do entries whose messages do not lie behind those of their
    neighbours.
    """
    for file in reversed(files[-RECOVERED_FILES:]):
        known = _entries_by_bisection(file)
        if known == 0:
            continue
        first = max(0, known - 2)
        *before, newest = unpack_cq_entries(file.read(first, known - first))
        is_sound = end_of_message(newest) >= 0 and all(
            end_of_message(entry) <= int(newest["phy_offset"]) for entry in before
        )
        return newest if is_sound else None
    return None


def _entries_by_bisection(file: QueueFile) -> int:
    """Return the number of entries of a file, if all are valid."""
    low = valid_prefix(file.read(0, FIRST_CHUNK))
    if low < FIRST_CHUNK:
        return low
    high = file.entry_count
    while low < high:
        middle = (low + high) // 2
        if valid_prefix(file.read(middle, 1)):
            low = middle + 1
        else:
            high = middle
    return low


def end_of_message(entry: np.void | None) -> int:
    """CommitLog offset behind the message of an entry; -1 for a filler, and for None."""
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

    Only the first file is searched, so the result can stay the same although that whole file has expired; in a queue
    that was rebuilt from the middle of a file on, it can be the offset of a filler.

    Parameters
    ----------
    known_min, end : int
        The queue's min offset so far (0 after a load) and its max offset.
    first_offset, first_count : int
        Queue offset of the first file's first entry, and the number of that file's entries before `end`.
    log_min : int
        CommitLog offset of the log's first byte.
    newest_phy_offset : int
        The CommitLog offset in the last entry; -1 if the last file has no entry (Java does not search further back).
    phy_offset : callable
        Returns the CommitLog offset in the entry at a queue offset; -1 if the entry cannot be read.

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
