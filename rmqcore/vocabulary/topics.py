"""The key of a queue; topics and groups that RocketMQ itself uses.

Source: RocketMQ 5.5.0 TopicValidator, SubscriptionGroupManager#init.
"""

from __future__ import annotations

QueueKey = tuple[str, int]
"""Topic and queue id."""

SYSTEM_TOPIC_PREFIX = "rmq_sys_"
REVIVE_TOPIC_PREFIX = "rmq_sys_REVIVE_LOG_"
"""Prefix of the topic with the check points of POP consumers; the cluster's name follows."""
LMQ_PREFIX = "%LMQ%"
"""Prefix of light queues, and of the groups that read them."""
DEFAULT_TOPIC = "TBW102"
"""The topic that allows a send to create other topics, with its brokers and queues."""
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
TRANS_HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
TRANS_OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRANS_CHECK_MAX_TIME_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
NOT_FOR_SENDS = frozenset(
    {
        SCHEDULE_TOPIC,
        TRANS_HALF_TOPIC,
        TRANS_OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    }
)
"""Topics that only brokers write."""
SYSTEM_TOPICS = NOT_FOR_SENDS | {
    DEFAULT_TOPIC,
    "BenchmarkTest",
    "RMQ_SYS_TRACE_TOPIC",
    "CHECKPOINT_TOPIC",
    "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
    "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
}

SYSTEM_GROUPS = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
)
"""Consumer groups that every broker has."""
REPLY_TOPIC_SUFFIX = "_REPLY_TOPIC"
"""Suffix of the topic with the replies to requests; the cluster's name precedes it."""


def is_system_topic(topic: str) -> bool:
    """Return True if RocketMQ itself uses a topic of this name."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)
