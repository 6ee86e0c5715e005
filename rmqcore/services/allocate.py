"""CommitLog space ahead of the writer: allocated, populated, and the next file before this one is full."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from rmqcore.services.flush import FlushCommitLog
from rmqcore.services.service import Service
from rmqcore.services.warm_up import warm_queue

if TYPE_CHECKING:
    from rmqcore.engine.store.store import MessageStore

WARM_AT_ONCE = 64  # queues in one step, so that space never waits long for it


class Allocate(Service):
    """Prepares space while the store wants more, then sleeps until the appender comes near its end.

    The store decides how much (steps double with the bytes written), so that no put waits for space. If an open leaves
    no space to prepare, the thread warms up the ends of the queues.

    Parameters
    ----------
    store : MessageStore
    flush : FlushCommitLog, optional
        Called after each step, so that a log's bytes go to disk about as fast as the log gets new pages.

    Notes
    -----
    Source: RocketMQ 5.5.0 AllocateMappedFileService.
    """

    name = "allocate"

    def __init__(self, store: MessageStore, flush: FlushCommitLog | None = None) -> None:
        super().__init__(store)
        self._flush = flush
        self._cold: Iterator[tuple[str, int]] | None = iter(store.queues())

    def step(self, store: MessageStore) -> float | None:
        """Prepare one step."""
        if self._flush is not None:
            self._flush.look(store)
        if store.prepare_space():
            return 0
        if self._cold is not None:
            self._warm_up(store)
            return 0
        store.on_low_space(self.bell.ring)
        # Messages may have been appended before the hook was in place.
        return 0 if store.prepare_space() else None

    def _warm_up(self, store: MessageStore) -> None:
        assert self._cold is not None
        some = list(islice(self._cold, WARM_AT_ONCE))
        if not some:
            self._cold = None
        file_size = store.config.consume_queue_file_size
        for topic, queue_id in some:
            try:
                folder = store.paths.queue(topic, queue_id)
                warm_queue(folder, file_size, store.max_offset(topic, queue_id))
            except OSError as error:
                # The only effect is a slower first read, which finds out whether the file can be read.
                store.note_error(f"{self.name}: warm-up of {topic}/{queue_id}", error)
                self._cold = None
                return
