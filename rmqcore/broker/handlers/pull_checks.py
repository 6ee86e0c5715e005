"""Checks of a pull and of its filter, in RocketMQ's order, each with its code.

Source: RocketMQ 5.5.0 PullMessageProcessor#processRequest, FilterAPI.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from rmqcore._native.broker.pull_reader import Pull
from rmqcore.broker.call import Call
from rmqcore.broker.handlers.message_filters import PullFilter, SqlPullFilter, TagPullFilter
from rmqcore.broker.state.consumer_filters import compile_filter, is_tag_type
from rmqcore.remoting.bodies.heartbeat import SUBSCRIBE_ALL, SubscriptionData
from rmqcore.remoting.bodies.subscription_groups import SubscriptionGroupConfig
from rmqcore.remoting.bodies.topic_configs import READ, TopicConfig
from rmqcore.remoting.codes import ResponseCode
from rmqcore.remoting.command import RemotingCommand

if TYPE_CHECKING:
    from rmqcore.broker.broker import Broker

COMMIT_OFFSET, SUSPEND, SUBSCRIPTION = 1, 2, 4
"""Bits of a pull's ``sysFlag``: its commitOffset counts; it may be held; it brings its own expression."""
BROKER_FORBIDDEN, GROUP_FORBIDDEN, TOPIC_FORBIDDEN, BROADCASTING_FORBIDDEN = 1, 2, 3, 4
SUBSCRIPTION_FORBIDDEN = 5
"""What a response says as ``forbiddenType``."""
SEE = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
MOST_FILTERS, MOST_CACHED = 1024, 1024
"""Filters of tags that are kept, and letters of the longest expression whose filter is."""
_NO_EXPRESSION = "parse the consumer's subscription failed"


@dataclass(slots=True)  # frozen, it would cost a microsecond
class PullOrder:
    """Parameters of a pull that passed its checks."""

    topic: TopicConfig
    group: SubscriptionGroupConfig
    pull_filter: PullFilter


class PullRefused(Exception):  # noqa: N818 an answer, not an error
    """A pull was refused.

    Parameters
    ----------
    code : ResponseCode
    remark : str
    forbidden_type : int, optional
    """

    def __init__(self, code: ResponseCode, remark: str, forbidden_type: int | None = None) -> None:
        super().__init__(code, remark)
        self.code = code
        self.remark = remark
        self.forbidden_type = forbidden_type

    def response(self, call: Call) -> RemotingCommand:
        """Return the response."""
        kind = self.forbidden_type
        ext_fields = {} if kind is None else {"forbiddenType": str(kind)}
        return call.respond(self.code, self.remark, ext_fields=ext_fields)


def check_pull(broker: Broker, pull: Pull, peer: str) -> PullOrder:
    """Check topic, group, subscription and filter of a pull.

    Raises
    ------
    PullRefused
    """
    settings = broker.settings
    if broker.store.config.is_slave and not settings.slave_read_enable:
        remark = "[REJECTREQUEST]system busy, start flow control for a while"
        raise PullRefused(ResponseCode.SYSTEM_BUSY, remark)
    if not settings.broker_permission & READ:
        host = broker.address.rpartition(":")[0]
        remark = f"the broker[{host}] pulling message is forbidden"
        raise PullRefused(ResponseCode.NO_PERMISSION, remark, BROKER_FORBIDDEN)
    group = _checked_group(broker, pull)
    topic = _checked_topic(broker, pull, peer)
    if pull.sys_flag & SUBSCRIPTION:
        wanted = _own_subscription(pull)
        pull_filter = _own_filter(broker, pull, wanted)
    else:
        wanted = _known_subscription(broker, pull, group)
        pull_filter = _known_filter(broker, pull, wanted)
    if not is_tag_type(wanted.expression_type) and not settings.enable_property_filter:
        remark = (
            f"The broker does not support consumer to filter message by {wanted.expression_type}"
        )
        raise PullRefused(ResponseCode.SYSTEM_ERROR, remark)
    if pull_filter is None:
        raise PullRefused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, _NO_EXPRESSION)
    return PullOrder(topic, group, pull_filter)


def _checked_group(broker: Broker, pull: Pull) -> SubscriptionGroupConfig:
    name = pull.group
    group = broker.groups.find(name)
    if group is None:
        remark = f"subscription group [{name}] does not exist, {SEE}"
        raise PullRefused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
    if not group.consume_enable:
        remark = f"subscription group no permission, {name}"
        raise PullRefused(ResponseCode.NO_PERMISSION, remark, GROUP_FORBIDDEN)
    return group


def _checked_topic(broker: Broker, pull: Pull, peer: str) -> TopicConfig:
    name, queue_id = pull.topic, pull.queue_id
    topic = broker.topics.get(name)
    if topic is None:
        remark = f"topic[{name}] not exist, apply first please! {SEE}"
        raise PullRefused(ResponseCode.TOPIC_NOT_EXIST, remark)
    if not topic.perm & READ:
        remark = f"the topic[{name}] pulling message is forbidden"
        raise PullRefused(ResponseCode.NO_PERMISSION, remark, TOPIC_FORBIDDEN)
    if not 0 <= queue_id < topic.read_queue_nums:
        remark = (
            f"queueId[{queue_id}] is illegal, topic:[{name}] topicConfig.readQueueNums:[{topic.read_queue_nums}] "
            f"consumer:[/{peer}]"
        )
        raise PullRefused(ResponseCode.INVALID_PARAMETER, remark)
    return topic


def _own_subscription(pull: Pull) -> SubscriptionData:
    """Return the subscription that a pull contains."""
    expression = pull.subscription
    if is_tag_type(pull.expression_type):
        expression = expression or SUBSCRIBE_ALL
    elif not expression:
        raise PullRefused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, _NO_EXPRESSION)
    return SubscriptionData(
        pull.topic,
        expression,
        sub_version=pull.sub_version,
        expression_type=pull.expression_type,
    )


def _own_filter(broker: Broker, pull: Pull, wanted: SubscriptionData) -> PullFilter | None:
    """Compile the filter of a pull's own expression; None if the expression is invalid."""
    if is_tag_type(wanted.expression_type):
        return _tag_filter(wanted)
    known = broker.consumer_filters.get(pull.group, wanted.topic)
    if known is not None and known.sql_filter.text == wanted.sub_string:
        return SqlPullFilter(known.sql_filter)
    sql_filter = compile_filter(wanted.expression_type, wanted.sub_string)
    return None if sql_filter is None else SqlPullFilter(sql_filter)


def _known_subscription(
    broker: Broker, pull: Pull, group: SubscriptionGroupConfig
) -> SubscriptionData:
    """Return the subscription that the group's heartbeats reported."""
    name, topic = group.group_name, pull.topic
    info = broker.consumers.group(name)
    if info is None:
        remark = f"the consumer's group info not exist{SEE}"
        raise PullRefused(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
    if not group.consume_broadcast_enable and info.is_broadcasting:
        remark = f"the consumer group[{name}] can not consume by broadcast way"
        raise PullRefused(ResponseCode.NO_PERMISSION, remark, BROADCASTING_FORBIDDEN)
    if broker.groups.is_read_forbidden(name, topic):
        remark = f"the consumer group[{name}] is forbidden for topic[{topic}]"
        raise PullRefused(ResponseCode.NO_PERMISSION, remark, SUBSCRIPTION_FORBIDDEN)
    wanted = info.subscriptions.get(topic)
    if wanted is None:
        remark = f"the consumer's subscription not exist{SEE}"
        raise PullRefused(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
    if wanted.sub_version < pull.sub_version:
        remark = "the consumer's subscription not latest"
        raise PullRefused(ResponseCode.SUBSCRIPTION_NOT_LATEST, remark)
    return wanted


def _known_filter(broker: Broker, pull: Pull, wanted: SubscriptionData) -> PullFilter | None:
    """Return the filter of a known subscription; None if its expression is invalid."""
    if is_tag_type(wanted.expression_type):
        return _tag_filter(wanted)
    data = broker.consumer_filters.get(pull.group, wanted.topic)
    if data is None:
        remark = "The broker's consumer filter data is not exist!Your expression may be wrong!"
        raise PullRefused(ResponseCode.FILTER_DATA_NOT_EXIST, remark)
    if data.client_version < pull.sub_version:
        remark = "the consumer's consumer filter data not latest"
        raise PullRefused(ResponseCode.FILTER_DATA_NOT_LATEST, remark)
    return SqlPullFilter(data.sql_filter)


def _tag_filter(wanted: SubscriptionData) -> TagPullFilter | None:
    all_pass = wanted.class_filter_mode or wanted.sub_string == SUBSCRIBE_ALL
    tags = None if all_pass else wanted.sub_string
    # The cache keeps 1 MiB of expressions at most: long ones are rare, and would fill the memory.
    return _filter_of(tags) if tags is None or len(tags) <= MOST_CACHED else _new_filter(tags)


@lru_cache(maxsize=MOST_FILTERS)  # pulls of a group bring the same expression again and again
def _filter_of(tags: str | None) -> TagPullFilter | None:
    return _new_filter(tags)


def _new_filter(tags: str | None) -> TagPullFilter | None:
    try:
        return TagPullFilter(tags)
    except ValueError:
        return None
