"""Units and limits of numbers: milliseconds, pages, Java's int and long."""

from datetime import UTC, datetime

SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS, WEEK_MS = 1000, 60_000, 3_600_000, 86_400_000, 604_800_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""The moment of 0 milliseconds."""
PAGE = 4096
"""Bytes of a page for Java (OS_PAGE_SIZE), independent of the machine's page size."""
INT_MIN, INT_MAX = -(1 << 31), (1 << 31) - 1
LONG_MIN, LONG_MAX = -(1 << 63), (1 << 63) - 1
