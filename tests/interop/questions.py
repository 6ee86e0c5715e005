"""Every kind of question to a store, at the places where answers change, asked of Java and of us."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterable
from typing import Any

from interop.java_store import JavaStore

from rmqcore.codec import MessageView
from rmqcore.engine.store.store import MessageStore

FOREVER = 2**63 - 1
NO_LIMIT = 128 * 1024 * 1024
ASKED = 40  # keys and times a store, at random
# Where the record, not a light queue's entry, says which offset a message has.
LIGHT_PREFIX = "%LMQ%"
RECORD_FIELDS = (
    "phy_offset msg_size magic body_crc queue_id flag queue_offset sys_flag born_timestamp_ms born_host"
    " store_timestamp_ms store_host reconsume_times prepared_transaction_offset topic properties msg_id tags_code"
).split()


def as_java(view: MessageView) -> dict[str, Any]:
    """All fields of a message, in the form of `JavaStore.records`."""
    made = {name: getattr(view, name) for name in RECORD_FIELDS}
    for name in ("born_host", "store_host"):
        made[name] = expanded(made[name])
    zipped = view.sys_flag & 1
    plain = view.decompress() if zipped else view.body
    return {
        "kind": "MESSAGE",
        **made,
        "body": zlib.crc32(view.body),
        "plain_body": zlib.crc32(plain),
    }


def expanded(host: str) -> str:
    """Java writes an IPv6 address without "::"."""
    if not host.startswith("["):
        return host
    address, _, port = host[1:].rpartition("]:")
    head, gap, tail = address.partition("::")
    if gap:
        groups = [*filter(None, head.split(":"))], [*filter(None, tail.split(":"))]
        middle = ["0"] * (8 - len(groups[0]) - len(groups[1]))
        address = ":".join([*groups[0], *middle, *groups[1]])
    return f"[{address}]:{port}"


def check_same_answers(java: JavaStore, store: MessageStore, seed: int = 0) -> None:
    """Ask both everything: offsets, records, get, query, by time, lookup; every field of every answer is the same."""
    rng = random.Random(seed)
    offsets, records = java.offsets(), java.records()
    check_offsets(offsets, store)
    messages = [record for record in records if record["kind"] == "MESSAGE"]
    assert messages, "nothing to ask for"
    assert not [record for record in records if record["kind"] == "BAD"]
    check_records(messages, store)
    check_gets(java, store, offsets["queues"], rng)
    check_queries(java, store, messages, rng)
    check_times(java, store, offsets["queues"], messages, rng)
    check_places(java, store, offsets, messages, rng)


def check_offsets(java: dict[str, Any], store: MessageStore) -> None:
    for name in ("min_phy_offset", "max_phy_offset"):
        assert getattr(store, name) == java[name], name
    ours = [
        {
            "topic": topic,
            "queue_id": queue_id,
            "min_offset": store.min_offset(topic, queue_id),
            "max_offset": store.max_offset(topic, queue_id),
        }
        for topic, queue_id in sorted(
            store.queues(), key=lambda q: (q[0].encode("utf-16-be"), q[1])
        )
    ]
    assert without_empty(ours) == without_empty(java["queues"])


def without_empty(queues: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Java makes a queue in memory of everything that somebody asked for."""
    return [queue for queue in queues if queue["max_offset"] > 0]


def check_records(messages: list[dict[str, Any]], store: MessageStore) -> None:
    for record in messages:
        view = store.lookup(record["phy_offset"])
        assert view is not None, record
        assert as_java(view) == record
        by_id = store.lookup_id(record["msg_id"])
        assert by_id is not None
        assert by_id.phy_offset == record["phy_offset"]


def found(messages: Iterable[MessageView]) -> list[list[int]]:
    return [[m.phy_offset, m.msg_size, zlib.crc32(m.raw)] for m in messages]


def check_gets(
    java: JavaStore, store: MessageStore, queues: list[dict[str, Any]], rng: random.Random
) -> None:
    requests = [
        {
            "topic": queue["topic"],
            "queueId": queue["queue_id"],
            "queueOffset": queue_offset,
            "maxMessages": max_messages,
            "maxBytes": max_bytes,
            "tags": tags,
        }
        for queue in queues
        for queue_offset, max_messages, max_bytes, tags in gets_of(queue, rng)
    ]
    requests.append(
        {"topic": "None", "queueId": 0, "queueOffset": 5, "maxMessages": 32, "maxBytes": NO_LIMIT}
    )
    for request, want in zip(requests, java.get(requests), strict=True):
        with store.get(
            request["topic"],
            request["queueId"],
            request["queueOffset"],
            request["maxMessages"],
            tags=request.get("tags"),
            max_bytes=request["maxBytes"],
        ) as got:
            answer = {
                "status": got.status.name,
                "next_begin_offset": got.next_begin_offset,
                "min_offset": got.min_offset,
                "max_offset": got.max_offset,
                "buffer_total_size": got.buffer_total_size,
                "queue_offsets": [m.queue_offset for m in got.messages],
                "messages": found(got.messages),
            }
        if request["topic"].startswith(LIGHT_PREFIX):
            answer["queue_offsets"] = want["queue_offsets"]
        assert answer == want, request


def gets_of(queue: dict[str, Any], rng: random.Random) -> list[tuple[int, int, int, str | None]]:
    """Offset, most messages, most bytes and tags of the gets from one queue."""
    first, end = queue["min_offset"], queue["max_offset"]
    edges = [-1, 0, first - 1, first, (first + end) // 2, end - 1, end, end + 1, end + 1000]
    inside = rng.randrange(first, max(end, first + 1))
    return [
        *((offset, 32, NO_LIMIT, None) for offset in edges),
        *((inside, count, NO_LIMIT, None) for count in (1, 7, 200)),
        *((first, 32, size, None) for size in (1, 1000)),
        *((first, 32, NO_LIMIT, tags) for tags in ("*", "TagA", "TagB || Тег", "NoSuchTag")),
        (inside, 16, NO_LIMIT, "TagA||tag3"),
    ]


def check_queries(
    java: JavaStore, store: MessageStore, messages: list[dict[str, Any]], rng: random.Random
) -> None:
    requests: list[tuple[Any, ...]] = []
    for record in rng.sample(messages, min(ASKED, len(messages))):
        properties, time = record["properties"], record["store_timestamp_ms"]
        keys = [*properties.get("KEYS", "").split(), properties.get("UNIQ_KEY"), "no-such-key"]
        for key in filter(None, keys):
            requests += [
                (record["topic"], key, 32, 0, FOREVER, None),
                (record["topic"], key, rng.choice([0, 1, 3, 1000]), 0, FOREVER, None),
                (record["topic"], key, 32, time, time, None),
                (record["topic"], key, 32, time - 1000, time + 1000, None),
                (record["topic"], key, 32, 0, time, None),
                (record["topic"], key, 32, time + 1, FOREVER, None),
            ]
        if "TAGS" in properties:
            requests.append((record["topic"], properties["TAGS"], 32, 0, FOREVER, "T"))
    names = ("topic", "key", "maxMessages", "beginMs", "endMs", "indexType")
    answers = java.query(dict(zip(names, request, strict=True)) for request in requests)
    for request, want in zip(requests, answers, strict=True):
        topic, key, most, begin_ms, end_ms, index_type = request
        end = None if end_ms == FOREVER else end_ms
        got = store.query(topic, key, most, begin_ms, end, index_type=index_type)
        assert {
            "index_last_update_timestamp_ms": got.index_last_update_timestamp_ms,
            "index_last_update_phy_offset": got.index_last_update_phy_offset,
            "messages": found(got.messages),
        } == want, request


def check_times(
    java: JavaStore,
    store: MessageStore,
    queues: list[dict[str, Any]],
    messages: list[dict[str, Any]],
    rng: random.Random,
) -> None:
    times = [record["store_timestamp_ms"] for record in messages] or [0]
    requests = []
    for queue in queues:
        asked = [0, times[0] - 1, times[0], times[-1], times[-1] + 1]
        asked += [time + rng.randrange(-1, 2) for time in rng.choices(times, k=6)]
        requests += [(queue["topic"], queue["queue_id"], time) for time in asked]
    names = ("topic", "queueId", "timestampMs")
    answers = java.offset_by_time(dict(zip(names, request, strict=True)) for request in requests)
    for request, want in zip(requests, answers, strict=True):
        got = {
            "default": store.offset_by_time(*request),
            "LOWER": store.offset_by_time(*request, "LOWER"),
            "UPPER": store.offset_by_time(*request, "UPPER"),
        }
        assert got == want, request


def check_places(
    java: JavaStore,
    store: MessageStore,
    offsets: dict[str, Any],
    messages: list[dict[str, Any]],
    rng: random.Random,
) -> None:
    """Lookup at records and beside them; where an entry of a queue points."""
    starts = {record["phy_offset"] for record in messages}
    end = offsets["max_phy_offset"]
    asked = [-1, 0, end, end + 100, *rng.sample(sorted(starts), min(ASKED, len(starts)))]
    asked += [offset + rng.randrange(1, 90) for offset in asked[4:]]
    for phy_offset, want in zip(asked, java.lookup(asked), strict=True):
        view = store.lookup(phy_offset)
        # Java may take bytes inside a record for one, with the offset of another place in it
        if want is None or want["phy_offset"] != phy_offset:
            assert view is None, phy_offset
            continue
        assert view is not None, phy_offset
        assert {name: getattr(view, name) for name in want} == want

    places = [
        {"topic": queue["topic"], "queueId": queue["queue_id"], "queueOffset": queue_offset}
        for queue in offsets["queues"]
        for queue_offset in {queue["min_offset"], queue["max_offset"] // 2, queue["max_offset"] - 1}
        if queue["min_offset"] <= queue_offset < queue["max_offset"]
    ]
    for place, answer in zip(places, java.phy_offset_of(places), strict=True):
        ours = store.phy_offset_of(place["topic"], place["queueId"], place["queueOffset"])
        assert ours == answer["phy_offset"], place
