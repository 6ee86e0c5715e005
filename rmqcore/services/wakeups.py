"""Several services that wait for the next append: a store rings once, at one address."""

from __future__ import annotations

import threading

from rmqcore.services.service import Service
from rmqcore.services.steps import StoreSteps


class Wakeups:
    """Wakes each service that asked for it after the next append, once.

    A put pays for this only while somebody waits: the native appender compares one number.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._waiting: set[Service] = set()

    def arm(self, store: StoreSteps, service: Service) -> None:
        """Wake `service` after the next append. What was appended before this returns may not ring: look once more."""
        with self._mutex:
            self._waiting.add(service)
        store.on_append(self.ring)

    def ring(self) -> None:
        """Wake all that asked; called in the thread that appended."""
        with self._mutex:
            woken, self._waiting = self._waiting, set()
        for service in woken:
            service.wake()
