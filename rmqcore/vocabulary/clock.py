"""The clocks. Code that only computes with times gets the time as an argument and does not import this."""

import time


def wall_clock_ms() -> int:
    """Return the time now by the wall clock, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def steady_clock_ms() -> int:
    """Return the milliseconds of a clock that is never set, for durations and waits."""
    return time.monotonic_ns() // 1_000_000
