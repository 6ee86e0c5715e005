"""Messages by key or place: 12 QUERY_MESSAGE, 33 VIEW_MESSAGE_BY_ID, 321 QUERY_CONSUME_QUEUE.

Source: RocketMQ 5.5.0 QueryMessageProcessor, AdminBrokerProcessor#queryConsumeQueue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rmqcore.broker.call import Call
from rmqcore.broker.handlers.in_background import answer_by_reader, when_warm
from rmqcore.broker.state.consumer_filters import ConsumerFilterData
from rmqcore.engine.store.store import MessageStore
from rmqcore.remoting.bodies.heartbeat import SQL92, subscription_json
from rmqcore.remoting.bodies.json_object import encode_json
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.frame import MAX_FRAME_SIZE
from rmqcore.remoting.names import UNIQUE_KEY_QUERY

MOST_BODY_BYTES = MAX_FRAME_SIZE - (1 << 16)
MOST_QUEUE_ENTRIES = 1024
"""Entries that one QUERY_CONSUME_QUEUE shows."""
GET_AT_ONCE = 32


def _query_message(call: Call) -> None:
    is_unique = call.request.ext_fields.get(UNIQUE_KEY_QUERY) == "true"
    answer_by_reader(call, lambda: _found_by_key(call, is_unique=is_unique))


def _found_by_key(call: Call, *, is_unique: bool) -> RemotingCommand:
    fields, store = call.fields, call.broker.store
    most = fields.number("maxNum")
    if is_unique:
        most = store.config.default_query_max_num
    asked = (
        fields.text("topic"),
        fields.text("key"),
        max(0, most),
        fields.number("beginTimestamp"),
        fields.number("endTimestamp"),
    )
    index_type = fields.text("indexType") or None
    store.read_in_query(*asked, index_type)
    result = store.query(*asked, index_type=index_type)
    ext_fields = {
        "indexLastUpdatePhyoffset": str(result.index_last_update_phy_offset),
        "indexLastUpdateTimestamp": str(result.index_last_update_timestamp_ms),
    }
    body = _newest([view.raw for view in result])
    if not body:
        remark = "can not find message, maybe time range not correct"
        return call.respond(ResponseCode.QUERY_NOT_FOUND, remark, ext_fields=ext_fields)
    return call.respond(ext_fields=ext_fields, body=body)


def _newest(records: list[bytes]) -> bytes:
    """Join the last records that fit in an answer."""
    room, first = MOST_BODY_BYTES, len(records)
    while first and len(records[first - 1]) <= room:
        first -= 1
        room -= len(records[first])
    return b"".join(records[first:])


def _view_message(call: Call) -> RemotingCommand | None:
    phy_offset = call.fields.number("offset")
    return when_warm(call, phy_offset, lambda: _viewed(call, phy_offset))


def _viewed(call: Call, phy_offset: int) -> RemotingCommand:
    view = call.broker.store.lookup(phy_offset)
    if view is None:
        remark = f"can not find message by the offset, {phy_offset}"
        return call.respond(ResponseCode.SYSTEM_ERROR, remark)
    return call.respond(body=view.raw)


def _query_consume_queue(call: Call) -> None:
    fields, of_group = call.fields, {}
    if "consumerGroup" in fields:
        of_group = _of_group(call, fields.text("consumerGroup"), fields.text("topic"))
    answer_by_reader(call, lambda: _found_in_queue(call, of_group))


def _found_in_queue(call: Call, of_group: dict[str, Any]) -> RemotingCommand:
    fields, store = call.fields, call.broker.store
    topic, queue_id = fields.text("topic"), fields.number("queueId")
    if (topic, queue_id) not in store.queues():
        return call.respond(ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic} is not exist!")
    min_offset, max_offset = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
    body = {"maxQueueIndex": max_offset, "minQueueIndex": min_offset, **of_group}
    index = fields.number("index")
    if not min_offset <= index < max_offset:
        remark = f"Index {index} of {queue_id}@{topic} is not exist!"
        return call.respond(remark=remark, body=encode_json(body))
    end = min(max_offset, index + min(fields.number("count"), MOST_QUEUE_ENTRIES))
    body["queueData"] = list(_entries(store, topic, queue_id, index, end))
    return call.respond(body=encode_json(body))


def _of_group(call: Call, group: str, topic: str) -> dict[str, Any]:
    """Return a group's subscription to a topic and its filter, as text."""
    wanted = call.broker.consumers.subscription(group, topic)
    if wanted is None:
        return {"filterData": f"{group}@{topic} is not online!"}
    data = call.broker.consumer_filters.get(group, topic)
    text = "null" if data is None else encode_json(_filter_json(group, topic, data)).decode()
    return {"subscriptionData": subscription_json(wanted), "filterData": text}


def _filter_json(group: str, topic: str, data: ConsumerFilterData) -> dict[str, Any]:
    return {
        "bornTime": data.born_ms,
        "clientVersion": data.client_version,
        "consumerGroup": group,
        "dead": data.dead_ms > 0,
        "deadTime": data.dead_ms,
        "expression": data.sql_filter.text,
        "expressionType": SQL92,
        "topic": topic,
    }


def _entries(
    store: MessageStore, topic: str, queue_id: int, begin: int, end: int
) -> Iterator[dict[str, Any]]:
    """Yield the entries of a queue whose messages are in the log."""
    at = begin
    while at < end:
        wanted = topic, queue_id, at, min(GET_AT_ONCE, end - at)
        store.read_in(*wanted)
        with store.get(*wanted) as result:
            for view in result:
                yield {
                    "eval": False,
                    "physicOffset": view.phy_offset,
                    "physicSize": view.msg_size,
                    "tagsCode": view.tags_code,
                }
            if result.next_begin_offset <= at:
                return
            at = result.next_begin_offset


HANDLERS: Mapping[RequestCode, Callable[[Call], RemotingCommand | None]] = {
    RequestCode.QUERY_MESSAGE: _query_message,
    RequestCode.VIEW_MESSAGE_BY_ID: _view_message,
    RequestCode.QUERY_CONSUME_QUEUE: _query_consume_queue,
}
