"""Locks of queues: requests of clients that consume in order, and the answers.

Source: RocketMQ 5.5.0 LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody, MessageQueue.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rmqcore.remoting.bodies.json_object import JsonObject, encode_json, parse_body

MOST_QUEUES = 65_536
"""Queues of one request; a broker has at most 1,024 of a topic."""


@dataclass(frozen=True, slots=True, order=True)
class MessageQueue:
    """A queue of a topic at a broker."""

    topic: str
    broker_name: str
    queue_id: int

    def as_json(self) -> dict[str, object]:
        """Return it by Java's names."""
        return {"brokerName": self.broker_name, "queueId": self.queue_id, "topic": self.topic}


@dataclass(frozen=True, slots=True)
class LockBatch:
    """The body of LOCK_BATCH_MQ and of UNLOCK_BATCH_MQ."""

    consumer_group: str
    client_id: str
    queues: tuple[MessageQueue, ...] = ()
    only_this_broker: bool = False


def parse_lock_batch(request: str, body: bytes) -> LockBatch:
    """Read the body of LOCK_BATCH_MQ or UNLOCK_BATCH_MQ.

    Raises
    ------
    RequestError
        The body is not a valid lock request.
    """
    found = parse_body(request, body)
    return LockBatch(
        found.text("consumerGroup"),
        found.text("clientId"),
        _queues(found, "mqSet"),
        found.flag("onlyThisBroker"),
    )


def encode_lock_batch(wanted: LockBatch) -> bytes:
    """Write the body of LOCK_BATCH_MQ or UNLOCK_BATCH_MQ."""
    return encode_json(
        {
            "clientId": wanted.client_id,
            "consumerGroup": wanted.consumer_group,
            "mqSet": [queue.as_json() for queue in wanted.queues],
            "onlyThisBroker": wanted.only_this_broker,
        }
    )


def encode_locked(queues: Iterable[MessageQueue]) -> bytes:
    """Write the body of the answer to LOCK_BATCH_MQ."""
    return encode_json({"lockOKMQSet": [queue.as_json() for queue in queues]})


def parse_locked(request: str, body: bytes) -> tuple[MessageQueue, ...]:
    """Read the body of the answer to LOCK_BATCH_MQ.

    Raises
    ------
    RequestError
        The body is not an answer to LOCK_BATCH_MQ.
    """
    return _queues(parse_body(request, body), "lockOKMQSet")


def _queues(found: JsonObject, name: str) -> tuple[MessageQueue, ...]:
    queues = found.objects(name)
    if len(queues) > MOST_QUEUES:
        found.refuse(name, f"at most {MOST_QUEUES} queues", str(len(queues)))
    return tuple(
        MessageQueue(queue.text("topic"), queue.text("brokerName", ""), queue.number("queueId"))
        for queue in queues
    )
