"""Checks of all requests that send messages, in Java's order and with its remarks.

Source: RocketMQ 5.5.0 AbstractSendMessageProcessor#msgCheck, #buildMsgContext, SendMessageProcessor#rejectRequest, #preSend.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from rmqcore.broker.call import Call, answer_later
from rmqcore.broker.put_message import delay_level
from rmqcore.broker.settings import BrokerSettings
from rmqcore.codec import decode_properties
from rmqcore.errors import RequestError
from rmqcore.remoting.bodies.topic_configs import READ, WRITE, TopicConfig
from rmqcore.remoting.codes import ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.names import RETRY_PREFIX, wrong_topic
from rmqcore.vocabulary import sysflag
from rmqcore.vocabulary.topics import NOT_FOR_SENDS

FAQ = "https://rocketmq.apache.org/docs/bestPractice/06FAQ"
SEE = f"\nSee {FAQ} for further details."
MSG_REGION = "MSG_REGION"
TRACE_ON = "TRACE_ON"
FIRST_VERSION_WITH_MAX_RECONSUME_TIMES = 121
"""V3_4_9: older clients mean nothing by the field."""
DLQ_QUEUE_NUMS = 1
_INHERIT = 1
_UNIT, UNIT_SUB = 1, 2
_RESERVED = "POP_CK"
_MULTI_TAG = "MULTI_TAG"
_NOT_SERVED = ("queue.type", "BatchCQ"), ("cleanup.policy", "COMPACTION")
"""Attributes of topics whose messages lie in files that are not written here: a Java broker would not find what is stored."""
_BUSY = "[REJECTREQUEST]system busy, start flow control for a while"

Step = Callable[[TopicConfig], RemotingCommand | None]


def refused_as_slave(call: Call) -> RemotingCommand | None:
    """Refuse a send if this broker is a slave, before any part of the send is checked."""
    if call.broker.store.config.is_slave:
        return call.respond(ResponseCode.SYSTEM_BUSY, _BUSY)
    return None


def refuse(call: Call, code: int, remark: str | None) -> RemotingCommand:
    """Return the response to a refused send, with region and tracing as in the response to an accepted one."""
    return call.respond(code, remark, ext_fields=common_fields(call))


def common_fields(call: Call) -> dict[str, str]:
    """Return the fields that each response to a send has."""
    return broker_fields(call.broker.settings)


def broker_fields(settings: BrokerSettings) -> dict[str, str]:
    """Return the broker's own fields, for responses and for properties."""
    return {MSG_REGION: settings.region_id, TRACE_ON: _flag_text(settings.trace_on)}


def stored_properties(call: Call) -> dict[str, str]:
    """Return the properties of a send, with those that every broker adds.

    Raises
    ------
    RequestError
        The delay level is not a number.
    """
    properties = decode_properties(call.fields.text("properties").encode())
    properties |= common_fields(call)
    properties.pop(_RESERVED, None)
    try:
        delay_level(properties)
    except ValueError as error:
        raise RequestError(call.code.name, "properties", "a delay level", str(error)) from error
    return properties


def with_topic(call: Call, go_on: Step) -> RemotingCommand | None:
    """Check a send, create its topic if allowed, and call `go_on` with the topic: now, or when its file is written.

    Returns
    -------
    RemotingCommand or None
        What `go_on` returned, or the refusal; None if the response was sent or is sent later.
    """
    broker, topic = call.broker, call.fields.text("topic")
    config = broker.topics.get(topic)
    if not broker.settings.broker_permission & WRITE and config is not None and config.order:
        return refuse(call, ResponseCode.NO_PERMISSION, forbidden_by_broker(call))
    if (wrong := wrong_topic(topic)) is not None:
        return refuse(call, ResponseCode.INVALID_PARAMETER, wrong)
    if topic in NOT_FOR_SENDS:
        remark = f"Sending message to topic[{topic}] is forbidden."
        return refuse(call, ResponseCode.NO_PERMISSION, remark)
    if config is not None:
        return _check_queue(call, config, go_on)
    call.keep(len(call.request.body))
    _create(call, topic, lambda made: answer_later(call, lambda: _made(call, made, go_on)))
    return None


def forbidden_by_broker(call: Call, what: str = "sending message") -> str:
    """Return the remark that this broker forbids an operation."""
    host = call.broker.address.rpartition(":")[0]
    return f"the broker[{host}] {what} is forbidden"


def any_queue(queue_nums: int) -> int:
    """Choose a queue.

    Raises
    ------
    ValueError
        `queue_nums` is 0.
    """
    return random.randrange(queue_nums)  # noqa: S311 no secret


def sys_flag_in(config: TopicConfig, sys_flag: int) -> int:
    """Return a message's SYSFLAG as it is stored in a topic."""
    return sys_flag | sysflag.MULTI_TAGS if config.topic_filter_type == _MULTI_TAG else sys_flag


def _create(call: Call, topic: str, then: Callable[[TopicConfig | None], object]) -> None:
    """Create a topic if the default topic of the send allows it; a retry topic needs no permission."""
    fields, topics = call.fields, call.broker.topics
    is_retry = topic.startswith(RETRY_PREFIX)
    sys_flag = 0
    if fields.flag("unitMode"):
        sys_flag = UNIT_SUB if is_retry else _UNIT

    def without_leave(config: TopicConfig | None) -> None:
        if config is None and is_retry:
            topics.create_for_send_back(topic, 1, READ | WRITE, sys_flag, then)
        else:
            then(config)

    default_topic = fields.text("defaultTopic")
    queue_nums = fields.number("defaultTopicQueueNums")
    topics.create_for_send(topic, default_topic, queue_nums, sys_flag, without_leave)


def _made(call: Call, config: TopicConfig | None, go_on: Step) -> RemotingCommand | None:
    if config is None:
        topic = call.fields.text("topic")
        remark = f"topic[{topic}] not exist, apply first please!{SEE}"
        return refuse(call, ResponseCode.TOPIC_NOT_EXIST, remark)
    return _check_queue(call, config, go_on)


def _check_queue(call: Call, config: TopicConfig, go_on: Step) -> RemotingCommand | None:
    queue_id = call.fields.number("queueId")
    if queue_id >= max(config.write_queue_nums, config.read_queue_nums):
        shown = _shown_topic(config)
        remark = f"request queueId[{queue_id}] is illegal, {shown} Producer: {call.channel.peer}"
        return refuse(call, ResponseCode.INVALID_PARAMETER, remark)
    if queue_id < 0 and config.write_queue_nums <= 0:
        remark = f"topic[{config.name}] has no writable queue"
        return refuse(call, ResponseCode.SYSTEM_ERROR, remark)
    if (attribute := unserved_attribute(config)) is not None:
        remark = f"topic[{config.name}] has {attribute}, which this broker does not support"
        return refuse(call, ResponseCode.MESSAGE_ILLEGAL, remark)
    return go_on(config)


def unserved_attribute(config: TopicConfig) -> str | None:
    """Return the attribute that keeps a topic from accepting messages here; None if it accepts them."""
    return next(
        (f"{key}={value}" for key, value in _NOT_SERVED if config.attributes.get(key) == value),
        None,
    )


def _shown_topic(config: TopicConfig) -> str:
    """Show a topic as Java does. Source: RocketMQ 5.5.0 TopicConfig#toString, PermName#perm2String."""
    bits = ((READ, "R"), (WRITE, "W"), (_INHERIT, "X"))
    perm = "".join(letter if config.perm & bit else "-" for bit, letter in bits)
    attributes = ", ".join(f"{key}={value}" for key, value in config.attributes.items())
    return (
        f"TopicConfig [topicName={config.name}, readQueueNums={config.read_queue_nums}, "
        f"writeQueueNums={config.write_queue_nums}, perm={perm}, topicFilterType={config.topic_filter_type}, "
        f"topicSysFlag={config.topic_sys_flag}, order={_flag_text(config.order)}, attributes={{{attributes}}}]"
    )


def _flag_text(value: bool) -> str:
    return "true" if value else "false"
