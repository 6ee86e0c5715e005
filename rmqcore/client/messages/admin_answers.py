"""Decodes responses to an administrator's requests, without sockets.

Source: RocketMQ 5.5.0 MQAdminImpl#queryMessage, MQClientAPIImpl#viewMessage, ConsumeStats.
"""

from __future__ import annotations

from collections.abc import Iterable

from rmqcore.client.messages.group_lag import QueueLag
from rmqcore.client.messages.message_queue import MessageQueue
from rmqcore.client.messages.received_message import ReceivedMessage
from rmqcore.codec import decode_all
from rmqcore.errors import CorruptMessageError, RequestError
from rmqcore.remoting.bodies.queue_tables import ConsumeStats
from rmqcore.remoting.bodies.routes import BrokerData
from rmqcore.remoting.names import DLQ_PREFIX, RETRY_PREFIX
from rmqcore.vocabulary.topics import REPLY_TOPIC_SUFFIX, is_system_topic

NO_MESSAGE = "can not find message"
"""How the remark of VIEW_MESSAGE_BY_ID begins where no message is at the offset. Source: RocketMQ 5.5.0 QueryMessageProcessor."""


def found_messages(request: str, broker_name: str, body: bytes) -> list[ReceivedMessage]:
    """Read the records of an answer.

    Raises
    ------
    RequestError
        A record is damaged.
    """
    try:
        records = decode_all(body, check_crc=True, copy=True)
    except CorruptMessageError as error:
        raise RequestError(request, "body", "records", error) from None
    return [
        ReceivedMessage(
            view, MessageQueue(view.topic, broker_name, view.queue_id), view.queue_offset
        )
        for view in records
    ]


def lags(stats: Iterable[ConsumeStats]) -> tuple[QueueLag, ...]:
    """Merge the brokers' answers about a group's queues."""
    return tuple(
        sorted(
            QueueLag(
                MessageQueue(queue.topic, queue.broker_name, queue.queue_id),
                found.consumer_offset,
                found.broker_offset,
                found.last_timestamp_ms,
            )
            for one in stats
            for queue, found in one.offsets.items()
        )
    )


def is_internal_topic(topic: str, brokers: Iterable[BrokerData]) -> bool:
    """Return True if RocketMQ created a topic, for itself or for a consumer group."""
    if is_system_topic(topic) or topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        return True
    return any(
        topic in (one.cluster, one.broker_name, f"{one.cluster}{REPLY_TOPIC_SUFFIX}")
        for one in brokers
    )


def is_at(store_host: str, address: str) -> bool:
    """Return True if a broker at an address, perhaps a host's name, may have stored a message with a store host."""
    host, _, port = address.rpartition(":")
    stored_host, _, stored_port = store_host.rpartition(":")
    numbers = host.strip("[]").replace(".", "").isdigit() or ":" in host
    return port == stored_port and (not numbers or host == stored_host)
