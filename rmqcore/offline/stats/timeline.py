"""Messages and bytes over the store time, in buckets that widen as the time that they cover grows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rmqcore.offline.stats.distinct import Ints, distinct
from rmqcore.vocabulary.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

MOST_BUCKETS = 8192
OUTSIDE = 0.001
"""The share of messages at either end that may lie far from all others: their timestamps come from damage."""

_SECOND, _MINUTE, _HOUR, _DAY = SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS
WIDTHS_MS = (
    1, 2, 5, 10, 20, 50, 100, 200, 500, _SECOND, 2 * _SECOND, 5 * _SECOND, 10 * _SECOND, 15 * _SECOND, 30 * _SECOND, _MINUTE,
    2 * _MINUTE, 5 * _MINUTE, 10 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE, _HOUR, 2 * _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR, _DAY,
    2 * _DAY, 7 * _DAY, 14 * _DAY, 28 * _DAY,
)  # fmt: skip


@dataclass(frozen=True)
class TimelineBucket:
    """Messages stored from `begin_ms` on, until the next bucket begins."""

    begin_ms: int
    messages: int
    bytes: int


class Timeline:
    """Sums by store time, in at most 8,192 buckets, each a power of two of milliseconds wide."""

    def __init__(self) -> None:
        self._shift = 0
        self._sums: dict[int, tuple[int, int]] = {}

    def add(self, store_timestamp_ms: Ints, msg_size: npt.NDArray[np.int32]) -> None:
        """Count messages; there is at least one."""
        found, places = distinct(store_timestamp_ms >> self._shift)
        messages = np.bincount(places)
        sizes = np.bincount(places, weights=msg_size)
        self._merge(zip(found.tolist(), messages.tolist(), map(int, sizes.tolist()), strict=True))
        while len(self._sums) > MOST_BUCKETS:
            self._shift += 1
            old, self._sums = self._sums, {}
            self._merge((at >> 1, *sums) for at, sums in old.items())

    def _merge(self, more: Iterable[tuple[int, int, int]]) -> None:
        sums = self._sums
        for at, messages, size in more:
            known = sums.get(at)
            sums[at] = (messages, size) if known is None else (known[0] + messages, known[1] + size)

    def buckets(self, most: int) -> tuple[int, list[TimelineBucket]]:
        """Return at most `most` buckets (2 or more) without gaps between them, and their width: a second, a minute, an hour, ...

        Few messages whose store time lies far from that of all others count in the first or last bucket.
        """
        if not self._sums:
            return 1, []
        low, high = (at << self._shift for at in self._range())
        width = next(width for width in _widths() if high // width - low // width < most)
        first, count = low // width, high // width - low // width + 1
        messages, sizes = [0] * count, [0] * count
        for at, (number, size) in self._sums.items():
            place = min(max((at << self._shift) // width - first, 0), count - 1)
            messages[place] += number
            sizes[place] += size
        return width, [
            TimelineBucket((first + place) * width, messages[place], sizes[place])
            for place in range(count)
        ]

    def _range(self) -> tuple[int, int]:
        """The first and last bucket that are told of: those of all messages, or of all but a few that lie far off."""
        places = sorted(self._sums)
        cumulated = np.cumsum([self._sums[at][0] for at in places])
        messages = int(cumulated[-1])
        inner = np.searchsorted(cumulated, [OUTSIDE * messages, (1 - OUTSIDE) * messages])
        low, high = (places[min(int(at), len(places) - 1)] for at in inner)
        margin = max(high - low, 1)
        near = [at for at in places if low - margin <= at <= high + margin]
        return near[0], near[-1]


def _widths() -> Iterator[int]:
    """Widths in milliseconds that people know, then ever longer ones: a damaged time may be any number."""
    yield from WIDTHS_MS
    width = WIDTHS_MS[-1]
    while True:
        width *= 2
        yield width
