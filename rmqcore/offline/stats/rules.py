"""Rules of all statistics, of one machine and of Spark."""

from __future__ import annotations

TOP_TAGS = 10
"""How many of the most frequent tags are told."""
MAX_TAGS = 10_000
"""How many tags of a group are counted; a topic with more uses TAGS for something else, such as ids."""


def rate_seconds(first_ms: int, last_ms: int) -> float:
    """The time that a rate is over: between the first and the last message, at least a second."""
    return max(1.0, (last_ms - first_ms) / 1000)


def between(value: float, low: float, high: float) -> float:
    """A percentile, which is the middle of a bucket, as one that the values can have."""
    return min(max(value, low), high)
