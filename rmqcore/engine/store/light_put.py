"""Light message queues (LMQ): several queues point at one record.

The property INNER_MULTI_DISPATCH lists queue names, separated by commas. A put writes the message's offset in each of
these light queues to INNER_MULTI_QUEUE_OFFSET; the dispatch writes an entry into each of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

from rmqcore._native.put.message import Message
from rmqcore._native.put.message_fill import encoded_size
from rmqcore._native.put.put_result import PutResult, refused_result
from rmqcore.codec import java_hash
from rmqcore.config import MessageStoreConfig
from rmqcore.engine.dispatch.multi_dispatch import WITHOUT, java_split
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.vocabulary.properties import INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET, WAIT
from rmqcore.vocabulary.status import PutMessageStatus
from rmqcore.vocabulary.sysflag import has_queue_entry
from rmqcore.vocabulary.topics import LMQ_PREFIX, SCHEDULE_TOPIC

MAP_CAPACITY = 128  # initial capacity of the map in MessageDecoder#string2messageProperties
# A put into one of these topics writes no offsets of light queues. If a record of %DLQ% already has some, a dispatch
# still follows them.
NEVER_PUT = (*WITHOUT, "%DLQ%")


class LightPut:
    """Puts messages into a store with light queues.

    Parameters
    ----------
    commitlog : CommitLog
    config : MessageStoreConfig
    put : callable
        The plain put, which ignores light queues.

    Notes
    -----
    Source: RocketMQ 5.5.0 LmqDispatch#wrapLmqDispatch, #updateLmqOffsets.
    """

    def __init__(
        self,
        commitlog: CommitLog,
        config: MessageStoreConfig,
        put: Callable[[Message], PutResult],
    ) -> None:
        self._commitlog = commitlog
        self._config = config
        self._put = put

    def put(self, message: Message) -> PutResult:
        """Append a message; if it names light queues, with its offsets in them."""
        if not _names_light_queues(message):
            return self._put(message)
        names = java_split(message.properties[INNER_MULTI_DISPATCH])
        light = [name for name in names if name.startswith(LMQ_PREFIX)]
        result = None
        while result is None:  # another put may use the same offsets before this append
            result = self._attempt(message, names, light)
        return result

    def _attempt(self, message: Message, names: list[str], light: list[str]) -> PutResult | None:
        """Append the message with the next offsets of its light queues; return None if another put used them first.

        The append increments their counters under its own lock, so record and counters change together or not.
        """
        offsets = {name: self._commitlog.next_queue_offset(name, 0) for name in light}
        changed = copy.copy(message)
        # Java removes WAIT and puts it back, which moves it behind the properties in the same bucket.
        properties = {
            name: value
            for name, value in message.properties.items()
            if name and value and name != WAIT
        }
        properties[INNER_MULTI_QUEUE_OFFSET] = ",".join(
            str(offsets.get(name, "")) for name in names
        )
        if message.properties.get(WAIT):
            properties[WAIT] = message.properties[WAIT]
        changed.properties = in_map_order(properties)
        size = encoded_size(changed, self._config.enabled_append_prop_crc)
        if size > self._config.max_message_size:
            most = self._config.max_message_size
            return refused_result(
                PutMessageStatus.MESSAGE_ILLEGAL,
                f"the record has {size:,} bytes with the offsets of its light queues, the limit is "
                f"{most:,}: maxMessageSize (max_message_size)",
            )
        # A name that is twice in the list counts twice, as in Java. The append itself counts the message's own queue.
        counted = has_queue_entry(message.sys_flag) and message.queue_id == 0
        return self._commitlog.appender.put_light(
            changed,
            [
                (name.encode(), offsets[name], not (counted and name == message.topic))
                for name in light
            ],
        )


def _names_light_queues(message: Message) -> bool:
    names = message.properties.get(INNER_MULTI_DISPATCH)
    allowed = message.topic != SCHEDULE_TOPIC and not message.topic.startswith(NEVER_PUT)
    return allowed and bool(names and names.strip())


def in_map_order(properties: dict[str, str]) -> dict[str, str]:
    """Return the properties in the order of a Java HashMap into which they were put in the given order.

    Notes
    -----
    Source: RocketMQ 5.5.0 MessageDecoder#string2messageProperties, #messageProperties2String; OpenJDK 17 HashMap#hash.
    """
    capacity = MAP_CAPACITY
    while len(properties) > capacity * 3 // 4:
        capacity *= 2

    def bucket(name: str) -> int:
        code = java_hash(name) & 0xFFFFFFFF
        return (code ^ code >> 16) & (capacity - 1)

    return {name: properties[name] for name in sorted(properties, key=bucket)}
