"""Queue offsets by store time in a database, with Java's answers at every edge: they differ from those of queue files."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rmqcore.queries.time_search import Boundary

NONE = -1


class TimedEntry(NamedTuple):
    """Where the message of an entry lies, and when it was stored."""

    phy_offset: int
    store_timestamp_ms: int


def offset_by_time(
    entry: Callable[[int], TimedEntry | None],
    first: int,
    last: int,
    log_min: int,
    timestamp_ms: int,
    boundary: Boundary,
) -> int:
    """Find the queue offset for a time, in a queue with entries of queue offsets `first` to `last`.

    `entry` returns the entry at a queue offset, None where none is.

    Source: RocketMQ 5.5.0 RocksDBConsumeQueueTable#binarySearchInCQByTime.
    """
    lower = boundary is Boundary.LOWER
    newest, oldest = entry(last), entry(first)
    if newest is not None and newest.store_timestamp_ms < timestamp_ms:
        return last + 1 if lower else last
    if oldest is not None and oldest.store_timestamp_ms > timestamp_ms:
        return first if lower else 0
    low, high = first, last
    left = right = NONE
    while low <= high:
        middle = (low + high) // 2
        found = entry(middle)
        if found is None:
            low = middle + 1
        elif found.phy_offset < log_min:
            low, left = middle + 1, middle
        elif found.store_timestamp_ms < 0:
            return 0
        elif found.store_timestamp_ms == timestamp_ms:
            return _edge_of_equal(entry, middle, first, last, timestamp_ms, -1 if lower else 1)
        elif found.store_timestamp_ms > timestamp_ms:
            high, right = middle - 1, middle
        else:
            low, left = middle + 1, middle
    return right if lower else left


def _edge_of_equal(
    entry: Callable[[int], TimedEntry | None],
    found: int,
    first: int,
    last: int,
    timestamp_ms: int,
    step: int,
) -> int:
    """The first or last of a run of entries with the same time."""
    while first <= found + step <= last:
        following = entry(found + step)
        if following is None or following.store_timestamp_ms != timestamp_ms:
            break
        found += step
    return found
