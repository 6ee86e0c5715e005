"""The name of a queue in a cluster."""

from __future__ import annotations

from typing import NamedTuple


class MessageQueue(NamedTuple):
    """A queue of a topic on one broker. Queues sort as in Java, because all members of a group need the same order.

    Source: RocketMQ 5.5.0 MessageQueue#compareTo.
    """

    topic: str
    broker_name: str
    queue_id: int
