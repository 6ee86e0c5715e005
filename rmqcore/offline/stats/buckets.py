"""A histogram of milliseconds or bytes with fixed buckets, so that histograms of parts add up to that of the whole.

Each value up to 63 has a bucket of its own; above, each power of two has 32 equal buckets. A bucket stands for its middle,
which is at most 1/64 (1.6 %) off. Negative values, of clocks that differ, have the same buckets mirrored.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

EXACT = 64
A_DOUBLING = 32
MAX_MS = 2**42
"""139 years, more than a born time of 0 gives: a larger value comes from a damaged timestamp, and counts as this."""


def clip_ms(values_ms: Ints) -> Ints:
    """Clip values to the range of the buckets."""
    return np.clip(values_ms, -MAX_MS, MAX_MS)


def latency_ms(store_timestamp_ms: Ints, born_timestamp_ms: Ints) -> Ints:
    """Return store time minus born time, clipped; damaged timestamps do not overflow."""
    limit = 2**61
    store, born = (
        np.clip(times_ms, -limit, limit) for times_ms in (store_timestamp_ms, born_timestamp_ms)
    )
    return clip_ms(store - born)


def bucket_of(values_ms: Ints) -> npt.NDArray[np.int32]:
    """Return the bucket numbers of values; buckets of negative values have negative numbers."""
    size = np.abs(values_ms)
    doublings = np.maximum(np.frexp(size.astype(np.float64))[1] - 6, 0)
    number = np.where(size < EXACT, size, doublings * A_DOUBLING + (size >> doublings))
    return np.where(values_ms < 0, -1 - number, number).astype(np.int32)


def bounds_of(number: int) -> tuple[int, int]:
    """Return the least and the largest value of a bucket."""
    if number < 0:
        low, high = bounds_of(-1 - number)
        return -high, -low
    if number < EXACT:
        return number, number
    doublings = number // A_DOUBLING - 1
    low = (number - doublings * A_DOUBLING) << doublings
    return low, low + (1 << doublings) - 1


def quantile(numbers: Sequence[int], counts: Sequence[int], share: float) -> float:
    """Return the value that a share of all values does not exceed, as the middle of its bucket.

    Parameters
    ----------
    numbers, counts : sequence of int
        The numbers of the buckets in ascending order, and how many values each holds.
    share : float
        0.5 for the median.
    """
    cumulated = np.cumsum(np.asarray(counts, np.int64))
    rank = rank_of(share, cumulated[-1:])[0]
    low, high = bounds_of(numbers[int(np.searchsorted(cumulated, rank))])
    return (low + high) / 2


def rank_of(share: float, counts: Ints) -> Ints:
    """Return the rank, from 1 on, of the value that a share of N values does not exceed."""
    ranks: Ints = np.maximum(1, np.ceil(share * counts)).astype(np.int64)
    return ranks
