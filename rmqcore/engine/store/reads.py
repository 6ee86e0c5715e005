"""Reads of an open store: lookups, offsets, and pages in memory.

`get` and `query` have their bodies in MessageStore, because one more Python call (30 ns) is an eighth of a query
without results.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from rmqcore._native.files.log_views import is_warm, read_in
from rmqcore._native.format.codec import MessageView
from rmqcore._native.queues.consume_queue import ConsumeQueue
from rmqcore._native.queues.get_limits import GetLimits
from rmqcore.codec import parse_msg_id
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.inside.links import is_file
from rmqcore.disk.paths import MAX_OFFSET, parse_file_name
from rmqcore.disk.read_range import entries_of
from rmqcore.engine.store.parts import StoreParts
from rmqcore.engine.store.state import StoreState
from rmqcore.errors.arguments import check_ints, named
from rmqcore.queries.asked import check_get, check_place
from rmqcore.queries.queue_info import QueueInfo, Rest
from rmqcore.queries.tag_filter import TagFilter
from rmqcore.queries.time_search import Boundary, offset_by_time

_T = TypeVar("_T")


class Reads:
    """Look up messages, places and offsets in log, queues and index."""

    def __init__(self, parts: StoreParts, config: MessageStoreConfig, state: StoreState) -> None:
        self._state = state
        self._log = parts.log
        self._files = parts.log.files
        self._appender = parts.log.appender
        self._levels = parts.log.delay_levels
        self._queues = parts.queues
        self._index = parts.index
        self._root = parts.paths.consumequeue
        self.get_limits = GetLimits(config)

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

    def hide_before(self, topic: str, phy_offset: int) -> None:
        """Start the queues of a topic at the first message at or behind a CommitLog offset."""
        check_ints(phy_offset=phy_offset)
        self._state.raise_if_closed()
        self._queues.hide_before(topic, phy_offset)

    # ---- pages in memory

    def get_by(
        self,
        native: Callable[..., _T],
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_messages: int,
        tags: str | None,
        *more: int,
    ) -> _T:
        """Call a native variant of `get_messages` with its own arguments, `more`; errors as `MessageStore.get`."""
        self._state.raise_if_closed()
        try:
            if max_messages < 1:
                check_get(topic, queue_id, queue_offset, max_messages, tags, None)
            return native(
                self._queues.find(topic, queue_id),
                self._files,
                self._appender.max_phy_offset,
                queue_offset,
                max_messages,
                TagFilter(tags) if tags is not None else None,
                None,
                self.get_limits,
                self._levels,
                *more,
            )
        except TypeError as error:
            given = topic, queue_id, queue_offset, max_messages, tags, None
            raise named(error, check_get, *given) from None

    def is_warm_at(self, phy_offset: int) -> bool:
        """Return whether `lookup` can read without waiting for the disk."""
        self._state.raise_if_closed()
        check_ints(phy_offset=phy_offset)
        inside = 0 <= phy_offset <= MAX_OFFSET
        return not inside or is_warm(self._files, phy_offset, self._log.max_offset)

    def read_in_at(self, phy_offset: int) -> None:
        """Wait until memory holds the message that `lookup` would return."""
        self._state.raise_if_closed()
        check_ints(phy_offset=phy_offset)
        if 0 <= phy_offset <= MAX_OFFSET:
            read_in(self._files, phy_offset, self._log.max_offset)

    def read_in_query(
        self,
        topic: str,
        key: str,
        max_messages: int,
        begin_ms: int,
        end_ms: int,
        index_type: str | None,
    ) -> None:
        """Wait until memory holds the messages that `query` would return."""
        self._state.raise_if_closed()
        search = self._index.search
        found = search.query(topic, key, max_messages, begin_ms, end_ms, index_type, keep_gil=False)
        for phy_offset in found.phy_offsets:
            self.read_in_at(phy_offset)

    def _rest(self, topic: str, queue_id: int, queue: ConsumeQueue) -> Rest:
        """Look up a queue's files, and its first and last entry."""
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
