"""The time of those who wait for the disk: a sync that hangs must not keep their answer."""

from __future__ import annotations

import math
import time

from rmqcore.services.service import Service
from rmqcore.services.steps import StoreSteps


class FlushWatcher(Service):
    """Answers FLUSH_DISK_TIMEOUT to those whose time is over, one thread for all of them.

    It sleeps until the first one's time, or for good where nobody waits. A thread that waits itself (a put) watches its own time.

    Notes
    -----
    Source: RocketMQ 5.5.0 FlushDiskWatcher.
    """

    name = "flush-watcher"

    def step(self, store: StoreSteps) -> float | None:
        """Look whose time is over."""
        now = time.monotonic()
        coming = store.flush_waiters.expire(now)
        return None if coming == math.inf else max(coming - now, 0)
