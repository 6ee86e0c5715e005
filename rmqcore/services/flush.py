"""ASYNC_FLUSH: writes the CommitLog to disk in the background."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rmqcore.services.service import Service
from rmqcore.services.wakeups import Wakeups

if TYPE_CHECKING:
    from rmqcore.engine.store.store import MessageStore

# Bytes after which a flush starts at once, even before the interval ends. At full speed 500 ms are half a gigabyte, and
# the kernel pauses a thread that touches new pages while that many bytes wait for the disk: the slowest put of 3 GiB
# took 40 to 530 ms, with this limit 11 to 19.
MOST_WAITING = 32 << 20


class FlushCommitLog(Service):
    """Flushes every `flush_interval_commit_log` if enough pages wait, and every thorough interval in any case.

    A log that grows by hundreds of megabytes per second is flushed every 32 MiB. A caller that waits for the disk
    causes a flush at once.

    So with the defaults a power cut loses the messages of the last 500 ms if at least 4 pages wait, else of the last
    10 s, plus the time of the flush itself.

    Parameters
    ----------
    store : MessageStore
    wakeups : Wakeups
        Used only with ``flush_commit_log_timed=False``: an append then ends the wait early.

    Notes
    -----
    Source: RocketMQ 5.5.0 CommitLog.FlushRealTimeService.
    """

    name = "flush"

    def __init__(self, store: MessageStore, wakeups: Wakeups) -> None:
        super().__init__(store)
        config = store.config
        self._interval = max(config.flush_interval_commit_log, 1) / 1000
        self._thorough_interval = config.flush_commit_log_thorough_interval / 1000
        self._least_pages = config.flush_commit_log_least_pages
        self._timed = config.flush_commit_log_timed
        self._wakeups = wakeups
        self._queue = store.flush_waiters
        self._thorough_at = time.monotonic() + self._thorough_interval
        self._next_at = 0.0

    def step(self, store: MessageStore) -> float:
        """Flush if a flush is due."""
        now = time.monotonic()
        if now >= self._thorough_at or len(self._queue):
            self._thorough_at = now + self._thorough_interval
            store.flush(0)
            self._queue.answer()
        elif now >= self._next_at or not self._timed or self._much_waits(store):
            store.flush(self._least_pages)
        else:
            return self._next_at - now
        if not self._timed:
            self._wakeups.arm(store, self)
        self._next_at = time.monotonic() + self._interval
        return self._interval

    def look(self, store: MessageStore) -> None:
        """Flush at once if many bytes wait. For the thread that follows the log."""
        if self._much_waits(store):
            self.wake()

    def _much_waits(self, store: MessageStore) -> bool:
        return store.max_phy_offset - store.flushed_phy_offset >= MOST_WAITING

    def finish(self, store: MessageStore) -> None:
        """Flush the rest."""
        store.flush(0)

    def ended(self) -> None:
        """Call back all waiting callers: no thread serves them any more."""
        self._queue.end()
