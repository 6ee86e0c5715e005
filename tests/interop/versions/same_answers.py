"""Compares what a release of RocketMQ says of a store with what rmqcore reads of it."""

from __future__ import annotations

import hashlib
import ipaddress
from collections import Counter
from pathlib import Path
from typing import Any

import rmqcore
from rmqcore import MessageView
from rmqcore.offline.reader import StoreReader

Answers = dict[str, Any]
LATEST_MS = 1 << 62


def check(root: Path, java: Answers) -> Counter[str]:
    """Assert that records, queues, gets, queries and lookups are the same; return how many of each there were."""
    counts: Counter[str] = Counter()
    with rmqcore.read(root) as reader:
        messages = {view.phy_offset: view for view in reader.messages()}
        assert reader.damage == []
        check_records(messages, java, counts)
        check_queues(reader, java, counts)
        check_gets(reader, java, counts)
        check_queries(reader, messages, java, counts)
        for asked in java["lookups"]:
            found = reader.lookup(asked["phyOffset"])
            assert (found is None) == (asked["id"] is None), asked
            counts["lookups"] += 1
    return counts


def check_records(messages: dict[int, MessageView], java: Answers, counts: Counter[str]) -> None:
    assert list(messages) == [record["phyOffset"] for record in java["records"]]
    for record in java["records"]:
        assert fields(messages[record["phyOffset"]]) == record
        counts["messages"] += 1


def fields(view: MessageView) -> Answers:
    """The fields of a message by the names of the Java program."""
    return {
        "phyOffset": view.phy_offset,
        "size": view.msg_size,
        "topic": view.topic,
        "queueId": view.queue_id,
        "queueOffset": view.queue_offset,
        "flag": view.flag,
        "sysFlag": view.sys_flag,
        "bornTimestamp": view.born_timestamp_ms,
        "bornHost": host(view.born_host),
        "storeTimestamp": view.store_timestamp_ms,
        "storeHost": host(view.store_host),
        "reconsumeTimes": view.reconsume_times,
        "preparedOffset": view.prepared_transaction_offset,
        "bodyCrc": view.body_crc,
        "body": hashlib.sha256(view.body).hexdigest(),
        "properties": dict(view.properties),
    }


def host(text: str) -> list[Any]:
    """Version, address and port, the address as Java prints it."""
    address, _, port = text.rpartition(":")
    ip = ipaddress.ip_address(address.strip("[]"))
    shown = (
        str(ip)
        if ip.version == 4
        else ":".join(f"{int(part, 16):x}" for part in ip.exploded.split(":"))
    )
    return [ip.version, shown, int(port)]


def check_queues(reader: StoreReader, java: Answers, counts: Counter[str]) -> None:
    ours = {
        (queue.topic, queue.queue_id): (queue.min_offset, queue.max_offset)
        for queue in reader.queues()
    }
    for queue in java["queues"]:
        place = queue["topic"], queue["queueId"]
        if queue["max"] == 0 and place not in ours:
            continue  # a topic that Java was asked for, and has no message
        assert ours[place] == (queue["min"], queue["max"]), place
        found, at = [], queue["min"]
        while at < queue["max"]:
            got = reader.get(*place, at)
            found += [view.phy_offset for view in got.messages]
            assert got.next_begin_offset > at
            at = got.next_begin_offset
        assert found == queue["phyOffsets"], place
        counts["queues"] += 1


def check_gets(reader: StoreReader, java: Answers, counts: Counter[str]) -> None:
    for asked in java["gets"]:
        if (asked["topic"], asked["queueId"]) not in {
            (queue["topic"], queue["queueId"]) for queue in java["queues"] if queue["max"] > 0
        }:
            continue
        got = reader.get(
            asked["topic"], asked["queueId"], asked["at"], asked["most"], tags=asked["tags"]
        )
        # Releases before 5.0 send a get behind the end of a queue to its begin where that is 0, later ones to its end.
        behind = asked["status"] == "OFFSET_OVERFLOW_BADLY" and asked["next"] == asked["min"] == 0
        assert (
            got.status.name,
            got.next_begin_offset,
            got.min_offset,
            got.max_offset,
            [view.phy_offset for view in got.messages],
        ) == (
            asked["status"],
            asked["max"] if behind else asked["next"],
            asked["min"],
            asked["max"],
            asked["phyOffsets"],
        ), asked
        counts["gets"] += 1


def check_queries(
    reader: StoreReader, messages: dict[int, MessageView], java: Answers, counts: Counter[str]
) -> None:
    for asked in java["queries"]:
        begin, end = max(asked["begin"], 0), min(asked["end"], LATEST_MS)
        found = reader.query(asked["topic"], asked["key"], 64, begin, end)
        ours = {view.phy_offset for view in found.messages}
        # Java's index has whole seconds, and Java returns collisions of the hash as well.
        true = {
            at
            for at in asked["phyOffsets"]
            if messages[at].topic == asked["topic"]
            and asked["key"] in (*messages[at].keys, messages[at].uniq_key)
            and begin <= messages[at].store_timestamp_ms <= end
        }
        assert true <= ours, asked
        for at in ours - true:  # at an end of the range
            stored_ms = messages[at].store_timestamp_ms
            assert begin <= stored_ms <= end, asked
            assert stored_ms < begin + 1000 or stored_ms > end - 1000, asked
        counts["queries"] += 1
