"""Wake-ups of several services by the next append: the store has one hook, which rings once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqcore._native.threads.bell import Bells
from rmqcore.services.service import Service

if TYPE_CHECKING:
    from rmqcore.engine.store.store import MessageStore


class Wakeups:
    """Wakes each armed service once, after the next append.

    A put pays for this only while a service is armed: the native appender compares one number.
    """

    def __init__(self) -> None:
        self._bells = Bells()

    def arm(self, store: MessageStore, service: Service) -> None:
        """Wake `service` after the next append. An append before the return may not ring: check for it afterwards."""
        self._bells.add(service.bell.ring)
        # Called by the append itself, in the appending thread, without Python code in between: no interrupt can lose a
        # ring.
        store.on_append(self._bells.ring)
