"""Two stores' queues, entry by entry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import merge

import numpy as np

from rmqcore.disk.paths import StorePaths
from rmqcore.offline.diff.report import QueueDifference
from rmqcore.offline.queues.queue_reader import QueueFiles
from rmqcore.offline.queues.queues import each_batch_queue, each_queue, max_offset, min_offset

AT_ONCE = 65_536
"""Entries that are compared at once."""
MOST = 100_000

Bounds = tuple[int, int]
"""Where the log of a store begins and ends."""


@dataclass
class QueuesDiff:
    """Result of the comparison of all queues; see `DiffReport`."""

    queues: list[QueueDifference] = field(default_factory=list)
    compared_queues: int = 0
    compared_entries: int = 0
    differing_queues: int = 0
    only_a: int = 0
    only_b: int = 0


def compare_queues(a: StorePaths, b: StorePaths, log_a: Bounds, log_b: Bounds) -> QueuesDiff:
    """Compare every queue that either store has, those of batches too.

    Where a queue begins is no difference: that is when its store's cleaner looked at it last.
    """
    found = QueuesDiff()
    for left, right in _pairs(_queues(a), _queues(b)):
        one = _compare(left, right, log_a, log_b, found)
        found.compared_queues += 1
        if one.differing_entries or one.only_a or one.only_b:
            found.differing_queues += 1
            found.only_a += one.only_a
            found.only_b += one.only_b
            if len(found.queues) < MOST:
                found.queues.append(one)
    return found


def _queues(paths: StorePaths) -> Iterator[QueueFiles]:
    return merge(each_queue(paths), each_batch_queue(paths), key=_key)


def _pairs(
    left: Iterator[QueueFiles], right: Iterator[QueueFiles]
) -> Iterator[tuple[QueueFiles | None, QueueFiles | None]]:
    """Queues of the same name, or one that only one side has; both sides come by topic and queue id."""
    one, other = next(left, None), next(right, None)
    while one is not None or other is not None:
        order = 0
        if one is None or other is None:
            order = -1 if other is None else 1
        elif _key(one) != _key(other):
            order = -1 if _key(one) < _key(other) else 1
        yield one if order <= 0 else None, other if order >= 0 else None
        if order <= 0:
            one = next(left, None)
        if order >= 0:
            other = next(right, None)


def _key(queue: QueueFiles) -> tuple[str, int]:
    return queue.topic, queue.queue_id


def _compare(
    left: QueueFiles | None,
    right: QueueFiles | None,
    log_a: Bounds,
    log_b: Bounds,
    found: QueuesDiff,
) -> QueueDifference:
    named = left or right
    assert named is not None
    min_a, max_a = _bounds(left, log_a)
    min_b, max_b = _bounds(right, log_b)
    differing, first = 0, None
    begin, end = max(min_a, min_b), min(max_a, max_b)
    if left is not None and right is not None and begin < end:
        found.compared_entries += end - begin
        differing, first = _differing(left, right, begin, end)
    return QueueDifference(
        named.topic,
        named.queue_id,
        min_a,
        max_a,
        min_b,
        max_b,
        differing,
        first,
        max(0, max_a - max(min_a, max_b)),
        max(0, max_b - max(min_b, max_a)),
    )


def _bounds(queue: QueueFiles | None, log: Bounds) -> Bounds:
    if queue is None:
        return 0, 0
    end = max_offset(queue, log[1])
    return min_offset(queue, log[0], end), end


def _differing(left: QueueFiles, right: QueueFiles, begin: int, end: int) -> tuple[int, int | None]:
    """How many entries differ, and the first; where one side lacks entries in the middle they differ."""
    count, first = 0, None
    for at in range(begin, end, AT_ONCE):
        size = min(AT_ONCE, end - at)
        one, other = left.entries(at, size), right.entries(at, size)
        both = min(len(one), len(other))
        unequal = np.flatnonzero(one[:both] != other[:both])
        count += len(unequal) + size - both
        if first is None and (len(unequal) or both < size):
            first = at + (int(unequal[0]) if len(unequal) else both)
    return count, first
