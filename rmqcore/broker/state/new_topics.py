"""Configuration of a topic created by a send, and the requests that wait for it.

Source: RocketMQ 5.5.0 TopicConfigManager#createTopicInSendMessageMethod.
"""

from __future__ import annotations

from collections.abc import Callable

from rmqcore.remoting.bodies.topic_configs import INHERIT, TopicConfig

Then = Callable[[TopicConfig | None], object]


class NewTopic:
    """A topic that is not on disk or not registered yet, and the callbacks that wait for it."""

    __slots__ = ("thens", "topic")

    def __init__(self, topic: TopicConfig, then: Then) -> None:
        self.topic = topic
        self.thens = [then]


def topic_like(default: TopicConfig, name: str, queue_nums: int, sys_flag: int) -> TopicConfig:
    """Return a topic with a default topic's permissions and at most its number of queues."""
    queues = max(0, min(queue_nums, default.write_queue_nums))
    perm = default.perm & ~INHERIT
    return TopicConfig(
        name, queues, queues, perm, default.topic_filter_type, topic_sys_flag=sys_flag
    )
