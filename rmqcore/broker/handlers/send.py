"""Sends: SEND_MESSAGE, SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE.

Source: RocketMQ 5.5.0 SendMessageProcessor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rmqcore.broker.call import Call, answer_later
from rmqcore.broker.handlers.batch import send_batch
from rmqcore.broker.handlers.send_answers import answer_send
from rmqcore.broker.handlers.send_checks import (
    DLQ_QUEUE_NUMS,
    FIRST_VERSION_WITH_MAX_RECONSUME_TIMES,
    SEE,
    any_queue,
    forbidden_by_broker,
    refuse,
    refused_as_slave,
    stored_properties,
    sys_flag_in,
    with_topic,
)
from rmqcore.broker.put_message import delay_level, store_message
from rmqcore.broker.transactions.messages import half_of
from rmqcore.codec.message import Message
from rmqcore.remoting.bodies.topic_configs import READ, WRITE, TopicConfig
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.names import RETRY_PREFIX, dlq_topic
from rmqcore.vocabulary.properties import DELAY, PREPARED, UNIQ_KEY

CLUSTER = "CLUSTER"


@dataclass(slots=True)
class _Place:
    """Where a message is stored, and the queue that its producer sees: for a dead letter they differ."""

    topic: str
    queue_id: int
    told_queue_id: int


def send_message(call: Call) -> RemotingCommand | None:
    """Store the message of a send, and respond with its place."""
    if call.fields.flag("batch"):
        return send_batch(call)
    if (refusal := refused_as_slave(call)) is not None:
        return refusal
    if not call.request.body:
        return refuse(call, ResponseCode.SYSTEM_ERROR, "the message has no body")
    properties = stored_properties(call)
    return with_topic(call, lambda config: _place(call, config, properties))


def _place(call: Call, config: TopicConfig, properties: dict[str, str]) -> RemotingCommand | None:
    """Store a message in its queue, or among the dead letters if its group has tried it too often."""
    topic, queue_id = config.name, call.fields.number("queueId")
    if queue_id < 0:
        queue_id = any_queue(config.write_queue_nums)
    place = _Place(topic, queue_id, queue_id)
    if not topic.startswith(RETRY_PREFIX):
        return _store(call, config, properties, place)
    group = topic.removeprefix(RETRY_PREFIX)
    found = call.broker.groups.find(group)
    if found is None:
        remark = f"subscription group not exist, {group} {SEE}"
        return refuse(call, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
    if not _is_dead(call, group, found.retry_max_times):
        return _store(call, config, properties, place)

    def made(dlq: TopicConfig | None) -> RemotingCommand | None:
        if dlq is None:
            remark = f"topic[{place.topic}] not exist"
            return refuse(call, ResponseCode.SYSTEM_ERROR, remark)
        return _store(call, dlq, properties, place)

    properties[DELAY] = "-1"
    place.topic, place.queue_id = dlq_topic(group), any_queue(DLQ_QUEUE_NUMS)
    call.broker.topics.create_for_send_back(
        place.topic,
        DLQ_QUEUE_NUMS,
        READ | WRITE,
        0,
        lambda dlq: answer_later(call, lambda: made(dlq)),
    )
    return None


def _is_dead(call: Call, group: str, most: int) -> bool:
    """Return True if a message becomes a dead letter; in a group that consumes in order each retried message does."""
    fields = call.fields
    if call.request.version >= FIRST_VERSION_WITH_MAX_RECONSUME_TIMES:
        most = fields.number("maxReconsumeTimes", most)
    in_order = not call.broker.queue_locks.is_lock_all_expired(group)
    return in_order or fields.number("reconsumeTimes") > most


def _store(
    call: Call, config: TopicConfig, properties: dict[str, str], place: _Place
) -> RemotingCommand | None:
    broker, fields = call.broker, call.fields
    if not properties.get(UNIQ_KEY):
        properties[UNIQ_KEY] = broker.uniq_keys.make()
    properties[CLUSTER] = broker.settings.broker_cluster_name
    message = Message(
        place.topic,
        call.request.body,
        place.queue_id,
        properties=properties,
        flag=fields.number("flag"),
        sys_flag=sys_flag_in(config, fields.number("sysFlag")),
        born_timestamp_ms=fields.number("bornTimestamp"),
        born_host=call.channel.peer,
        store_host=broker.store_host,
        reconsume_times=fields.number("reconsumeTimes"),
    )
    if _is_half(message):
        if broker.settings.reject_transaction_message:
            remark = forbidden_by_broker(call, "sending transaction message")
            return refuse(call, ResponseCode.NO_PERMISSION, remark)
        message = half_of(message)
    uniq_key = properties[UNIQ_KEY]
    call.drop_frame()
    store_message(
        broker,
        message,
        lambda result: call.answer(
            answer_send(call, result, message.topic, place.told_queue_id, uniq_key)
        ),
        is_awaited=not call.request.is_oneway,
    )
    return None


def _is_half(message: Message) -> bool:
    """Return True if a message begins a transaction; clients before 4.6.1 leave the property in those that they retry."""
    properties = message.properties
    if properties.get(PREPARED, "").lower() != "true":
        return False
    return not (message.reconsume_times > 0 and delay_level(properties) > 0)


HANDLERS: Mapping[RequestCode, Callable[[Call], RemotingCommand | None]] = {
    RequestCode.SEND_MESSAGE: send_message,
    RequestCode.SEND_MESSAGE_V2: send_message,
    RequestCode.SEND_BATCH_MESSAGE: send_message,
}
