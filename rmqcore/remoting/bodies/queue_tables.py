"""Bodies about the queues of topics: their offsets, and the offsets of groups in them.

Tables whose keys are queues are not JSON: their keys are objects, as Java's fastjson writes them. fastjson does not
read a quoted key.

Source: RocketMQ 5.5.0 TopicStatsTable, ConsumeStats, ConsumeStatsList, QueryConsumeTimeSpanBody, ResetOffsetBody,
ResetOffsetBodyForC, GetConsumerStatusBody.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from rmqcore.remoting.bodies.json_object import JsonObject, encode_json, parse_body
from rmqcore.remoting.bodies.queue_locks import MessageQueue

# A string, which stays unchanged, or an object that is a key.
_OBJECT_KEYS = re.compile(
    r'"(?:[^"\\]|\\.)*+"?|([{,])(\{(?:[^{}"]|"(?:[^"\\]|\\.)*+")*+\})(?=:)', re.DOTALL
)


@dataclass(frozen=True, slots=True)
class TopicOffset:
    """The first and last offset of a queue, and the store time of its newest message, 0 if the queue is empty."""

    min_offset: int
    max_offset: int
    last_update_timestamp_ms: int = 0

    def as_json(self) -> dict[str, object]:
        """Return it by Java's names."""
        return {
            "lastUpdateTimestamp": self.last_update_timestamp_ms,
            "maxOffset": self.max_offset,
            "minOffset": self.min_offset,
        }


@dataclass(frozen=True, slots=True)
class OffsetWrapper:
    """The offset of a group in a queue, and the store time of the last message that it has consumed, 0 without one."""

    broker_offset: int
    consumer_offset: int
    pull_offset: int
    last_timestamp_ms: int = 0

    def as_json(self) -> dict[str, object]:
        """Return it by Java's names."""
        return {
            "brokerOffset": self.broker_offset,
            "consumerOffset": self.consumer_offset,
            "lastTimestamp": self.last_timestamp_ms,
            "pullOffset": self.pull_offset,
        }


@dataclass(frozen=True, slots=True)
class ConsumeStats:
    """How far a group has read the queues of some topics."""

    offsets: Mapping[MessageQueue, OffsetWrapper]
    consume_tps: float = 0.0

    def encode(self) -> bytes:
        """Write the body of the answer to GET_CONSUME_STATS."""
        table = _table((queue, encode_json(one.as_json())) for queue, one in self.offsets.items())
        return b'{"consumeTps":%s,"offsetTable":%s}' % (encode_json(self.consume_tps), table)

    @property
    def behind(self) -> int:
        """Messages that the group has not consumed."""
        return sum(one.broker_offset - one.consumer_offset for one in self.offsets.values())

    @property
    def in_flight(self) -> int:
        """Messages that the group has received and not consumed."""
        return sum(one.pull_offset - one.consumer_offset for one in self.offsets.values())


@dataclass(frozen=True, slots=True)
class QueueTimeSpan:
    """The store times of a queue's messages, and of the last one that a group has consumed; -1 without one."""

    queue: MessageQueue
    min_timestamp_ms: int
    max_timestamp_ms: int
    consume_timestamp_ms: int
    delay_ms: int

    def as_json(self) -> dict[str, object]:
        """Return it by Java's names."""
        return {
            "consumeTimeStamp": self.consume_timestamp_ms,
            "delayTime": self.delay_ms,
            "maxTimeStamp": self.max_timestamp_ms,
            "messageQueue": self.queue.as_json(),
            "minTimeStamp": self.min_timestamp_ms,
        }


def encode_topic_stats(offsets: Mapping[MessageQueue, TopicOffset], put_tps: float) -> bytes:
    """Write the body of the answer to GET_TOPIC_STATS_INFO."""
    table = _table((queue, encode_json(one.as_json())) for queue, one in offsets.items())
    return b'{"offsetTable":%s,"topicPutTps":%s}' % (table, encode_json(put_tps))


def encode_all_consume_stats(
    broker_address: str, stats: Iterable[tuple[str, Iterable[ConsumeStats]]]
) -> bytes:
    """Write the body of the answer to GET_BROKER_CONSUME_STATS: groups, each with its topics."""
    groups, behind, in_flight = [], 0, 0
    for group, topics in stats:
        found = list(topics)
        behind += sum(one.behind for one in found)
        in_flight += sum(one.in_flight for one in found)
        listed = b",".join(one.encode() for one in found)
        groups.append(b"{%s:[%s]}" % (encode_json(group), listed))
    return b'{"brokerAddr":%s,"consumeStatsList":[%s],"totalDiff":%d,"totalInflightDiff":%d}' % (
        encode_json(broker_address),
        b",".join(groups),
        behind,
        in_flight,
    )


def encode_time_spans(spans: Iterable[QueueTimeSpan]) -> bytes:
    """Write the body of the answer to QUERY_CONSUME_TIME_SPAN."""
    return encode_json({"consumeTimeSpanSet": [span.as_json() for span in spans]})


def encode_reset_offsets(offsets: Mapping[MessageQueue, int]) -> bytes:
    """Write the queue offsets from which a group has to continue."""
    table = _table((queue, b"%d" % queue_offset) for queue, queue_offset in offsets.items())
    return b'{"offsetTable":%s}' % table


def encode_reset_offsets_for_c(offsets: Mapping[MessageQueue, int]) -> bytes:
    """Write the queue offsets from which a group has to continue, for a client that reads plain JSON, unlike Java's."""
    listed = [{**queue.as_json(), "offset": offset} for queue, offset in offsets.items()]
    return encode_json({"offsetTable": listed})


def parse_queue_numbers(request: str, member: str, body: bytes) -> dict[MessageQueue, int]:
    """Read a member of a body that is a table of numbers by queue; return an empty table if it is missing.

    Raises
    ------
    RequestError
        The member is not a table of numbers by queue.
    """
    found = parse_body(request, _with_text_keys(body)).child(member).number_table()
    return {_queue(request, key): number for key, number in found.items()}


def encode_consumer_status(clients: Mapping[str, Mapping[MessageQueue, int]]) -> bytes:
    """Write the body of the answer to INVOKE_BROKER_TO_GET_CONSUMER_STATUS: offsets by client id and queue."""
    tables = (
        b"%s:%s" % (encode_json(client), _table((queue, b"%d" % at) for queue, at in found.items()))
        for client, found in clients.items()
    )
    return b'{"consumerTable":{%s},"messageQueueTable":{}}' % b",".join(tables)


def encode_client_status(offsets: Mapping[MessageQueue, int]) -> bytes:
    """Write the body of the answer to GET_CONSUMER_STATUS_FROM_CLIENT."""
    table = _table((queue, b"%d" % queue_offset) for queue, queue_offset in offsets.items())
    return b'{"consumerTable":{},"messageQueueTable":%s}' % table


def encode_running_info(
    properties: Mapping[str, str],
    subscriptions: Iterable[Mapping[str, object]],
    queues: Mapping[MessageQueue, Mapping[str, object]],
) -> bytes:
    """Write the body of the answer to GET_CONSUMER_RUNNING_INFO, without the times of single calls."""
    table = _table((queue, encode_json(dict(held))) for queue, held in queues.items())
    return (
        b'{"mqPopTable":{},"mqTable":%s,"properties":%s,"statusTable":{},"subscriptionSet":%s}'
        % (
            table,
            encode_json(dict(properties)),
            encode_json(list(subscriptions)),
        )
    )


def _table(entries: Iterable[tuple[MessageQueue, bytes]]) -> bytes:
    return b"{%s}" % b",".join(
        b"%s:%s" % (encode_json(queue.as_json()), value) for queue, value in entries
    )


def parse_consume_stats(request: str, body: bytes) -> ConsumeStats:
    """Read the body of the answer to GET_CONSUME_STATS, without its rate.

    Raises
    ------
    RequestError
        The body is not a valid response to GET_CONSUME_STATS.
    """
    offsets = {}
    for queue, found in _parse_table(request, body):
        consumer_offset = found.number("consumerOffset")
        offsets[queue] = OffsetWrapper(
            found.number("brokerOffset"),
            consumer_offset,
            found.number("pullOffset", consumer_offset),
            found.number("lastTimestamp", 0),
        )
    return ConsumeStats(offsets)


def _parse_table(request: str, body: bytes) -> Iterator[tuple[MessageQueue, JsonObject]]:
    """Read a table whose keys are queues."""
    for key, found in parse_body(request, _with_text_keys(body)).table("offsetTable"):
        yield _queue(request, key), found


def _queue(request: str, key: str) -> MessageQueue:
    queue = parse_body(request, key.encode())
    return MessageQueue(queue.text("topic"), queue.text("brokerName"), queue.number("queueId"))


def _with_text_keys(body: bytes) -> bytes:
    """Turn a body into JSON: each key that is an object becomes a text that contains the object's JSON."""
    text = body.decode("utf-8", "replace")
    return _OBJECT_KEYS.sub(
        lambda found: found[0] if found[2] is None else found[1] + json.dumps(found[2]), text
    ).encode()
