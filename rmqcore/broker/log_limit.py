"""A limit for log lines that peers cause: short, without control characters, a few of each kind per second."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from rmqcore.errors.foreign_text import cut, shortened

MOST_NAME = 200
"""Letters of one name or other text in a line."""
MOST_LINES = 10
"""That one place in the code logs per second; the next line says how many were left out."""


class LogLimit(logging.Filter):
    """A filter that shortens the lines of a logger and drops those beyond `MOST_LINES` per second. Thread-safe.

    The limit counts for each place in the code, not for each peer: a thousand peers with one line each are a flood too.

    Parameters
    ----------
    clock : callable
        Seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._lock = threading.Lock()
        self._places: dict[tuple[str, int], _Place] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Shorten a log record, and return whether it is logged."""
        with self._lock:
            place = self._places.setdefault((record.pathname, record.lineno), _Place())
            left_out = place.next_line(self._clock())
        if left_out is None:
            return False
        if isinstance(record.args, tuple):  # the text behind a long name is not cut off
            record.args = tuple(
                cut(value, MOST_NAME) if isinstance(value, str) else value for value in record.args
            )
        text = shortened(record.getMessage())
        if left_out:
            text += f" ({left_out} similar lines were not logged)"
        record.msg, record.args = text, None
        return True


class _Place:
    """The lines of one place in the code in the last second."""

    __slots__ = ("began", "left_out", "lines")

    def __init__(self) -> None:
        self.began = float("-inf")
        self.lines = self.left_out = 0

    def next_line(self, now: float) -> int | None:
        """Return how many lines were left out before this one; None if this one is left out too."""
        if now - self.began >= 1:
            self.began, self.lines = now, 0
        if self.lines >= MOST_LINES:
            self.left_out += 1
            return None
        self.lines += 1
        left_out, self.left_out = self.left_out, 0
        return left_out
