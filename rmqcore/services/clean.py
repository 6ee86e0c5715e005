"""Cleaning in the background: deletes expired files, and watches for a disk that becomes too full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqcore.services.service import Service

if TYPE_CHECKING:
    from rmqcore.engine.store.store import MessageStore

FIRST = 60.0
"""Seconds from the start to the first round, as in Java."""


class Clean(Service):
    """Runs a round of cleaning every `clean_resource_interval`, and when a write found no room.

    A stop ends the pause between two files, and the round.

    Notes
    -----
    Source: RocketMQ 5.5.0 DefaultMessageStore#addScheduleTask, #cleanFilesPeriodically.
    """

    name = "clean"

    def __init__(self, store: MessageStore) -> None:
        super().__init__(store)
        self._interval = max(store.config.clean_resource_interval, 1) / 1000
        self._waited = False

    def step(self, store: MessageStore) -> float:
        """Run a round."""
        if not self._waited:
            self._waited = True
            return FIRST
        report = store.clean_once(pause=self._pause_between)
        if report.kept is not None:
            self.tell(store, OSError(report.kept))
        return self._interval

    def _pause_between(self, milliseconds: int) -> bool:
        return self.bell.wait(milliseconds / 1000)
