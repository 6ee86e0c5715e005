"""A histogram of milliseconds with buckets that never move, so that histograms of parts add up to that of the whole.

Each value up to 63 ms has a bucket of its own; above, each power of two has 32 equal ones. What is told from a bucket is its
middle, at most 1/64 (1.6 %) off. Negative values, of clocks that differ, have the same buckets mirrored.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

EXACT = 64
A_DOUBLING = 32
MAX_MS = 2**42
"""139 years, more than a born time of 0 makes: what is more comes from a damaged timestamp, and counts as this much."""


def clip_ms(values_ms: Ints) -> Ints:
    """Values within what the buckets hold."""
    return np.clip(values_ms, -MAX_MS, MAX_MS)


def latency_ms(store_timestamp_ms: Ints, born_timestamp_ms: Ints) -> Ints:
    """Store minus born, clipped; wild timestamps do not overflow."""
    limit = 2**61
    store, born = (np.clip(one, -limit, limit) for one in (store_timestamp_ms, born_timestamp_ms))
    return clip_ms(store - born)


def bucket_of(values_ms: Ints) -> npt.NDArray[np.int32]:
    """Numbers of the buckets that values fall into; those of negative values are negative."""
    size = np.abs(values_ms)
    doublings = np.maximum(np.frexp(size.astype(np.float64))[1] - 6, 0)
    number = np.where(size < EXACT, size, doublings * A_DOUBLING + (size >> doublings))
    return np.where(values_ms < 0, -1 - number, number).astype(np.int32)


def bounds_of(number: int) -> tuple[int, int]:
    """The least and the largest value of a bucket."""
    if number < 0:
        low, high = bounds_of(-1 - number)
        return -high, -low
    if number < EXACT:
        return number, number
    doublings = number // A_DOUBLING - 1
    low = (number - doublings * A_DOUBLING) << doublings
    return low, low + (1 << doublings) - 1


def quantile(numbers: Sequence[int], counts: Sequence[int], share: float) -> float:
    """The value that a share of all values does not exceed: the middle of its bucket.

    Parameters
    ----------
    numbers, counts : sequence of int
        Buckets in ascending order, and how many values each holds.
    share : float
        0.5 for the median.
    """
    cumulated = np.cumsum(np.asarray(counts, np.int64))
    rank = max(1, int(np.ceil(share * int(cumulated[-1]))))
    low, high = bounds_of(numbers[int(np.searchsorted(cumulated, rank))])
    return (low + high) / 2
