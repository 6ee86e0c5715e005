"""What does not work for now: one log line when that begins and one when it is over, however often it is tried."""

from __future__ import annotations

import logging
from collections.abc import Callable

_LOG = logging.getLogger("rmqcore.client")
QUIET_SECONDS = 30.0
"""Of something that fails and works in turns, no line is logged for so long after the last one about its failure."""


class Outages:
    """What a client cannot do now: reach a broker, learn a route. Used by its loop's thread only.

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
        """Note that something fails; the first failure is logged as a warning."""
        if what in self._failing:
            return
        self._failing.add(what)
        now = self._clock()
        if now - self._logged.get(what, float("-inf")) >= QUIET_SECONDS:
            self._logged[what] = now
            self._told.add(what)
            _LOG.warning(text, *values)

    def end(self, what: str, text: str, *values: object) -> None:
        """Note that something works; that is logged where its failure was."""
        self._failing.discard(what)
        if what in self._told:
            self._told.discard(what)
            _LOG.warning(text, *values)
