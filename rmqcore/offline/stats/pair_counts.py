"""Histograms of many groups at once: how often each pair of a group and a bucket was met."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rmqcore.offline.stats.buckets import bounds_of, quantile, rank_of
from rmqcore.offline.stats.distinct import Ints, counted_pairs

BUCKETS = 4096
"""More than there are; the number of a bucket may be negative."""
MOST_WAITING = 1 << 20
MOST_PAIRS = 4 << 20
"""Bounds of the memory, at 16 bytes a pair: of pairs that wait for being added up, and of those that are."""

_MIDDLES: npt.NDArray[np.float64] = np.array(
    [sum(bounds_of(number)) / 2 for number in range(-1300, 1300)]
)


class PairCounts:
    """Counts of the values of many groups by bucket.

    Attributes
    ----------
    overflowed : bool
        There were more pairs than there is memory for: no percentile is known.
    """

    def __init__(self) -> None:
        self.overflowed = False
        self._total = np.zeros(BUCKETS, np.int64)
        self._keys = self._counts = np.empty(0, np.int64)
        self._waiting: list[tuple[Ints, Ints]] = []
        self._waiting_pairs = 0

    def add(self, groups: Ints, places: Ints, buckets: npt.NDArray[np.int32]) -> None:
        """Count values: value i is of group ``groups[places[i]]`` and has bucket ``buckets[i]``."""
        self._total += np.bincount(buckets + BUCKETS // 2, minlength=BUCKETS)
        if self.overflowed:
            return
        of_pair, numbers, counts = counted_pairs(places, len(groups), buckets)
        keys = groups[of_pair] * BUCKETS + (numbers + BUCKETS // 2)
        self._waiting.append((keys, counts))
        self._waiting_pairs += len(keys)
        if self._waiting_pairs > MOST_WAITING:
            self._add_up()

    def _add_up(self) -> None:
        keys = np.concatenate([self._keys, *(keys for keys, _ in self._waiting)])
        counts = np.concatenate([self._counts, *(counts for _, counts in self._waiting)])
        self._waiting, self._waiting_pairs = [], 0
        order = np.argsort(keys, kind="stable")
        keys, counts = keys[order], counts[order]
        first = np.flatnonzero(np.diff(keys, prepend=-1))
        self._keys = keys[first]
        self._counts = np.add.reduceat(counts, first) if len(first) else counts
        if len(self._keys) > MOST_PAIRS:
            self.overflowed = True
            self._keys = self._counts = np.empty(0, np.int64)

    def total_quantile(self, share: float) -> float:
        """Return the value that a share of all values does not exceed; there is at least one value."""
        at = np.flatnonzero(self._total)
        return quantile((at - BUCKETS // 2).tolist(), self._total[at].tolist(), share)

    def quantiles(self, share: float, group_count: int) -> npt.NDArray[np.float64]:
        """Return for each group the value that a share of its values does not exceed, as the middle of its bucket.

        A group without values has NaN, as all have after an overflow.
        """
        if self._waiting:
            self._add_up()
        found = np.full(group_count, np.nan)
        if not len(self._keys):
            return found
        of_key = self._keys // BUCKETS
        cumulated = np.cumsum(self._counts)
        ends = np.searchsorted(of_key, np.arange(group_count), side="right")
        up_to = np.concatenate([[0], cumulated])[ends]
        before = np.concatenate([[0], up_to[:-1]])
        known = np.flatnonzero(up_to > before)
        ranks = before[known] + rank_of(share, up_to[known] - before[known])
        at = self._keys[np.searchsorted(cumulated, ranks)] % BUCKETS - BUCKETS // 2
        found[known] = _MIDDLES[at + 1300]
        return found
