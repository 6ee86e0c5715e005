"""Table ``queues``: a row for each ConsumeQueue, as in `StoreReader.queues`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rmqcore.offline.queues.queues import list_queues
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.storage.store_location import QUEUE_PARTS, StoreLocation
from rmqcore.spark.tables.table import TableRead, batches_of_rows


class QueuesRead(TableRead):
    """A read of ``queues``."""

    def planned_parts(self) -> list[StoreLocation]:
        """Return the stores, one for each task."""
        return list(self.stores)

    def read(self, part: StoreLocation) -> Iterator[Any]:
        """Yield the queues, up to the messages that were in the log when the store was pinned."""
        choice = QueueChoice(self.options)
        first = part.pin.first_phy_offset if part.pin is not None else 0
        with part.local_copy(*QUEUE_PARTS) as paths:
            rows = [
                {"broker": part.broker, **queue.as_dict()}
                for queue in list_queues(paths, first, part.log_end())
                if choice.takes(queue.topic, queue.queue_id)
            ]
        yield from batches_of_rows(self.columns, rows, self.options.batch_rows)


class QueueChoice:
    """The options topics, topicsPattern and queueIds, for tables of queues."""

    def __init__(self, options: SourceOptions) -> None:
        self._topics = None if options.topics is None else frozenset(options.topics)
        self._pattern = (
            None if options.topics_pattern is None else re.compile(options.topics_pattern)
        )
        self._queue_ids = None if options.queue_ids is None else frozenset(options.queue_ids)

    def takes_topic(self, topic: str) -> bool:
        """Return True if a queue of the topic is wanted."""
        return (self._topics is None or topic in self._topics) and (
            self._pattern is None or self._pattern.fullmatch(topic) is not None
        )

    def takes(self, topic: str, queue_id: int) -> bool:
        """Return True if a queue is wanted."""
        return self.takes_topic(topic) and (self._queue_ids is None or queue_id in self._queue_ids)
