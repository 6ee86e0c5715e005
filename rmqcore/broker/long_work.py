"""Runs long work in a thread beside the loop so that the loop waits as little as Python allows."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SWITCH_INTERVAL_S = 0.0005
"""Seconds after which a thread that runs Python hands over to the loop, which wants it several times for one request."""


class _Rest:
    """How many pieces of work keep the collector off, and whether it was on before the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._works = 0
        self._was_on = False

    def begin(self) -> None:
        with self._lock:
            if not self._works:
                self._was_on = gc.isenabled()
                gc.disable()
            self._works += 1

    def end(self) -> None:
        with self._lock:
            self._works -= 1
            if not self._works and self._was_on:
                gc.enable()


_REST = _Rest()


@contextmanager
def uncollected() -> Iterator[None]:
    """Keep the garbage collector off while a thread creates and drops some hundred thousand objects.

    Each time their number grows by a quarter, the collector would visit all objects of the process, for up to 0.1 s in
    which no thread runs. The objects form no cycles, so the delay loses nothing. A collector that was off stays off.
    """
    _REST.begin()
    try:
        yield
    finally:
        _REST.end()
