"""Writes ConsumeQueue files and the checkpoint to disk in the background."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rmqcore.services.service import Service

if TYPE_CHECKING:
    from rmqcore.engine.store.store import MessageStore


class FlushConsumeQueue(Service):
    """Flushes queues every second if at least 2 pages wait; every minute in any case, and the checkpoint after them.

    Entries that are not flushed here are not lost: recovery builds them again from the CommitLog. It starts at the
    message that the checkpoint names, so the checkpoint must never be ahead of the queues: the step notes the last
    message in them *before* it flushes them, and writes the checkpoint afterwards.

    Notes
    -----
    Source: RocketMQ 5.5.0 DefaultMessageStore.FlushConsumeQueueService.
    """

    name = "flush-consume-queue"

    def __init__(self, store: MessageStore) -> None:
        super().__init__(store)
        config = store.config
        self._interval = max(config.flush_interval_consume_queue, 1) / 1000
        self._thorough_interval = config.flush_consume_queue_thorough_interval / 1000
        self._least_pages = config.flush_consume_queue_least_pages
        now = time.monotonic()
        self._next_at = now + self._interval
        self._thorough_at = now + self._thorough_interval

    def step(self, store: MessageStore) -> float:
        """Flush if a flush is due."""
        now = time.monotonic()
        if now < self._next_at:
            return self._next_at - now
        if now >= self._thorough_at:
            self._thorough_at = now + self._thorough_interval
            self.finish(store)
        else:
            store.flush_consume_queues(self._least_pages)
        self._next_at = time.monotonic() + self._interval
        return self._interval

    def finish(self, store: MessageStore) -> None:
        """Flush everything, then the checkpoint."""
        store.flush_consume_queues(0)
        store.write_checkpoint()
