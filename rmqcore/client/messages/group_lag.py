"""How far a consumer group is behind, by queue and in total."""

from __future__ import annotations

from dataclasses import dataclass

from rmqcore.client.messages.message_queue import MessageQueue


@dataclass(frozen=True, slots=True, order=True)
class QueueLag:
    """How far a group has read one queue.

    Attributes
    ----------
    queue : MessageQueue
    consumer_offset : int
        Committed queue offset: that of the next message for the group.
    broker_offset : int
        Queue offset behind the last message.
    last_timestamp_ms : int
        Store time of the last message that the group has consumed, in milliseconds since 1970; 0 if it is unknown.

    Source: RocketMQ 5.5.0 OffsetWrapper.
    """

    queue: MessageQueue
    consumer_offset: int
    broker_offset: int
    last_timestamp_ms: int = 0

    @property
    def lag(self) -> int:
        """Number of messages that the group has not consumed."""
        return max(0, self.broker_offset - self.consumer_offset)


@dataclass(frozen=True, slots=True)
class GroupLag:
    """How far a group is behind.

    Attributes
    ----------
    group : str
    queues : tuple of QueueLag
        Sorted; the queues of the topics in which the group has committed an offset.
    """

    group: str
    queues: tuple[QueueLag, ...]

    @property
    def lag(self) -> int:
        """Number of messages of all topics that the group has not consumed."""
        return sum(one.lag for one in self.queues)

    @property
    def topics(self) -> dict[str, int]:
        """Number of messages that the group has not consumed, by topic."""
        found: dict[str, int] = {}
        for one in self.queues:
            found[one.queue.topic] = found.get(one.queue.topic, 0) + one.lag
        return found
