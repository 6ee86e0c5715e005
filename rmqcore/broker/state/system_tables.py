"""The topics and groups that every broker has from its start.

Source: RocketMQ 5.5.0 TopicConfigManager#init, SubscriptionGroupManager#init.
"""

from __future__ import annotations

from rmqcore.broker.settings import BrokerSettings
from rmqcore.remoting.bodies.subscription_groups import SubscriptionGroupConfig
from rmqcore.remoting.bodies.topic_configs import INHERIT, READ, WRITE, TopicConfig
from rmqcore.vocabulary.topics import (
    DEFAULT_TOPIC,
    REPLY_TOPIC_SUFFIX,
    REVIVE_TOPIC_PREFIX,
    SCHEDULE_TOPIC,
    SYSTEM_GROUPS,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)

_REVIVE_QUEUES = 8
_DELAY_QUEUES = 18


def reply_topic(settings: BrokerSettings) -> str:
    """Name the topic of answers to requests that clients make through messages."""
    return f"{settings.broker_cluster_name}{REPLY_TOPIC_SUFFIX}"


def system_topics(settings: BrokerSettings) -> list[TopicConfig]:
    """Return the topics that Java's broker creates with these settings."""
    cluster, broker = settings.broker_cluster_name, settings.broker_name
    topics = [_topic("SELF_TEST_TOPIC")]
    if settings.auto_create_topic_enable:
        queues = settings.default_topic_queue_nums
        topics.append(_topic(DEFAULT_TOPIC, queues, INHERIT | READ | WRITE))
    topics += [
        _topic("BenchmarkTest", 1024),
        _topic(cluster, 16, _inherit(settings.cluster_topic_enable)),
        _topic(broker, 1, _inherit(settings.broker_topic_enable)),
        _topic("OFFSET_MOVED_EVENT"),
        _topic(SCHEDULE_TOPIC, _DELAY_QUEUES),
    ]
    if settings.trace_topic_enable:
        topics.append(_topic(settings.msg_trace_topic_name))
    return [
        *topics,
        _topic(reply_topic(settings)),
        _topic(f"{REVIVE_TOPIC_PREFIX}{cluster}", _REVIVE_QUEUES),
        _topic(f"rmq_sys_SYNC_BROKER_MEMBER_{broker}", 1, INHERIT),
        _topic(TRANS_HALF_TOPIC),
        _topic(TRANS_OP_HALF_TOPIC),
        _topic("RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"),
        _topic("RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"),
        _topic("rmq_sys_wheel_timer"),
    ]


def system_groups() -> list[SubscriptionGroupConfig]:
    """Return the groups that Java's broker creates."""
    return [SubscriptionGroupConfig(name) for name in SYSTEM_GROUPS]


def _topic(name: str, queues: int = 1, perm: int = READ | WRITE) -> TopicConfig:
    return TopicConfig(name, queues, queues, perm)


def _inherit(usable: bool) -> int:
    return INHERIT | READ | WRITE if usable else INHERIT
