"""The one way in which a test waits for something that another thread, process or task does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
GENEROUS_S = 120.0
"""Limit of a wait, for a machine that is very slow: a test that passes waits only until its condition holds."""
POLL_S = 0.01


def eventually(
    condition: Callable[[], T],
    *,
    within_s: float = GENEROUS_S,
    poll_s: float = POLL_S,
    details: Callable[[], Any] | None = None,
) -> T:
    """Wait until a condition holds, and return what it returned.

    Parameters
    ----------
    condition
        Called again and again until it returns something true. What it raises ends the wait.
    within_s
        The test fails after that many seconds.
    poll_s
        Seconds between two calls.
    details
        Called when the time is over: what the failure shows beside the last value.
    """
    for _ in _polls(condition, within_s, details):
        if value := condition():
            return value
        time.sleep(poll_s)
    raise AssertionError("unreachable")


async def eventually_async(
    condition: Callable[[], T],
    *,
    within_s: float = GENEROUS_S,
    poll_s: float = POLL_S,
    details: Callable[[], Any] | None = None,
) -> T:
    """Do the same in an event loop, whose other tasks run between two calls."""
    for _ in _polls(condition, within_s, details):
        if value := condition():
            return value
        await asyncio.sleep(poll_s)
    raise AssertionError("unreachable")


def _polls(
    condition: Callable[[], Any], within_s: float, details: Callable[[], Any] | None
) -> Iterator[None]:
    """One turn for each call of the condition; fails when the time is over."""
    deadline = time.monotonic() + within_s
    while True:
        yield
        if time.monotonic() > deadline:
            shown = "" if details is None else f": {details()}"
            raise AssertionError(f"{condition} did not hold within {within_s:g} s{shown}")
