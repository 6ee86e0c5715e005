"""Light message queues (LMQ): one record that several queues point at.

A message with the property INNER_MULTI_DISPATCH, a comma list of queue names, gets the offset it has in each light queue as
INNER_MULTI_QUEUE_OFFSET; the dispatch writes an entry into each of them.
"""

from __future__ import annotations

import copy
import threading
from collections import Counter
from collections.abc import Callable

from rmqcore._native.commitlog import PutResult, encoded_size, refused_result
from rmqcore._native.message import Message
from rmqcore.config import MessageStoreConfig
from rmqcore.engine.commitlog import CommitLog
from rmqcore.engine.java_map import in_map_order
from rmqcore.engine.multi_dispatch import LMQ_PREFIX, SCHEDULE_TOPIC, WITHOUT, java_split
from rmqcore.status import PutMessageStatus

INNER_MULTI_DISPATCH = "INNER_MULTI_DISPATCH"
INNER_MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET"
# A put with one of these topics gives no offsets; a dispatch would still follow those that a record of %DLQ% brings along.
NEVER_PUT = (*WITHOUT, "%DLQ%")


class LightPut:
    """Puts messages that go to light queues too.

    Parameters
    ----------
    commitlog : CommitLog
    config : MessageStoreConfig
    put : callable
        The plain put.

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
        # Only these puts move the counters of light queues, so this lock alone keeps number and record together.
        self._lock = threading.Lock()

    def concerns(self, message: Message) -> bool:
        """Tell whether a message names light queues."""
        names = message.properties.get(INNER_MULTI_DISPATCH)
        allowed = message.topic != SCHEDULE_TOPIC and not message.topic.startswith(NEVER_PUT)
        return allowed and bool(names and names.strip())

    def put(self, message: Message) -> PutResult:
        """Append a message with the offsets it has in its light queues."""
        names = java_split(message.properties[INNER_MULTI_DISPATCH])
        light = [name for name in names if name.startswith(LMQ_PREFIX)]
        with self._lock:
            offsets = {name: self._commitlog.next_queue_offset(name, 0) for name in light}
            changed = copy.copy(message)
            # WAIT is taken out and put back in Java, which moves it behind what shares its bucket.
            properties = {
                name: value
                for name, value in message.properties.items()
                if name and value and name != "WAIT"
            }
            properties[INNER_MULTI_QUEUE_OFFSET] = ",".join(
                str(offsets.get(name, "")) for name in names
            )
            if message.properties.get("WAIT"):
                properties["WAIT"] = message.properties["WAIT"]
            changed.properties = in_map_order(properties)
            size = encoded_size(changed, self._config.enabled_append_prop_crc)
            if size > self._config.max_message_size:
                return refused_result(PutMessageStatus.MESSAGE_ILLEGAL)
            result = self._put(changed)
            if result.stored:
                # A name that is there twice counts twice, as in Java.
                for name, count in Counter(light).items():
                    self._commitlog.set_next_queue_offset(name, 0, offsets[name] + count)
            return result
