"""Log lines about failing peers: one when a failure starts and one when it is over, however often the client tries."""

from __future__ import annotations

import logging
from collections.abc import Callable

_LOG = logging.getLogger("rmqcore.client")
QUIET_SECONDS = 30.0
"""Seconds without a further line about the same failure, if it ends and starts again and again."""


class Outages:
    """The current failures of a client, such as a broker that it cannot reach or a route that it cannot learn.

    Used by its loop's thread only.

    Parameters
    ----------
    clock : callable
        Seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._logged: dict[str, float] = {}
        self._failing: set[str] = set()
        self._told: set[str] = set()

    def begin(self, what: str, text: str, *values: object) -> None:
        """Note that `what` fails; log the first failure as a warning."""
        if what in self._failing:
            return
        self._failing.add(what)
        now = self._clock()
        if now - self._logged.get(what, float("-inf")) >= QUIET_SECONDS:
            self._logged[what] = now
            self._told.add(what)
            _LOG.warning(text, *values)

    def end(self, what: str, text: str, *values: object) -> None:
        """Note that `what` works; log it if its failure was logged."""
        self._failing.discard(what)
        if what in self._told:
            self._told.discard(what)
            _LOG.warning(text, *values)
