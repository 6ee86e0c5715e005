"""Bodies that are not what they should be: an error names the member, and nothing else is raised."""

from __future__ import annotations

import contextlib
import json
import struct
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqcore.errors import RequestError
from rmqcore.remoting.bodies.heartbeat import Heartbeat, encode_heartbeat, parse_heartbeat
from rmqcore.remoting.bodies.routes import BrokerData, parse_cluster_info, parse_route
from rmqcore.remoting.bodies.topic_configs import (
    MAX_PLAIN_SIZE,
    TopicConfig,
    TopicTable,
    encode_registration,
    parse_data_version,
    parse_registration,
)
from rmqcore.vocabulary.data_version import DataVersion


def registered(body: bytes, *, version: int = 513, compressed: bool = False) -> TopicTable:
    return parse_registration("REGISTER_BROKER", body, version=version, compressed=compressed)


def test_numbers_may_be_keys_as_java_writes_them() -> None:
    text = (
        b'{"brokerAddrTable":{"b":{"brokerAddrs":{0:"192.0.2.1:1",1 : "x"},"brokerName":"b","cluster":"C",'
        b'"later":{-3:[1.5e3]}}},"clusterAddrTable":{"C":["b"]}}'
    )
    assert parse_cluster_info("x", text) == (BrokerData("C", "b", {0: "192.0.2.1:1", 1: "x"}),)


def test_little_is_enough() -> None:
    assert parse_heartbeat("HEART_BEAT", b'{"clientID":"c","consumerDataSet":null}') == Heartbeat(
        "c"
    )
    assert registered(b"") == registered(b"{}") == TopicTable()
    table = registered(b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{}}}}')
    assert table == TopicTable({"T": TopicConfig("T")})
    assert encode_heartbeat(Heartbeat("c")).startswith(b'{"clientID":"c","consumerDataSet":[],')


def test_an_old_broker_sends_the_topics_alone() -> None:
    table = TopicTable({"T": TopicConfig("T", 1, 2, 4)}, DataVersion(1, 2, 3))
    bare = json.dumps(table.as_json()).encode()
    assert registered(bare, version=36) == table
    assert registered(encode_registration(table), version=37) == table


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("[]", "HEART_BEAT: body is a list, expected a JSON object"),
        ("{", "HEART_BEAT: body is unreadable"),
        ("{}", "HEART_BEAT: clientID is missing, expected a text"),
        ('{"clientID":5}', "HEART_BEAT: clientID is 5, expected a text"),
        ('{"clientID":"c","producerDataSet":{}}', "producerDataSet is an object, expected a list"),
        (
            '{"clientID":"c","producerDataSet":[5]}',
            "producerDataSet[0] is 5, expected an object",
        ),
        (
            '{"clientID":"c","producerDataSet":[{"groupName":"a"},{}]}',
            "producerDataSet[1].groupName is missing, expected a text",
        ),
        (
            '{"clientID":"c","withoutSub":"true"}',
            "withoutSub is 'true', expected true or false",
        ),
        (
            '{"clientID":"c","heartbeatFingerprint":9223372036854775808}',
            "heartbeatFingerprint is 9223372036854775808, expected a whole number of 64 bits",
        ),
    ],
)
def test_what_no_heartbeat_is(body: str, message: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_heartbeat("HEART_BEAT", body.encode())
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"subscriptionDataSet": [{"topic": "T", "tagsSet": [1]}]}, "tagsSet[0]"),
        ({"subscriptionDataSet": [{"topic": "T", "codeSet": [True]}]}, "codeSet[0]"),
        ({"subscriptionDataSet": [{}]}, "topic"),
        ({"subscriptionDataSet": [{"topic": "T", "codeSet": ["9x"]}]}, "codeSet[0]"),
        ({"messageModel": None}, "messageModel"),
        ({"messageModel": 2}, "messageModel"),
        ({"consumeType": -1}, "consumeType"),
    ],
)
def test_what_no_consumer_is(change: dict[str, object], field: str) -> None:
    names = ("groupName", "consumeType", "messageModel", "consumeFromWhere")
    consumer = {**dict.fromkeys(names, "x"), **change}
    body = json.dumps({"clientID": "c", "consumerDataSet": [consumer]}).encode()
    with pytest.raises(RequestError) as caught:
        parse_heartbeat("HEART_BEAT", body)
    assert caught.value.field.startswith("consumerDataSet[0].")
    assert caught.value.field.endswith(field)


def test_the_heartbeats_of_clients_in_go_and_cpp() -> None:
    """Go writes codes as texts, C++ a version as text and numbers for enums: their consumers were refused, and got nothing."""
    body = (
        b'{"clientID":"9@DEFAULT","consumerDataSet":[{"consumeFromWhere":4,"consumeType":1,"groupName":"g","messageModel":1,'
        b'"subscriptionDataSet":[{"codeSet":["97","-3"],"subString":"a","subVersion":"1795548397474","tagsSet":["a"],"topic":"t"}'
        b"]}]}\n"
    )
    (consumer,) = parse_heartbeat("HEART_BEAT", body).consumers
    assert consumer.consume_type == "CONSUME_PASSIVELY"
    assert consumer.message_model == "CLUSTERING"
    assert consumer.consume_from_where == "CONSUME_FROM_FIRST_OFFSET"
    (wanted,) = consumer.subscriptions
    assert wanted.codes == {97, -3}
    assert wanted.sub_version == 1795548397474


@pytest.mark.parametrize(
    ("topic", "field"),
    [
        ({"perm": 1 << 31}, "perm"),
        ({"readQueueNums": "4.0"}, "readQueueNums"),
        ({"attributes": {"a": 1}}, "attributes.'a'"),
        ({"attributes": []}, "attributes"),
        ({"order": 1}, "order"),
    ],
)
def test_what_no_topic_is(topic: dict[str, object], field: str) -> None:
    wrapper = {"topicConfigTable": {"T": topic}}
    with pytest.raises(RequestError) as caught:
        registered(json.dumps({"topicConfigSerializeWrapper": wrapper}).encode())
    assert caught.value.field == f"topicConfigSerializeWrapper.topicConfigTable.'T'.{field}"


@pytest.mark.parametrize("key", ["-1", "x", "\u0665", "9" * 20, ""])
def test_what_no_broker_id_is(key: str) -> None:
    broker = {"brokerName": "b", "cluster": "C", "brokerAddrs": {key: "x"}}
    with pytest.raises(RequestError, match=r"brokerAddrs is .*, expected a broker id"):
        parse_route("x", json.dumps({"brokerDatas": [broker]}).encode())


# ---- the compressed form ----------------------------------------------------------------------------


def piece(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def packed(*topics: bytes, count: int | None = None, end: bytes = b"") -> bytes:
    number = len(topics) if count is None else count
    plain = piece(b'{"counter":1}') + struct.pack(">i", number) + b"".join(map(piece, topics)) + end
    return zlib.compress(plain)


def test_topics_of_the_compressed_form() -> None:
    body = packed(b"T 4 8 6 SINGLE_TAG", b'U 1 1 4 MULTI_TAG {"a":"b c"}', end=piece(b"[]"))
    assert registered(body, compressed=True) == TopicTable(
        {
            "T": TopicConfig("T", 4, 8, 6),
            "U": TopicConfig("U", 1, 1, 4, "MULTI_TAG", attributes={"a": "b c"}),
        },
        DataVersion(counter=1),
    )


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"no zlib", "body"),
        (zlib.compress(b"x" * 100)[:-5], "body"),
        (zlib.compress(b""), "dataVersion length"),
        (zlib.compress(struct.pack(">i", -1)), "dataVersion length"),
        (zlib.compress(struct.pack(">i", 1 << 30)), "dataVersion length"),
        (zlib.compress(piece(b"{}")), "topic count length"),
        (packed(count=1 << 30), "topic count length"),
        (packed(count=1), "topic 0 length"),
        (packed(b"T 4 8 6"), "topic 0"),
        (packed(b"T a 8 6 SINGLE_TAG"), "topic 0"),
        (packed(b"\xff 4 8 6 SINGLE_TAG"), "topic 0"),
        (packed(b"T 4 8 6 SINGLE_TAG nothing"), "body"),
    ],
)
def test_what_no_compressed_registration_is(body: bytes, field: str) -> None:
    with pytest.raises(RequestError) as caught:
        registered(body, compressed=True)
    assert caught.value.field == field


def test_a_body_that_would_fill_the_memory() -> None:
    with pytest.raises(RequestError, match=f"a zlib stream of at most {MAX_PLAIN_SIZE} bytes"):
        registered(zlib.compress(bytes(MAX_PLAIN_SIZE + 1), 1), compressed=True)


# ---- anything ---------------------------------------------------------------------------------------

PARSERS: list[Callable[[bytes], object]] = [
    lambda body: parse_heartbeat("x", body),
    lambda body: parse_route("x", body),
    lambda body: parse_cluster_info("x", body),
    lambda body: parse_data_version("x", body),
    registered,
    lambda body: registered(body, version=1),
    lambda body: registered(body, compressed=True),
    lambda body: registered(zlib.compress(body), compressed=True),
]
NAMES = st.sampled_from(
    "clientID producerDataSet consumerDataSet groupName subscriptionDataSet topic tagsSet codeSet brokerDatas brokerAddrs "
    "queueDatas brokerName cluster brokerAddrTable topicConfigSerializeWrapper topicConfigTable dataVersion counter "
    "attributes T".split()
)
VALUES: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=20,
)


@given(VALUES.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=60))
def test_any_body_is_read_or_refused(body: bytes) -> None:
    for parse in PARSERS:
        with contextlib.suppress(RequestError):  # and no other
            parse(body)
