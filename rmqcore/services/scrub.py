"""The scrub in the background: finds bits that changed on disk while the store was open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqcore.services.service import Service

if TYPE_CHECKING:
    from rmqcore.engine.store.store import MessageStore

PAUSE = 60.0
"""Seconds between two rounds."""


class Scrub(Service):
    """Compares a piece of the store, then waits as ``scrub_bytes_per_second`` asks, and one minute after each round.

    It only reads, and a problem does not fail the store: `stats()` reports it, and a deep recovery heals it.

    Notes
    -----
    Not in Java.
    """

    name = "scrub"

    def __init__(self, store: MessageStore) -> None:
        super().__init__(store)
        self._bytes_per_second = store.config.scrub_bytes_per_second

    def step(self, store: MessageStore) -> float:
        """Compare one piece."""
        size = store.scrub_once()
        return size / self._bytes_per_second if size else PAUSE
