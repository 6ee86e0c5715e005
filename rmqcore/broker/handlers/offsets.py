"""Offsets of groups and queues: 14, 15, 29 to 32, and 43 GET_ALL_CONSUMER_OFFSET.

Source: RocketMQ 5.5.0 ConsumerManageProcessor, AdminBrokerProcessor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from rmqcore.broker.call import Call
from rmqcore.broker.handlers.in_background import answer_by_reader, answer_with_table
from rmqcore.broker.queue_times import earliest_time
from rmqcore.queries.time_search import Boundary
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand


def _queue(call: Call) -> tuple[str, int]:
    return call.fields.text("topic"), call.fields.number("queueId")


def _respond(call: Call, queue_offset: int) -> RemotingCommand:
    return call.respond(ext_fields={"offset": str(queue_offset)})


def _query_consumer_offset(call: Call) -> RemotingCommand | None:
    """Return a committed offset. A new group always starts at the first message of a young queue."""
    topic, queue_id = _queue(call)
    committed = call.broker.offsets.query(call.fields.text("consumerGroup"), topic, queue_id)
    if committed >= 0:
        return _respond(call, committed)
    if not call.fields.flag("setZeroIfNotFound", default=True):
        remark = "Not found, do not set to zero, maybe this group boot first"
        return call.respond(ResponseCode.QUERY_NOT_FOUND, remark)
    first = call.broker.deleted_topics.first_offset(topic, queue_id)
    answer_by_reader(call, lambda: _first_offset(call, first))
    return None


def _first_offset(call: Call, first: int) -> RemotingCommand:
    is_young = call.broker.store.min_offset(*_queue(call)) <= first
    if is_young and _has_first_message(call, first):
        return _respond(call, first)
    remark = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
    return call.respond(ResponseCode.QUERY_NOT_FOUND, remark)


def _has_first_message(call: Call, first: int) -> bool:
    """Return True if the queue still has its first message, at offset 0 unless its topic was deleted before.

    Java also checks that the message is in memory. From Java 14 on it cannot find out, and assumes that it is.

    Source: RocketMQ 5.5.0 DefaultMessageStore#checkInMemByConsumeOffset, DefaultMappedFile#isLoaded.
    """
    (topic, queue_id), store = _queue(call), call.broker.store
    phy_offset = store.phy_offset_of(topic, queue_id, first)
    return phy_offset is not None and phy_offset >= store.min_phy_offset


def _update_consumer_offset(call: Call) -> RemotingCommand:
    (topic, queue_id), fields, broker = _queue(call), call.fields, call.broker
    group = fields.text("consumerGroup")
    if broker.groups.get(group) is None:
        return call.respond(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} not exist!")
    config = broker.topics.get(topic)
    if config is None:
        return call.respond(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} not exist!")
    committed = fields.number("commitOffset")
    most_queues = max(config.read_queue_nums, config.write_queue_nums)
    if not (0 <= queue_id < most_queues and committed >= 0):
        remark = (
            f"queue id {queue_id}, offset {committed}: topic {topic} does not have this queue or "
            "offset"
        )
        return call.respond(ResponseCode.INVALID_PARAMETER, remark)
    broker.offsets.commit(group, topic, queue_id, committed, call.channel.peer)
    return call.respond()


def _search_by_timestamp(call: Call) -> None:
    is_upper = call.fields.text("boundaryType").upper() == Boundary.UPPER.value
    boundary = Boundary.UPPER if is_upper else Boundary.LOWER
    search = partial(
        call.broker.store.offset_by_time,
        *_queue(call),
        call.fields.number("timestamp"),
        boundary.value,
    )
    answer_by_reader(call, lambda: _respond(call, search()))


def _max_offset(call: Call) -> RemotingCommand:
    return _respond(call, call.broker.store.max_offset(*_queue(call)))


def _min_offset(call: Call) -> RemotingCommand:
    return _respond(call, call.broker.store.min_offset(*_queue(call)))


def _earliest_store_time(call: Call) -> None:
    """Return the store time of a queue's first message; -1 if the queue is empty."""
    store = call.broker.store

    def work() -> RemotingCommand:
        timestamp_ms = earliest_time(store, *_queue(call))
        return call.respond(ext_fields={"timestamp": str(timestamp_ms)})

    answer_by_reader(call, work)


def _all_consumer_offsets(call: Call) -> RemotingCommand | None:
    offsets = call.broker.offsets
    return answer_with_table(call, offsets.snapshot(), len(offsets))


HANDLERS: Mapping[RequestCode, Callable[[Call], RemotingCommand | None]] = {
    RequestCode.QUERY_CONSUMER_OFFSET: _query_consumer_offset,
    RequestCode.UPDATE_CONSUMER_OFFSET: _update_consumer_offset,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: _search_by_timestamp,
    RequestCode.GET_MAX_OFFSET: _max_offset,
    RequestCode.GET_MIN_OFFSET: _min_offset,
    RequestCode.GET_EARLIEST_MSG_STORETIME: _earliest_store_time,
    RequestCode.GET_ALL_CONSUMER_OFFSET: _all_consumer_offsets,
}
