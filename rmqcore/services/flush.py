"""ASYNC_FLUSH: the CommitLog goes to disk in the background."""

from __future__ import annotations

import time

from rmqcore.services.service import Service
from rmqcore.services.steps import StoreSteps
from rmqcore.services.wakeups import Wakeups


class FlushCommitLog(Service):
    """Flushes every `flush_interval_commit_log` if enough pages wait, and every thorough interval in any case.

    So with the defaults a power cut takes the messages of the last 500 ms if at least 4 pages wait, else of the last 10 s, plus
    the time of the flush itself.

    Parameters
    ----------
    store : StoreSteps
    wakeups : Wakeups
        Used only with ``flush_commit_log_timed=False``: an append then ends the wait early.

    Notes
    -----
    Source: RocketMQ 5.5.0 CommitLog.FlushRealTimeService.
    """

    name = "flush"

    def __init__(self, store: StoreSteps, wakeups: Wakeups) -> None:
        super().__init__(store)
        config = store.config
        self._interval = max(config.flush_interval_commit_log, 1) / 1000
        self._thorough_interval = config.flush_commit_log_thorough_interval / 1000
        self._least_pages = config.flush_commit_log_least_pages
        self._timed = config.flush_commit_log_timed
        self._wakeups = wakeups
        self._thorough_at = time.monotonic() + self._thorough_interval
        self._next_at = 0.0

    def step(self, store: StoreSteps) -> float:
        """Flush if it is time to."""
        now = time.monotonic()
        if now >= self._thorough_at:
            self._thorough_at = now + self._thorough_interval
            store.flush(0)
        elif now >= self._next_at or not self._timed:
            store.flush(self._least_pages)
        else:
            return self._next_at - now
        if not self._timed:
            self._wakeups.arm(store, self)
        self._next_at = time.monotonic() + self._interval
        return self._interval

    def finish(self, store: StoreSteps) -> None:
        """Flush the rest."""
        store.flush(0)
