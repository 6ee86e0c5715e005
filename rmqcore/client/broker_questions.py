"""A broker's requests to a group member, for its progress, its state and new offsets, and the answers to them.

Source: RocketMQ 5.5.0 ClientRemotingProcessor#resetOffset, #getConsumeStatus, #getConsumerRunningInfo, ConsumerRunningInfo.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from rmqcore.client.messages.message_queue import MessageQueue
from rmqcore.remoting.bodies import queue_locks
from rmqcore.remoting.bodies.heartbeat import ConsumerData, subscription_json
from rmqcore.remoting.bodies.queue_tables import (
    encode_client_status,
    encode_running_info,
    parse_queue_numbers,
)
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.request_fields import parse_fields

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class QueueState:
    """A queue that a member reads.

    Attributes
    ----------
    queue : MessageQueue
    position : int or None
        The offset that the member would commit; None if it is not known yet.
    count, size : int
        Messages that the member holds, and bytes of their records.
    is_locked : bool
    """

    queue: MessageQueue
    position: int | None
    count: int
    size: int
    is_locked: bool = False

    def as_json(self) -> dict[str, object]:
        """Return the state by the names of Java's ProcessQueueInfo."""
        return {
            "commitOffset": -1 if self.position is None else self.position,
            "cachedMsgCount": self.count,
            "cachedMsgSizeInMiB": self.size // _MIB,
            "locked": self.is_locked,
            "droped": False,
        }


def new_offsets(request: RemotingCommand, group: str) -> dict[MessageQueue, int] | None:
    """Return the new queue offsets of RESET_CONSUMER_CLIENT_OFFSET; None if they are for another group.

    Raises
    ------
    RequestError
        The request is invalid.
    """
    code = RequestCode.RESET_CONSUMER_CLIENT_OFFSET
    fields = parse_fields(code, request.ext_fields)
    if fields.text("group") != group:
        return None
    found = parse_queue_numbers(code.name, "offsetTable", request.body)
    return {
        MessageQueue(queue.topic, queue.broker_name, queue.queue_id): queue_offset
        for queue, queue_offset in found.items()
        if queue.topic == fields.text("topic") and queue_offset >= 0
    }


def status(request: RemotingCommand, group: str, queues: Iterable[QueueState]) -> RemotingCommand:
    """Return the answer to GET_CONSUMER_STATUS_FROM_CLIENT: the member's offsets in the queues of a topic."""
    fields = parse_fields(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, request.ext_fields)
    if fields.text("group") != group:
        return _not_ours(request, fields.text("group"))
    topic = fields.text("topic")
    found = {
        _plain(one.queue): one.position
        for one in queues
        if one.queue.topic == topic and one.position is not None
    }
    return request.response(body=encode_client_status(found))


def running_info(
    request: RemotingCommand,
    consumer: ConsumerData | None,
    queues: Callable[[], Iterable[QueueState]],
    properties: Mapping[str, str],
) -> RemotingCommand:
    """Return the answer to GET_CONSUMER_RUNNING_INFO: the member's subscriptions, and its state in each queue."""
    fields = parse_fields(RequestCode.GET_CONSUMER_RUNNING_INFO, request.ext_fields)
    if consumer is None or fields.text("consumerGroup") != consumer.group_name:
        return _not_ours(request, fields.text("consumerGroup"))
    held = {_plain(one.queue): one.as_json() for one in queues()}
    subscriptions = [subscription_json(one) for one in consumer.subscriptions]
    return request.response(body=encode_running_info(properties, subscriptions, held))


def _not_ours(request: RemotingCommand, group: str) -> RemotingCommand:
    remark = f"The Consumer Group <{group}> not exist in this consumer"
    return request.response(ResponseCode.SYSTEM_ERROR, remark)


def _plain(queue: MessageQueue) -> queue_locks.MessageQueue:
    return queue_locks.MessageQueue(queue.topic, queue.broker_name, queue.queue_id)
