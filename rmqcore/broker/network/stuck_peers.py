"""Closes peers that hold much of the memory for buffers without progress, before others are refused for long."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

LOOK_S = 1.0
"""Seconds from one look to the next."""
STUCK_S = 5.0
"""Seconds in which a peer has taken nothing of its answers, or brought nothing of a frame that it has begun."""
MOST_LINES = 10
"""Lines of the log in `LINES_S` seconds: one for each connection that is closed, as far as they go."""
LINES_S = 60.0
_LOG = logging.getLogger("rmqcore.broker")


class Holder(Protocol):
    """The buffers of a connection."""

    peer: str

    @property
    def held(self) -> tuple[int, int]:
        """Bytes of answers that the peer has not taken, and bytes of its unfinished frame if the peer must act next."""

    def abort(self) -> None:
        """Close the connection at once."""


@dataclass(frozen=True, slots=True)
class _Seen:
    unsent: int
    half: int
    since: float
    """When the peer last moved, as far as the looks tell."""

    def moved_to(self, unsent: int, half: int) -> bool:
        """Return True if the peer read answers or, with no answers pending, sent bytes. Additional answers do not count."""
        return unsent < self.unsent or (not self.unsent and (unsent > 0 or half != self.half))


class StuckPeers:
    """Closes the connections of a port that hold most and make no progress, while all together hold too much.

    Used by the loop's thread only.
    """

    def __init__(self) -> None:
        self._seen: dict[Holder, _Seen] = {}
        self._looked = self._lines_from = float("-inf")
        self._lines = self._unsaid = 0

    def look(self, connections: Collection[Holder], too_much: int, now: float) -> None:
        """Check all connections, at most once per `LOOK_S`; close stuck ones, largest first, to free `too_much` bytes.

        Parameters
        ----------
        connections : collection of Holder
            The open connections.
        too_much : int
            Bytes in buffers above the bound; 0 or less closes nothing.
        now : float
            Seconds, monotonic.
        """
        if now - self._looked < LOOK_S:
            return
        self._looked = now
        before, self._seen = self._seen, {}
        stuck: list[tuple[int, Holder]] = []
        for one in connections:
            unsent, half = one.held
            if not unsent + half:
                continue
            known = before.get(one)
            since = now if known is None or known.moved_to(unsent, half) else known.since
            self._seen[one] = _Seen(unsent, half, since)
            if now - since >= STUCK_S:
                stuck.append((unsent + half, one))
        self._close_largest(stuck, too_much, now)

    def _close_largest(self, stuck: list[tuple[int, Holder]], too_much: int, now: float) -> None:
        for size, one in sorted(stuck, key=lambda pair: pair[0], reverse=True):
            if too_much <= 0:
                return
            too_much -= size
            self._tell(one, size, now)
            self._seen.pop(one, None)
            one.abort()

    def _tell(self, one: Holder, size: int, now: float) -> None:
        if now - self._lines_from >= LINES_S:
            if self._unsaid:
                _LOG.warning("closed %d more connections that made no progress", self._unsaid)
            self._lines_from, self._lines, self._unsaid = now, 0, 0
        if self._lines >= MOST_LINES:
            self._unsaid += 1
            return
        self._lines += 1
        _LOG.warning(
            "%s: %d bytes in its buffers, and the peer made no progress for %d s; the buffers are "
            "full, the connection is closed",
            one.peer,
            size,
            STUCK_S,
        )
