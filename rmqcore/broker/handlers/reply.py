"""Replies: SEND_REPLY_MESSAGE and its second version go to the client that asked, as PUSH_REPLY_MESSAGE_TO_CLIENT.

Source: RocketMQ 5.5.0 ReplyMessageProcessor.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from rmqcore._native.put.put_result import PutResult
from rmqcore.broker.call import Call
from rmqcore.broker.handlers.send_answers import STORED_CODES
from rmqcore.broker.handlers.send_checks import (
    any_queue,
    common_fields,
    refuse,
    stored_properties,
    with_topic,
)
from rmqcore.broker.put_message import store_message
from rmqcore.codec import encode_properties
from rmqcore.codec.message import Message
from rmqcore.remoting.bodies.topic_configs import TopicConfig
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.request_fields import REQUEST_FIELDS, encode_fields

REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
PUSH_TIMEOUT_MS = 10_000
_LOG = logging.getLogger("rmqcore.broker")


def send_reply(call: Call) -> RemotingCommand | None:
    """Push a reply to the client that asked, store it, and report whether the client received it."""
    if not call.request.body:
        return refuse(call, ResponseCode.SYSTEM_ERROR, "the message has no body")
    properties = stored_properties(call)
    return with_topic(call, lambda config: _push(call, config, properties))


def _push(call: Call, config: TopicConfig, properties: dict[str, str]) -> RemotingCommand | None:
    queue_id = call.fields.number("queueId")
    if queue_id < 0:
        queue_id = any_queue(config.write_queue_nums)
    client_id = properties.get(REPLY_TO_CLIENT)
    if client_id is None:
        why = f"reply message properties[{REPLY_TO_CLIENT}] is null"
        _store(call, queue_id, properties, why)
        return None
    channel = call.broker.producers.find_channel(client_id)
    if channel is None:
        why = f"push reply message fail, channel of <{client_id}> not found."
        _store(call, queue_id, properties, why)
        return None

    def pushed(response: RemotingCommand | None) -> None:
        arrived = response is not None and response.code == ResponseCode.SUCCESS
        why = None if arrived else f"push reply message to {client_id}fail."
        _store(call, queue_id, properties, why)

    call.broker.client_requests.ask(channel, _request(call, properties), pushed, PUSH_TIMEOUT_MS)
    return None


def _request(call: Call, properties: dict[str, str]) -> RemotingCommand:
    broker, code = call.broker, RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
    now_ms = broker.now_ms()
    known = {spec.name for spec in REQUEST_FIELDS[code]}
    fields = {name: value for name, value in call.fields.items() if name in known}
    pushed = properties | {PUSH_REPLY_TIME: str(now_ms)}
    fields |= {
        "properties": encode_properties(pushed).decode(),
        "bornHost": call.channel.peer,
        "storeHost": broker.store_host,
        "storeTimestamp": now_ms,
    }
    return RemotingCommand(code, ext_fields=encode_fields(code, fields), body=call.request.body)


def _store(call: Call, queue_id: int, properties: dict[str, str], why: str | None) -> None:
    """Store a reply in the topic of replies for operators; respond with `why`, the reason that it did not arrive."""
    fields = call.fields
    message = Message(
        fields.text("topic"),
        call.request.body,
        queue_id,
        properties=properties,
        flag=fields.number("flag"),
        born_timestamp_ms=fields.number("bornTimestamp"),
        born_host=call.channel.peer,
        store_host=call.broker.store_host,
        reconsume_times=fields.number("reconsumeTimes"),
    )
    call.drop_frame()
    store_message(
        call.broker,
        message,
        lambda result: call.answer(_answer(call, result, queue_id, why)),
        is_awaited=not call.request.is_oneway,
    )


def _answer(call: Call, result: PutResult, queue_id: int, why: str | None) -> RemotingCommand:
    fields = common_fields(call)
    if why is None:
        fields |= {"msgId": "0", "queueId": str(queue_id), "queueOffset": "0"}
    else:
        _LOG.warning("%s: %s", call.code.name, why)
    if result.status in STORED_CODES:
        topic = call.fields.text("topic")
        call.broker.stats.topic_put(topic, result.count, result.msg_size)
        call.broker.stats.broker_put(result.count)
        fields |= {
            "msgId": result.msg_id or "",
            "queueId": str(queue_id),
            "queueOffset": str(result.queue_offset),
        }
    else:
        _LOG.warning("a reply could not be stored: %s", result.status)
    code = ResponseCode.SUCCESS if why is None else ResponseCode.SYSTEM_ERROR
    return call.respond(code, why, ext_fields=fields)


HANDLERS: Mapping[RequestCode, Callable[[Call], RemotingCommand | None]] = {
    RequestCode.SEND_REPLY_MESSAGE: send_reply,
    RequestCode.SEND_REPLY_MESSAGE_V2: send_reply,
}
