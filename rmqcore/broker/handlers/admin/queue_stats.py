"""Requests about the offsets of queues, and those of groups in them.

The broker's own state is copied in the loop's thread; another thread reads queues and log.

Source: RocketMQ 5.5.0 AdminBrokerProcessor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from rmqcore.broker.broker import Broker
from rmqcore.broker.call import Call
from rmqcore.broker.handlers.in_background import answer_in_background
from rmqcore.broker.queue_times import earliest_time, store_time
from rmqcore.broker.state.stats import (
    BETWEEN_TOPIC_AND_GROUP,
    GROUP_GET_NUMS,
    TOPIC_PUT_NUMS,
    minute_tps,
)
from rmqcore.engine.store.store import MessageStore
from rmqcore.remoting.bodies.queue_locks import MessageQueue
from rmqcore.remoting.bodies.queue_tables import (
    ConsumeStats,
    OffsetWrapper,
    QueueTimeSpan,
    TopicOffset,
    encode_all_consume_stats,
    encode_time_spans,
    encode_topic_stats,
)
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand


def _get_topic_stats_info(call: Call) -> RemotingCommand | None:
    """Return the offsets of a topic's queues.

    Source: RocketMQ 5.5.0 AdminBrokerProcessor#getTopicStatsInfo.
    """
    name, store = call.fields.text("topic"), call.broker.store
    topic = call.broker.topics.get(name)
    if topic is None:
        return _no_topic(call, name)
    tps = minute_tps(call.broker.stats.item(TOPIC_PUT_NUMS, name))
    queues = _queues(call.broker, name, max(topic.read_queue_nums, topic.write_queue_nums))

    def work() -> RemotingCommand:
        offsets = {queue: _topic_offset(store, queue) for queue in queues}
        return call.respond(body=encode_topic_stats(offsets, tps))

    return answer_in_background(call, work)


def _topic_offset(store: MessageStore, queue: MessageQueue) -> TopicOffset:
    last = store.max_offset(queue.topic, queue.queue_id)
    time_ms = store_time(store, queue.topic, queue.queue_id, last - 1) if last > 0 else 0
    return TopicOffset(store.min_offset(queue.topic, queue.queue_id), last, time_ms)


def _get_consume_stats(call: Call) -> RemotingCommand | None:
    """Return how far a group has read topics: those that the request names, or all that the group has read and subscribes to.

    Source: RocketMQ 5.5.0 AdminBrokerProcessor#getConsumeStats.
    """
    broker, group = call.broker, call.fields.text("consumerGroup")
    listed = [name for name in call.fields.text("topicList").split(";") if name]
    if not listed:
        named = call.fields.text("topic").strip()
        listed = [named] if named else broker.offsets.topics_of(group)
        listed = [name for name in listed if _reads(broker, group, name)]
    read = [one for name in listed if (one := _read(broker, group, name, by_write=False))]

    def work() -> RemotingCommand:
        offsets: dict[MessageQueue, OffsetWrapper] = {}
        for one in read:
            offsets.update(one.stats(broker.store).offsets)
        stats = ConsumeStats(offsets, sum(one.tps for one in read))
        return call.respond(body=stats.encode())

    return answer_in_background(call, work)


def _get_broker_consume_stats(call: Call) -> RemotingCommand | None:
    """Return how far all groups have read all topics, or all ordered topics.

    Source: RocketMQ 5.5.0 AdminBrokerProcessor#fetchAllConsumeStatsInBroker.
    """
    broker, ordered = call.broker, call.fields.flag("isOrder")
    groups = {}
    for group in broker.groups.table().groups:
        names = [name for name in broker.offsets.topics_of(group) if _reads(broker, group, name)]
        found = (_read(broker, group, name, by_write=True) for name in names)
        groups[group] = [one for one in found if one and (one.ordered or not ordered)]

    def work() -> RemotingCommand:
        stats = ((group, [one.stats(broker.store) for one in groups[group]]) for group in groups)
        return call.respond(body=encode_all_consume_stats(broker.address, stats))

    return answer_in_background(call, work)


def _query_consume_time_span(call: Call) -> RemotingCommand | None:
    """Return the times of a topic's oldest and newest messages, and of those that a group consumes now.

    Source: RocketMQ 5.5.0 AdminBrokerProcessor#queryConsumeTimeSpan.
    """
    broker, name, group = call.broker, call.fields.text("topic"), call.fields.text("group")
    topic = broker.topics.get(name)
    if topic is None:
        return _no_topic(call, name)
    now_ms = broker.now_ms()
    queues = _queues(broker, name, topic.write_queue_nums)
    read = [(queue, broker.offsets.query(group, name, queue.queue_id)) for queue in queues]

    def work() -> RemotingCommand:
        spans = (_time_span(broker.store, queue, offset, now_ms) for queue, offset in read)
        return call.respond(body=encode_time_spans(spans))

    return answer_in_background(call, work)


def _time_span(
    store: MessageStore, queue: MessageQueue, consumer_offset: int, now_ms: int
) -> QueueTimeSpan:
    place = queue.topic, queue.queue_id
    last = store.max_offset(*place)
    first_ms = consumed_ms = earliest_time(store, *place)
    if consumer_offset > 0:
        consumed_ms = store_time(store, *place, consumer_offset - 1)
    delay_ms = 0
    if consumer_offset < last:
        delay_ms = now_ms - store_time(store, *place, consumer_offset)
    return QueueTimeSpan(
        queue, first_ms, store_time(store, *place, last - 1), consumed_ms, delay_ms
    )


@dataclass(frozen=True, slots=True)
class _Read:
    """A group's offsets in a topic: by queue the committed and the pulled one."""

    offsets: Mapping[MessageQueue, tuple[int, int]]
    tps: float
    ordered: bool

    def stats(self, store: MessageStore) -> ConsumeStats:
        """Compare the offsets with the queues."""
        return ConsumeStats(
            {queue: _wrapper(store, queue, *read) for queue, read in self.offsets.items()}, self.tps
        )


def _wrapper(
    store: MessageStore, queue: MessageQueue, committed: int, pulled: int
) -> OffsetWrapper:
    time_ms = store_time(store, queue.topic, queue.queue_id, committed - 1)
    last = store.max_offset(queue.topic, queue.queue_id)
    return OffsetWrapper(last, committed, max(committed, pulled), max(0, time_ms))


def _read(broker: Broker, group: str, topic_name: str, *, by_write: bool) -> _Read | None:
    topic = broker.topics.get(topic_name)
    if topic is None:
        return None
    offsets = broker.offsets
    read = {
        queue: (
            max(0, offsets.query(group, topic_name, queue.queue_id)),
            offsets.query_pull(group, topic_name, queue.queue_id),
        )
        for queue in _queues(
            broker, topic_name, topic.write_queue_nums if by_write else topic.read_queue_nums
        )
    }
    key = f"{topic_name}{BETWEEN_TOPIC_AND_GROUP}{group}"
    return _Read(read, minute_tps(broker.stats.item(GROUP_GET_NUMS, key)), topic.order)


def _reads(broker: Broker, group: str, topic: str) -> bool:
    """Return True if a group subscribes to a topic, or has no known subscription."""
    info = broker.consumers.group(group)
    return info is None or not info.subscriptions or topic in info.subscriptions


def _queues(broker: Broker, topic: str, many: int) -> Iterable[MessageQueue]:
    name = broker.settings.broker_name
    return [MessageQueue(topic, name, queue_id) for queue_id in range(many)]


def _no_topic(call: Call, name: str) -> RemotingCommand:
    return call.respond(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")


HANDLERS: Mapping[RequestCode, Callable[[Call], RemotingCommand | None]] = {
    RequestCode.GET_TOPIC_STATS_INFO: _get_topic_stats_info,
    RequestCode.GET_CONSUME_STATS: _get_consume_stats,
    RequestCode.GET_BROKER_CONSUME_STATS: _get_broker_consume_stats,
    RequestCode.QUERY_CONSUME_TIME_SPAN: _query_consume_time_span,
}
