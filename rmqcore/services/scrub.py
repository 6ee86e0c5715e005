"""The scrub in the background: finds bits that rotted while the store was open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqcore.services.service import Service

if TYPE_CHECKING:
    from rmqcore.engine.store.store import MessageStore

PAUSE = 60.0
"""Seconds between two rounds."""


class Scrub(Service):
    """Looks at a piece of the store, then waits as long as ``scrub_bytes_per_second`` says, and a minute after each round.

    It changes nothing, and finding something does not fail the store: `stats()` tells, and a deep recovery heals.

    Notes
    -----
    Not in Java.
    """

    name = "scrub"

    def __init__(self, store: MessageStore) -> None:
        super().__init__(store)
        self._bytes_per_second = store.config.scrub_bytes_per_second

    def step(self, store: MessageStore) -> float:
        """Look at one piece."""
        size = store.scrub_once()
        return size / self._bytes_per_second if size else PAUSE
