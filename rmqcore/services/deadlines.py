"""The timeouts of callbacks that wait for the disk or for followers: a hanging sync must not delay their answer."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from rmqcore.services.service import Service

if TYPE_CHECKING:
    from rmqcore.engine.store.store import MessageStore


class Deadlines(Service):
    """Ends the waits whose time is over, with FLUSH_DISK_TIMEOUT or FLUSH_SLAVE_TIMEOUT, in one thread for all of them.

    It sleeps until the first timeout, or until woken if no callback waits. A waiting thread (a put) watches its own
    timeout. When the store fails or this thread ends, it answers the callbacks that wait for followers, which no other
    thread of the store does.

    Notes
    -----
    Source: RocketMQ 5.5.0 FlushDiskWatcher, GroupTransferService.
    """

    name = "deadlines"

    def __init__(self, store: MessageStore) -> None:
        super().__init__(store)
        self._replica_waiters = store.replica_waiters

    def step(self, store: MessageStore) -> float | None:
        """Answer the callbacks whose time is over."""
        if store.failed:
            self._replica_waiters.end()
        now = time.monotonic()
        coming = min(store.flush_waiters.expire(now), self._replica_waiters.expire(now))
        return None if coming == math.inf else max(coming - now, 0)

    def ended(self) -> None:
        """Call back all callbacks that wait for followers: the store was closed or dropped."""
        self._replica_waiters.end()
