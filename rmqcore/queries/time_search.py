"""Queue offsets by store time, with Java's answers at every edge."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol, Self

from rmqcore._native.format.layout import CQ_FILLER_SIZE

StoreTime = Callable[[int], int]
"""Gives the store timestamp in milliseconds of the message at a phy offset; -1 when no message is there."""


class QueueEntries(Protocol):
    """The methods of a queue that a search needs."""

    def spans(self) -> list[tuple[int, int]]:
        """Return the queue offset of each file's first entry, oldest first, and the number of entries in the file."""

    def entries(self, start: int, count: int) -> Any:
        """Return entries from a queue offset on, as a structured array."""


class Boundary(Enum):
    """Which of two neighbouring messages a time between them selects. Source: RocketMQ 5.5.0 BoundaryType."""

    LOWER = "LOWER"
    """The first message stored at or after the time."""
    UPPER = "UPPER"
    """The last message stored at or before the time."""

    @classmethod
    def of(cls, text: object) -> Self:
        """Return the boundary of a name.

        Raises
        ------
        ValueError
            The name is unknown.
        """
        names = [side.value for side in cls]
        if text not in names:
            raise ValueError(f"boundary {text!r}: expected one of {', '.join(names)}")
        return cls(text)


def offset_by_time(
    queue: QueueEntries,
    start: int,
    end: int,
    log_min: int,
    timestamp_ms: int,
    boundary: Boundary,
    store_time: StoreTime,
) -> int:
    """Find the queue offset for a time, between `start` and `end`, the queue's min and max offset.

    An entry that fills the place before a queue's first message counts as older than any message. In Java the search
    returns 0 when it meets a filler, unless the log has lost its first file.

    Source: RocketMQ 5.5.0 ConsumeQueue#getOffsetInQueueByTime.
    """
    search = _Search(queue, start, end, log_min, timestamp_ms, boundary, store_time)
    return min(max(search.run(), start), end)


class _Search:
    def __init__(
        self,
        queue: QueueEntries,
        start: int,
        end: int,
        log_min: int,
        timestamp_ms: int,
        boundary: Boundary,
        store_time: StoreTime,
    ) -> None:
        self.queue = queue
        self.start = start
        self.end = end
        self.log_min = log_min
        self.timestamp_ms = timestamp_ms
        self.lower = boundary is Boundary.LOWER
        self.store_time = store_time

    def run(self) -> int:
        span = self._span()
        if span is None:
            return 0
        first, count = span
        floor = max(first, self.start)
        ceiling = min(first + count, self.end) - 1
        if ceiling < floor:
            return 0
        if self._time(ceiling) < self.timestamp_ms:
            return ceiling + 1 if self.lower else ceiling
        if self._time(floor) > self.timestamp_ms:
            return first if self.lower else 0
        return self._binary_search(first, floor, ceiling)

    def _phy_offset(self, queue_offset: int) -> int:
        """Return the phy offset of an entry; -1 if it is missing, or a filler, whose offset 0 names no message."""
        entry = self.queue.entries(queue_offset, 1)
        if len(entry) == 0 or int(entry["msg_size"][0]) == CQ_FILLER_SIZE:
            return -1
        return int(entry["phy_offset"][0])

    def _time(self, queue_offset: int) -> int:
        return self.store_time(self._phy_offset(queue_offset))

    def _span(self) -> tuple[int, int] | None:
        """Return the first queue offset and the number of entries of the file to search.

        LOWER: the oldest file that ends at or after the time, else the newest. UPPER: the newest file that starts at or
        before the time, else None.
        """
        spans = [span for span in self.queue.spans() if span[0] < self.end]
        if not spans:
            return None
        if self.lower:
            for first, count in spans[:-1]:
                if self._time(first + count - 1) >= self.timestamp_ms:
                    return first, count
            return spans[-1]
        for first, count in reversed(spans):
            if self._time(first) <= self.timestamp_ms:
                return first, count
        return None

    def _binary_search(self, first: int, floor: int, ceiling: int) -> int:
        low, high = floor, ceiling
        # Java starts with the byte before the file for "nothing found on this side": the entry before the first one.
        left = right = max(first - 1, 0)
        while low <= high:
            middle = (low + high) // 2
            phy_offset = self._phy_offset(middle)
            if phy_offset < self.log_min:
                low = middle + 1
                left = middle
                continue
            time = self.store_time(phy_offset)
            if time < 0:
                return 0
            if time == self.timestamp_ms:
                return self._edge_of_equal(middle, floor, ceiling)
            if time > self.timestamp_ms:
                high = middle - 1
                right = middle
            else:
                low = middle + 1
                left = middle
        return right if self.lower else left

    def _edge_of_equal(self, found: int, floor: int, ceiling: int) -> int:
        """Return the first or last of a run of entries with the same time."""
        step = -1 if self.lower else 1
        while floor <= found + step <= ceiling and self._time(found + step) == self.timestamp_ms:
            found += step
        return found
