"""CONSUMER_SEND_MSG_BACK: a consumer returns a message that it could not consume, to get it again later.

Source: RocketMQ 5.5.0 AbstractSendMessageProcessor#consumerSendMsgBack.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rmqcore._native.put.put_result import PutResult
from rmqcore.broker.call import Call, answer_later
from rmqcore.broker.handlers.in_background import when_warm
from rmqcore.broker.handlers.send_checks import (
    DLQ_QUEUE_NUMS,
    FIRST_VERSION_WITH_MAX_RECONSUME_TIMES,
    SEE,
    UNIT_SUB,
    any_queue,
    forbidden_by_broker,
    refused_as_slave,
)
from rmqcore.broker.put_message import store_message
from rmqcore.broker.stored_copy import copy_of
from rmqcore.codec.message import Message, MessageView
from rmqcore.remoting.bodies.subscription_groups import SubscriptionGroupConfig
from rmqcore.remoting.bodies.topic_configs import READ, WRITE, TopicConfig
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.names import dlq_topic, retry_topic
from rmqcore.vocabulary.properties import DELAY, RETRY_TOPIC, WAIT
from rmqcore.vocabulary.status import PutMessageStatus
from rmqcore.vocabulary.topics import SCHEDULE_TOPIC

"""The property that has the topic which the message was first sent to."""
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
_LEAST_LEVEL = 3


def send_message_back(call: Call) -> RemotingCommand | None:
    """Store a message again for the group that could not consume it: with a delay, or among the dead letters."""
    if (refusal := refused_as_slave(call)) is not None:
        return refusal
    broker, group = call.broker, call.fields.text("group")
    found = broker.groups.find(group)
    if found is None:
        remark = f"subscription group not exist, {group} {SEE}"
        return call.respond(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
    if not broker.settings.broker_permission & WRITE:
        return call.respond(ResponseCode.NO_PERMISSION, forbidden_by_broker(call))
    if found.retry_queue_nums <= 0:
        return call.respond()
    sys_flag = UNIT_SUB if call.fields.flag("unitMode") else 0
    topic = retry_topic(group)
    _with_topic(
        call,
        topic,
        found.retry_queue_nums,
        sys_flag,
        lambda config: _send_back(call, config, found),
    )
    return None


def _with_topic(
    call: Call,
    topic: str,
    queue_nums: int,
    sys_flag: int,
    go_on: Callable[[TopicConfig], RemotingCommand | None],
) -> None:
    """Create a topic of retries or dead letters if it is missing, then continue."""

    def step(config: TopicConfig | None) -> RemotingCommand | None:
        if config is None:
            return call.respond(ResponseCode.SYSTEM_ERROR, f"topic[{topic}] not exist")
        return go_on(config)

    call.broker.topics.create_for_send_back(
        topic,
        queue_nums,
        READ | WRITE,
        sys_flag,
        lambda config: answer_later(call, lambda: step(config)),
    )


def _send_back(
    call: Call, config: TopicConfig, group: SubscriptionGroupConfig
) -> RemotingCommand | None:
    if not config.perm & WRITE:
        remark = f"the topic[{config.name}] sending message is forbidden"
        return call.respond(ResponseCode.NO_PERMISSION, remark)
    phy_offset = call.fields.number("offset")
    return when_warm(call, phy_offset, lambda: _send_back_at(call, config, group, phy_offset))


def _send_back_at(
    call: Call, config: TopicConfig, group: SubscriptionGroupConfig, phy_offset: int
) -> RemotingCommand | None:
    view = call.broker.store.lookup(phy_offset)
    if view is None:
        remark = f"look message by offset failed, {phy_offset}"
        return call.respond(ResponseCode.SYSTEM_ERROR, remark)
    level = call.fields.number("delayLevel")
    if view.reconsume_times < _most_times(call, group) and level >= 0:
        queue_id = any_queue(group.retry_queue_nums)
        _store(call, view, config.name, queue_id, level or _LEAST_LEVEL + view.reconsume_times)
        return None
    call.keep(view.msg_size)
    _with_topic(
        call,
        dlq_topic(group.group_name),
        DLQ_QUEUE_NUMS,
        0,
        lambda dlq: _store(call, view, dlq.name, any_queue(DLQ_QUEUE_NUMS), 0),
    )
    return None


def _most_times(call: Call, group: SubscriptionGroupConfig) -> int:
    if call.request.version < FIRST_VERSION_WITH_MAX_RECONSUME_TIMES:
        return group.retry_max_times
    return call.fields.number("maxReconsumeTimes", group.retry_max_times)


def _store(call: Call, view: MessageView, topic: str, queue_id: int, level: int) -> None:
    properties = view.properties
    first_topic = properties.setdefault(RETRY_TOPIC, view.topic)
    properties |= {WAIT: "false", DELAY: str(level)}
    if not properties.get(ORIGIN_MESSAGE_ID, "").strip():
        properties[ORIGIN_MESSAGE_ID] = view.msg_id
    message = copy_of(view, topic, queue_id, properties)
    message.store_host = call.broker.store_host
    message.reconsume_times = view.reconsume_times + 1
    store_message(
        call.broker,
        message,
        lambda result: call.answer(_answer(call, result, message, first_topic)),
    )


def _answer(call: Call, result: PutResult, message: Message, first_topic: str) -> RemotingCommand:
    if result.status is not PutMessageStatus.PUT_OK:
        return call.respond(ResponseCode.SYSTEM_ERROR, result.status.name)
    stats = call.broker.stats
    if message.topic == SCHEDULE_TOPIC:
        stats.topic_put(message.topic, 1, result.msg_size)
    stats.send_back(call.fields.text("group"), first_topic)
    return call.respond()


HANDLERS: Mapping[RequestCode, Callable[[Call], RemotingCommand | None]] = {
    RequestCode.CONSUMER_SEND_MSG_BACK: send_message_back,
}
