"""Reads of an open store, but for `get` and `query`.

MessageStore has these two itself, because one more Python call (30 ns) is an eighth of a query that finds nothing.
"""

from __future__ import annotations

from functools import partial

from rmqcore._native.format.codec import MessageView
from rmqcore._native.queues.consume_queue import ConsumeQueue
from rmqcore.codec import parse_msg_id
from rmqcore.disk.inside.links import is_file
from rmqcore.disk.paths import MAX_OFFSET, parse_file_name
from rmqcore.disk.read_range import entries_of
from rmqcore.engine.store.store_parts import StoreParts
from rmqcore.engine.store.store_state import StoreState
from rmqcore.errors.arguments import check_ints, named
from rmqcore.queries.asked import check_place
from rmqcore.queries.queue_info import QueueInfo, Rest
from rmqcore.queries.time_search import Boundary, offset_by_time


class StoreGet:
    """Looks up places and offsets in log and queues; MessageStore documents the methods."""

    def __init__(self, parts: StoreParts, state: StoreState) -> None:
        self._state = state
        self._log = parts.log
        self._queues = parts.queues
        self._root = parts.paths.consumequeue

    def lookup(self, phy_offset: int) -> MessageView | None:
        """Return the message whose record starts at a CommitLog offset."""
        self._state.raise_if_closed()
        try:
            return self._log.view_at(phy_offset) if 0 <= phy_offset <= MAX_OFFSET else None
        except TypeError as error:
            raise named(error, _check_lookup, phy_offset) from None

    def lookup_id(self, msg_id: str) -> MessageView | None:
        """Return the message with an offset message id."""
        view = self.lookup(parse_msg_id(msg_id).phy_offset)
        return view if view is not None and view.msg_id == msg_id.strip().upper() else None

    def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int, boundary: str) -> int:
        """Return the queue offset next to a store time."""
        self._state.raise_if_closed()
        check_ints(timestamp_ms=timestamp_ms)
        side = Boundary.of(boundary)
        queue = self._find(topic, queue_id)
        if queue is None:
            return 0
        return offset_by_time(
            queue,
            queue.min_offset,
            queue.max_offset,
            self._log.min_offset,
            timestamp_ms,
            side,
            self._log.store_time,
        )

    def phy_offset_of(self, topic: str, queue_id: int, queue_offset: int) -> int | None:
        """Return the CommitLog offset that a queue entry holds."""
        self._state.raise_if_closed()
        check_ints(queue_offset=queue_offset)
        queue = self._find(topic, queue_id)
        if queue is None or not queue.min_offset <= queue_offset < queue.max_offset:
            return None
        entry = queue.get_entry(queue_offset)
        return None if entry is None else entry[0]

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Return the queue offset of a queue's first message."""
        self._state.raise_if_closed()
        queue = self._find(topic, queue_id)
        return 0 if queue is None else queue.min_offset

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return the queue offset after a queue's last dispatched message."""
        self._state.raise_if_closed()
        queue = self._find(topic, queue_id)
        return 0 if queue is None else queue.max_offset

    def _find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        try:
            return self._queues.find(topic, queue_id)
        except TypeError as error:
            raise named(error, check_place, topic, queue_id) from None

    def topics(self) -> list[str]:
        """Return the names of all topics with a queue."""
        self._state.raise_if_closed()
        return self._queues.topics()

    def queues(self) -> list[QueueInfo]:
        """Return every queue with its offsets."""
        self._state.raise_if_closed()
        found = ((place, self._queues.find(*place)) for place in self._queues.queues())
        return [
            QueueInfo(
                *place, queue.min_offset, queue.max_offset, partial(self._rest, *place, queue)
            )
            for place, queue in found
            if queue is not None
        ]

    def _rest(self, topic: str, queue_id: int, queue: ConsumeQueue) -> Rest:
        """Look up what a queue's first and last entry say, and its files."""
        self._state.raise_if_closed()
        begin, end = queue.min_offset, queue.max_offset
        oldest = queue.get_entry(begin) if begin < end else None
        newest = queue.get_entry(end - 1) if begin < end else None
        blocks = [
            entry.stat().st_blocks
            for entry in entries_of(self._root / topic / str(queue_id))
            if parse_file_name(entry.name) is not None and is_file(entry)
        ]
        return (
            None if oldest is None else oldest[0],
            None if newest is None else newest[0] + newest[1],
            len(blocks),
            512 * sum(blocks),
        )


def _check_lookup(phy_offset: object) -> None:
    check_ints(phy_offset=phy_offset)
