"""The distinct values of an array, and which of them each place has: without sorting where the values lie close together."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

CLOSE = 4
"""Values in a range of so many times their number are told apart by a table."""


def distinct(values: npt.NDArray[np.integer]) -> tuple[Ints, Ints]:
    """Return the distinct values in ascending order, and for each place the number of its value among them.

    `values` has at least one.
    """
    low, high = int(values.min()), int(values.max())
    if low == high:
        return np.array([low], np.int64), np.zeros(len(values), np.int64)
    span = high - low + 1
    if span > CLOSE * len(values) + 1024:
        found, places = np.unique(values.astype(np.int64), return_inverse=True)
        return found, places.reshape(-1).astype(np.int64, copy=False)
    from_low = values.astype(np.int64) - low
    seen = np.zeros(span, np.bool_)
    seen[from_low] = True
    number = np.cumsum(seen) - 1
    return np.flatnonzero(seen) + low, number[from_low]


def distinct_pairs(
    first: npt.NDArray[np.integer], second: npt.NDArray[np.integer]
) -> tuple[Ints, Ints, Ints]:
    """Return the distinct pairs of two arrays as two arrays, and for each place the number of its pair among them."""
    firsts, of_first = distinct(first)
    seconds, of_second = distinct(second)
    pairs, places = distinct(of_first * len(seconds) + of_second)
    return firsts[pairs // len(seconds)], seconds[pairs % len(seconds)], places


def counted_pairs(
    places: Ints, place_count: int, values: npt.NDArray[np.integer]
) -> tuple[Ints, Ints, Ints]:
    """Count pairs of a place and a value: give those that there are, ordered, as two arrays, and how often there are.

    Parameters
    ----------
    places : array
        From 0 to less than `place_count`.
    values : array
        As many as places, at least one.
    """
    low, span = int(values.min()), int(values.max()) - int(values.min()) + 1
    if place_count * span <= CLOSE * len(values) + 1024:
        counts = np.bincount(places * span + (values - low))
        pairs = np.flatnonzero(counts)
        return pairs // span, pairs % span + low, counts[pairs]
    found, of_value = distinct(values)
    pairs, counts = np.unique(places * len(found) + of_value, return_counts=True)
    return pairs // len(found), found[pairs % len(found)], counts
