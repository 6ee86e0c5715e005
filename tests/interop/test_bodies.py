"""Bodies of requests and responses that RocketMQ's own classes read and write."""

from __future__ import annotations

import base64
import json
from typing import Any

from interop.java_process import JavaProcess

from rmqcore.remoting.bodies.heartbeat import (
    ConsumerData,
    Heartbeat,
    SubscriptionData,
    encode_heartbeat,
    parse_heartbeat,
)
from rmqcore.remoting.bodies.routes import (
    BrokerData,
    QueueData,
    TopicRoute,
    encode_cluster_info,
    encode_route,
    parse_cluster_info,
    parse_route,
)
from rmqcore.remoting.bodies.topic_configs import (
    TopicConfig,
    TopicTable,
    encode_registration,
    parse_registration,
)
from rmqcore.vocabulary.data_version import DataVersion

HEARTBEAT = Heartbeat(
    "192.0.2.2@4278#118",
    ("CLIENT_INNER_PRODUCER", "pg"),
    (
        ConsumerData(
            "g",
            "CONSUME_PASSIVELY",
            "CLUSTERING",
            "CONSUME_FROM_FIRST_OFFSET",
            (
                SubscriptionData(
                    "T1",
                    "TagA || TagB",
                    frozenset({"TagA", "TagB"}),
                    frozenset({2598919, 2598920}),
                    1795227211164,
                ),
                SubscriptionData(
                    "T2", "a > 1 AND b = '\u4e2d'", sub_version=7, expression_type="SQL92"
                ),
            ),
        ),
    ),
    fingerprint=-5,
    without_sub=True,
)
BROKERS = (
    BrokerData("C", "b-a", {0: "192.0.2.1:10911", 1: "192.0.2.2:10911"}),
    BrokerData("D", "b-\u00e9", {3: "192.0.2.3:10911"}, enable_acting_master=True),
)
ROUTE = TopicRoute(BROKERS, (QueueData("b-a", 4, 8, 6), QueueData("b-\u00e9", 1, 1, 4, 2)))
TABLE = TopicTable(
    {
        "TBW102": TopicConfig("TBW102", 8, 8, 7),
        "T1": TopicConfig("T1", 4, 2, 6, "MULTI_TAG", attributes={"+message.type": "NORMAL"}),
        "\u4e2d": TopicConfig("\u4e2d"),
    },
    DataVersion(3, 1700000000000, 9),
)


def through(java: JavaProcess, kind: str, body: bytes) -> bytes:
    request = {"kind": kind, "body": base64.b64encode(body).decode()}
    return base64.b64decode(java.call("bodies", requests=[request])[0])


def test_a_heartbeat(java: JavaProcess) -> None:
    """Java's sets have their own order."""
    found = parse_heartbeat("HEART_BEAT", through(java, "heartbeat", encode_heartbeat(HEARTBEAT)))
    assert sorted(found.producer_groups) == sorted(HEARTBEAT.producer_groups)
    (theirs,), (ours,) = found.consumers, HEARTBEAT.consumers
    assert set(theirs.subscriptions) == set(ours.subscriptions)
    assert (theirs.group_name, theirs.consume_type, theirs.message_model) == (
        ours.group_name,
        ours.consume_type,
        ours.message_model,
    )
    assert (theirs.consume_from_where, theirs.unit_mode) == (ours.consume_from_where, False)
    assert (found.client_id, found.fingerprint, found.without_sub) == (
        HEARTBEAT.client_id,
        -5,
        True,
    )


def test_a_route(java: JavaProcess) -> None:
    """Java's own form has numbers without quotes for keys."""
    body = through(java, "route", encode_route(ROUTE, order_topic_conf="b-a:4"))
    assert b'{0:"192.0.2.1:10911"' in body
    assert b'"orderTopicConf":"b-a:4"' in body
    assert parse_route("GET_ROUTEINFO_BY_TOPIC", body) == ROUTE


def test_a_cluster(java: JavaProcess) -> None:
    body = encode_cluster_info(BROKERS, {"C": ["b-a"], "D": ["b-\u00e9"]})
    assert set(map(repr, parse_cluster_info("x", through(java, "cluster", body)))) == set(
        map(repr, BROKERS)
    )


def registered(body: bytes, *, compressed: bool) -> TopicTable:
    return parse_registration("REGISTER_BROKER", body, version=513, compressed=compressed)


def test_a_registration(java: JavaProcess) -> None:
    body = through(java, "registration", encode_registration(TABLE))
    assert registered(body, compressed=False) == TABLE
    members: dict[str, Any] = json.loads(body)
    assert members["topicConfigSerializeWrapper"]["topicConfigTable"].keys() == TABLE.topics.keys()


def test_a_compressed_registration(java: JavaProcess) -> None:
    body = through(java, "compress", encode_registration(TABLE))
    assert registered(body, compressed=True) == TABLE
