"""Sends of a batch of messages. The field ``batch`` marks them, not the code SEND_BATCH_MESSAGE.

Source: RocketMQ 5.5.0 SendMessageProcessor#sendBatchMessage, MessageExtEncoder#encode(MessageExtBatch).
"""

from __future__ import annotations

from rmqcore.broker.call import Call
from rmqcore.broker.handlers.send_answers import answer_send
from rmqcore.broker.handlers.send_checks import (
    any_queue,
    refuse,
    refused_as_slave,
    stored_properties,
    sys_flag_in,
    with_topic,
)
from rmqcore.broker.put_message import store_batch
from rmqcore.codec import decode_batch
from rmqcore.codec.message import Message
from rmqcore.errors import CorruptMessageError, RequestError
from rmqcore.remoting.bodies.topic_configs import TopicConfig
from rmqcore.remoting.codes import ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.names import RETRY_PREFIX
from rmqcore.vocabulary.properties import UNIQ_KEY

_MOST_TOPIC_LETTERS = 127
_QUEUE_TYPE, _BATCH_QUEUE = "queue.type", "BatchCQ"


def send_batch(call: Call) -> RemotingCommand | None:
    """Store the messages of a batch, all or none, and respond with their places."""
    if (refusal := refused_as_slave(call)) is not None:
        return refusal
    if not call.request.body:
        return refuse(call, ResponseCode.SYSTEM_ERROR, "the batch has no message")
    properties = stored_properties(call)
    return with_topic(call, lambda config: _store(call, config, properties))


def _store(call: Call, config: TopicConfig, properties: dict[str, str]) -> RemotingCommand | None:
    broker, topic = call.broker, config.name
    queue_id = call.fields.number("queueId")
    if queue_id < 0:
        queue_id = any_queue(config.write_queue_nums)
    if len(topic) > _MOST_TOPIC_LETTERS:
        remark = f"message topic length too long {len(topic)}"
        return refuse(call, ResponseCode.MESSAGE_ILLEGAL, remark)
    if topic.startswith(RETRY_PREFIX):
        remark = f"batch request does not support retry group {topic}"
        return refuse(call, ResponseCode.MESSAGE_ILLEGAL, remark)
    if config.attributes.get(_QUEUE_TYPE) == _BATCH_QUEUE:
        remark = f"topic[{topic}] is one of batch queues, which this broker does not have"
        return refuse(call, ResponseCode.MESSAGE_ILLEGAL, remark)
    if len(call.request.body) > broker.store.config.max_message_size:
        return refuse(call, ResponseCode.SYSTEM_ERROR, "message body size exceeded")
    messages = _messages(call, config, queue_id)
    uniq_key = properties.get(UNIQ_KEY)
    call.drop_frame()
    store_batch(
        broker,
        messages,
        properties,
        lambda result: call.answer(answer_send(call, result, topic, queue_id, uniq_key)),
        is_awaited=not call.request.is_oneway,
    )
    return None


def _messages(call: Call, config: TopicConfig, queue_id: int) -> list[Message]:
    """Read the messages of a batch, with the fields that they share from the request, but not the batch's properties.

    Raises
    ------
    RequestError
        A length is negative, or exceeds the body.
    """
    fields = call.fields
    sys_flag = sys_flag_in(config, fields.number("sysFlag"))
    born_timestamp_ms = fields.number("bornTimestamp")
    reconsume_times = fields.number("reconsumeTimes")
    try:
        # Java does not check the sizes that clients write.
        parts = decode_batch(call.request.body, check_size=False)
    except CorruptMessageError as error:
        field = f"body, {error.field} at {error.phy_offset}"
        raise RequestError(call.code.name, field, error.expected, error.found) from None
    return [
        Message(
            config.name,
            part.body,
            queue_id,
            properties=part.properties,
            flag=part.flag,
            sys_flag=sys_flag,
            born_timestamp_ms=born_timestamp_ms,
            born_host=call.channel.peer,
            store_host=call.broker.store_host,
            reconsume_times=reconsume_times,
        )
        for part in parts
    ]
