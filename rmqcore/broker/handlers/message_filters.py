"""Filters that choose the messages of a pull by its subscription.

Source: RocketMQ 5.5.0 ExpressionMessageFilter, DefaultMessageStore#getMessage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from sys import getsizeof
from typing import Protocol

from rmqcore.broker.sql92.sql_filter import SqlFilter
from rmqcore.broker.state.client_memory import filter_bytes
from rmqcore.engine.dispatch.arrivals import Arrival
from rmqcore.engine.store.store import MessageStore
from rmqcore.queries.tag_filter import TagFilter
from rmqcore.vocabulary.status import GetMessageStatus

MOST_EVALUATED = 800
"""Entries that one pull with an expression looks at, as Java's ``maxFilterMessageSize`` of 16,000 bytes."""
MOST_BYTES = 256 << 10
"""A pull with an expression looks at no more messages when it has found so many bytes."""
GET_AT_ONCE = 32
_TAG_BYTES = 150


@dataclass(slots=True)  # frozen, it would cost two microseconds
class PulledRecords:
    """Result of a pull: `body` has the records as in the log."""

    status: GetMessageStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    suggest_pulling_from_slave: bool
    messages: int = 0
    body: bytes = b""


class PullFilter(Protocol):
    """How a pull chooses messages."""

    @property
    def memory_bytes(self) -> int:
        """About what it takes."""
        ...

    def get(
        self,
        store: MessageStore,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_messages: int,
        *,
        is_read_in: bool,
    ) -> PulledRecords | None:
        """Return messages of a queue from an offset on; None if reading the first one would wait for the disk.

        With `is_read_in`, `read_in` has loaded the first one already, and the result is never None.
        """
        ...

    def read_in(
        self, store: MessageStore, topic: str, queue_id: int, queue_offset: int, max_messages: int
    ) -> None:
        """Wait until memory holds what `get` would give first. Any thread may call it."""
        ...

    def wants(self, store: MessageStore, arrival: Arrival) -> bool:
        """Return whether one of the new messages may pass."""
        ...


class TagPullFilter:
    """A filter by tags, ``"TagA || TagB"``, whose hashes the queue's entries hold.

    Parameters
    ----------
    tags : str or None
        None lets all messages pass.

    Raises
    ------
    ValueError
        `tags` contains no tag.
    """

    def __init__(self, tags: str | None) -> None:
        self._tags = tags
        self._filter = TagFilter(tags)

    @property
    def memory_bytes(self) -> int:
        """About what it takes."""
        if self._tags is None:
            return 0
        return getsizeof(self._tags) + _TAG_BYTES * (1 + self._tags.count("|"))

    def get(
        self,
        store: MessageStore,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_messages: int,
        *,
        is_read_in: bool,
    ) -> PulledRecords | None:
        """Return messages of a queue from an offset on; None if a read would wait for the disk."""
        get = store.get if is_read_in else store.get_warm
        got = get(topic, queue_id, queue_offset, max_messages, tags=self._tags)
        if got is None:
            return None
        with got as result:
            return PulledRecords(
                result.status,
                result.next_begin_offset,
                result.min_offset,
                result.max_offset,
                result.suggest_pulling_from_slave,
                len(result),
                b"".join(result.buffers()),
            )

    def read_in(
        self, store: MessageStore, topic: str, queue_id: int, queue_offset: int, max_messages: int
    ) -> None:
        """Wait until memory holds what `get` would give first."""
        store.read_in(topic, queue_id, queue_offset, max_messages, tags=self._tags)

    def wants(self, store: MessageStore, arrival: Arrival) -> bool:  # noqa: ARG002 the other filter needs it
        """Return whether one of the new messages may pass."""
        return any(map(self._filter.matches, arrival.tags_codes))


class SqlPullFilter:
    """A filter by an SQL92 expression over the messages' properties.

    Parameters
    ----------
    sql_filter : SqlFilter
    """

    def __init__(self, sql_filter: SqlFilter) -> None:
        self._filter = sql_filter

    @property
    def memory_bytes(self) -> int:
        """About what it takes."""
        return filter_bytes(self._filter.text)

    def get(
        self,
        store: MessageStore,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_messages: int,
        *,
        is_read_in: bool,
    ) -> PulledRecords | None:
        """Return messages of a queue from an offset on: several gets, until there are enough messages or many were filtered."""
        at, looked_at, size = queue_offset, 0, 0
        records: list[bytes] = []
        status: GetMessageStatus | None = None
        while True:
            most = min(max_messages - len(records), GET_AT_ONCE)
            get = store.get if is_read_in and status is None else store.get_warm
            got = get(topic, queue_id, at, most)
            if got is None:
                break
            with got as result:
                is_found = result.status is GetMessageStatus.FOUND
                if is_found or status is None:
                    status, at = result.status, result.next_begin_offset
                passed = [view.raw for view in result if self._passes(view.properties)]
                looked_at += len(result)
                min_offset, max_offset = result.min_offset, result.max_offset
                from_slave = result.suggest_pulling_from_slave
            records += passed
            size += sum(map(len, passed))
            if (
                not is_found
                or len(records) >= max_messages
                or looked_at >= MOST_EVALUATED
                or size >= MOST_BYTES
            ):
                break
        if status is None:
            return None
        if status is GetMessageStatus.FOUND and not records:
            status = GetMessageStatus.NO_MATCHED_MESSAGE
        return PulledRecords(
            status, at, min_offset, max_offset, from_slave, len(records), b"".join(records)
        )

    def read_in(
        self, store: MessageStore, topic: str, queue_id: int, queue_offset: int, max_messages: int
    ) -> None:
        """Wait until memory holds what `get` would give first."""
        store.read_in(topic, queue_id, queue_offset, min(max_messages, GET_AT_ONCE))

    def wants(self, store: MessageStore, arrival: Arrival) -> bool:
        """Return whether one of the new messages may pass; true if there are too many to look at."""
        new = len(arrival.tags_codes)
        if new > GET_AT_ONCE:
            return True
        first = arrival.next_queue_offset - new
        with store.get(arrival.topic, arrival.queue_id, first, new) as result:
            return len(result) < new or any(self._passes(view.properties) for view in result)

    def _passes(self, properties: Mapping[str, str]) -> bool:
        return self._filter.matches(properties)
