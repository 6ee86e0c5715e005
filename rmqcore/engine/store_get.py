"""The reading half of a store."""

from __future__ import annotations

from rmqcore._native.codec import MessageView
from rmqcore._native.get import GetResult, get_messages
from rmqcore._native.query import QueryResult, query_messages
from rmqcore.engine.index_query import INDEX_TYPES
from rmqcore.engine.msg_id import phy_offset_of_msg_id
from rmqcore.engine.paths import MAX_OFFSET
from rmqcore.engine.store_state import StoreState
from rmqcore.engine.tag_filter import TagFilter
from rmqcore.engine.time_search import Boundary, offset_by_time


class StoreGet(StoreState):
    """Reads; see MessageStore. They go on after a failure, and see what queues and index have, not what waits for them."""

    def get(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_messages: int = 32,
        *,
        tags: str | None = None,
        max_bytes: int | None = None,
    ) -> GetResult:
        """Give messages of a queue from an offset on.

        Parameters
        ----------
        topic : str
        queue_id : int
        queue_offset : int
        max_messages : int
            At most 32 come at once, 8 from far behind (the ``max_transfer_*`` fields), and never past the end of a queue file.
        tags : str, optional
            ``"TagA"``, ``"TagA || TagB"`` or ``"*"``; hashes are compared, as a broker does.
        max_bytes : int, optional
            One message always comes.

        Returns
        -------
        GetResult
            Its messages read the mapped file without a copy; holding one keeps the file mapped.

        Raises
        ------
        ValueError
            `max_messages` below 1, or no tag in `tags`.
        StoreClosedError

        Notes
        -----
        Source: RocketMQ 5.5.0 DefaultMessageStore#getMessage.
        """
        if self._closed is not None:
            self.raise_if_closed()
        if max_messages < 1:
            raise ValueError(f"max_messages is {max_messages}, expected at least 1")
        return get_messages(
            self._queues.find(topic, queue_id),
            self._files,
            self._appender.max_phy_offset,
            queue_offset,
            max_messages,
            TagFilter(tags) if tags is not None else None,
            max_bytes,
            self._get_limits,
            self._levels,
        )

    def query(
        self,
        topic: str,
        key: str,
        max_messages: int = 32,
        begin_ms: int = 0,
        end_ms: int | None = None,
        *,
        index_type: str | None = None,
    ) -> QueryResult:
        """Give the newest messages with a key, in physical order.

        Parameters
        ----------
        topic, key : str
        max_messages : int
            At most `max_msgs_num_batch` (64) come.
        begin_ms, end_ms : int
            Store time in milliseconds, both included; the index knows it to the second.
        index_type : str, optional
            ``"T"``: `key` is a tag. ``"K"`` and ``"U"`` are keys and unique keys, which the index does not tell apart.

        Returns
        -------
        QueryResult
            Entries whose records are gone are left out.

        Raises
        ------
        ValueError
            A negative `max_messages`, another `index_type`.
        StoreClosedError

        Notes
        -----
        Source: RocketMQ 5.5.0 DefaultMessageStore#queryMessage. Its second and third round ask the same again, because they go on
        before the store time of a record that is not there.
        """
        if self._closed is not None:
            self.raise_if_closed()
        if max_messages < 0:
            raise ValueError(f"max_messages is {max_messages}, expected at least 0")
        if index_type is not None and index_type not in INDEX_TYPES:
            raise ValueError(f"index_type {index_type!r}: expected None, 'K', 'U' or 'T'")
        return query_messages(
            self._index.search,
            self._files,
            self._appender,
            self._levels,
            topic,
            key,
            max_messages,
            begin_ms,
            MAX_OFFSET if end_ms is None else end_ms,
            index_type,
        )

    def lookup(self, phy_offset: int) -> MessageView | None:
        """Give the message whose record starts at a CommitLog offset; None when none does."""
        self.raise_if_closed()
        return self._log.view_at(phy_offset) if 0 <= phy_offset <= MAX_OFFSET else None

    def lookup_id(self, msg_id: str) -> MessageView | None:
        """Give the message with an offset message id; None when no message with just this id is there.

        Raises
        ------
        ValueError
            Not 32 or 56 hex digits.
        """
        view = self.lookup(phy_offset_of_msg_id(msg_id))
        return view if view is not None and view.msg_id == msg_id.strip().upper() else None

    def offset_by_time(
        self, topic: str, queue_id: int, timestamp_ms: int, boundary: str = "LOWER"
    ) -> int:
        """Give the first queue offset stored at or after a time (LOWER), or the last at or before it (UPPER).

        Raises
        ------
        ValueError
            Another `boundary`.

        Notes
        -----
        Source: RocketMQ 5.5.0 ConsumeQueue#getOffsetInQueueByTime.
        """
        self.raise_if_closed()
        names = [side.value for side in Boundary]
        if boundary not in names:
            raise ValueError(f"boundary {boundary!r}: expected one of {', '.join(names)}")
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return 0
        log = self._log
        return offset_by_time(
            queue,
            queue.min_offset,
            queue.max_offset,
            log.min_offset,
            timestamp_ms,
            Boundary(boundary),
            log.store_time,
        )

    def phy_offset_of(self, topic: str, queue_id: int, queue_offset: int) -> int | None:
        """Give the CommitLog offset that a queue entry holds; None outside the queue."""
        self.raise_if_closed()
        queue = self._queues.find(topic, queue_id)
        if queue is None or not queue.min_offset <= queue_offset < queue.max_offset:
            return None
        entry = queue.get_entry(queue_offset)
        return None if entry is None else entry[0]

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Give the queue offset of a queue's first message; 0 of a queue that does not exist."""
        self.raise_if_closed()
        queue = self._queues.find(topic, queue_id)
        return 0 if queue is None else queue.min_offset

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Give the queue offset after a queue's last dispatched message; 0 of a queue that does not exist."""
        self.raise_if_closed()
        queue = self._queues.find(topic, queue_id)
        return 0 if queue is None else queue.max_offset

    def topics(self) -> list[str]:
        """Give the names of all topics with a queue."""
        self.raise_if_closed()
        return self._queues.topics()

    def queues(self) -> list[tuple[str, int]]:
        """Give topic and queue id of every queue."""
        self.raise_if_closed()
        return self._queues.queues()
