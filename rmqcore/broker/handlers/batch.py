"""Sends of many messages in one: what SEND_BATCH_MESSAGE is for, though the field ``batch`` makes it one, not the code.

Source: RocketMQ 5.5.0 SendMessageProcessor#sendBatchMessage, MessageExtEncoder#encode(MessageExtBatch).
"""

from __future__ import annotations

import struct

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
from rmqcore.broker.state.uniq_keys import UNIQ_KEY
from rmqcore.codec import decode_properties
from rmqcore.errors import RequestError
from rmqcore.message import Message
from rmqcore.remoting.bodies.topic_configs import TopicConfig
from rmqcore.remoting.codes import ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.names import RETRY_PREFIX

_MOST_TOPIC_LETTERS = 127
_HEAD = struct.Struct(">iiiii")
"""Size of the message, magic, body CRC, flag, size of its body."""
_PROPERTIES_SIZE = struct.Struct(">h")
_QUEUE_TYPE, _BATCH_QUEUE = "queue.type", "BatchCQ"


def send_batch(call: Call) -> RemotingCommand | None:
    """Store the messages of a batch, all or none, and answer where they lie."""
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
    store_batch(
        broker,
        messages,
        properties,
        lambda result: call.answer(answer_send(call, result, topic, queue_id, uniq_key)),
    )
    return None


def _messages(call: Call, config: TopicConfig, queue_id: int) -> list[Message]:
    """Read the messages of a batch; what they share is in the request. The batch's own properties are not theirs.

    Raises
    ------
    RequestError
        A size goes past the end of the body.
    """
    fields = call.fields
    sys_flag = sys_flag_in(config, fields.number("sysFlag"))
    born_timestamp_ms = fields.number("bornTimestamp")
    reconsume_times = fields.number("reconsumeTimes")
    body = memoryview(call.request.body)
    messages, pos = [], 0
    while pos < len(body):
        flag, begin, end, properties_end = _bounds(call, body, pos)
        message = Message(
            config.name,
            body[begin:end],
            queue_id,
            properties=decode_properties(body[end + _PROPERTIES_SIZE.size : properties_end]),
            flag=flag,
            sys_flag=sys_flag,
            born_timestamp_ms=born_timestamp_ms,
            born_host=call.channel.peer,
            store_host=call.broker.store_host,
            reconsume_times=reconsume_times,
        )
        messages.append(message)
        pos = properties_end
    return messages


def _bounds(call: Call, body: memoryview, pos: int) -> tuple[int, int, int, int]:
    """Give the flag of the message at `pos`, where its body begins and ends, and where its properties end."""
    begin = pos + _HEAD.size
    if begin > len(body):
        raise _cut_off(call, pos)
    *_, flag, body_size = _HEAD.unpack_from(body, pos)
    end = begin + body_size
    if body_size < 0 or end + _PROPERTIES_SIZE.size > len(body):
        raise _cut_off(call, pos)
    (properties_size,) = _PROPERTIES_SIZE.unpack_from(body, end)
    properties_end = end + _PROPERTIES_SIZE.size + properties_size
    if properties_size < 0 or properties_end > len(body):
        raise _cut_off(call, pos)
    return flag, begin, end, properties_end


def _cut_off(call: Call, pos: int) -> RequestError:
    return RequestError(call.code.name, "body", "whole messages", f"one at {pos} that is cut off")
