"""Wake-ups of several services by the next append: the store has one hook, which rings once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqcore._native.threads.bell import Bells
from rmqcore.services.service import Service

if TYPE_CHECKING:
    from rmqcore.engine.store.store import MessageStore


class Wakeups:
    """Wakes each service that asked for it after the next append, once.

    A put pays for this only while somebody waits: the native appender compares one number.
    """

    def __init__(self) -> None:
        self._bells = Bells()

    def arm(self, store: MessageStore, service: Service) -> None:
        """Wake `service` after the next append. An append before this returns may not ring: the caller has to look once more."""
        self._bells.add(service.bell.ring)
        # Called by the append itself, in the thread that appended, with no line of Python between: no interrupt loses a ring.
        store.on_append(self._bells.ring)
