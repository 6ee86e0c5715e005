"""QUERY_ASSIGNMENT: a broker shares out the queues of a topic among the members of a group, as Java's does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.broker import FakeChannel
from support.sends import Sender

from rmqcore.broker.state.clients import ClientChannelInfo
from rmqcore.remoting.bodies.heartbeat import ConsumerData, SubscriptionData
from rmqcore.remoting.bodies.json_object import encode_json
from rmqcore.remoting.bodies.routes import QueueData, TopicRoute
from rmqcore.remoting.bodies.topic_configs import TopicConfig
from rmqcore.remoting.codes import LanguageCode, RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand

WANTED = {
    "topic": "t",
    "consumerGroup": "g",
    "clientId": "c1",
    "strategyName": "AVG",
    "messageModel": "CLUSTERING",
}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Sender]:
    made = Sender(tmp_path)
    made.broker.topics.update(TopicConfig("t", 5, 5))
    yield made
    made.close()


def join(client: Sender, *names: str) -> None:
    consumer = ConsumerData(
        "g",
        "CONSUME_PASSIVELY",
        "CLUSTERING",
        "CONSUME_FROM_LAST_OFFSET",
        (SubscriptionData("t"),),
    )
    for number, name in enumerate(names):
        channel = FakeChannel(f"127.0.0.1:{41000 + number}")
        info = ClientChannelInfo(channel, name, LanguageCode.JAVA, 513, client.loop.now_ms)
        client.broker.consumers.register(consumer, info, notify=False, now_ms=client.loop.now_ms)


def query(client: Sender, **changed: Any) -> Any:
    body = encode_json({**WANTED, **changed})
    answer = client.ask(RemotingCommand(RequestCode.QUERY_ASSIGNMENT, body=body))
    assert answer.code == ResponseCode.SUCCESS
    return json.loads(answer.body)


def queue_ids(found: Any) -> list[int]:
    assert {one["mode"] for one in found["messageQueueAssignments"]} <= {"PULL"}
    return [one["messageQueue"]["queueId"] for one in found["messageQueueAssignments"]]


def test_one_member_reads_all_queues(client: Sender) -> None:
    join(client, "c1")
    found = query(client)
    assert queue_ids(found) == [0, 1, 2, 3, 4]
    assert found["messageQueueAssignments"][0]["messageQueue"] == {
        "brokerName": "broker-a",
        "queueId": 0,
        "topic": "t",
    }


@pytest.mark.parametrize(
    ("strategy", "parts"), [("AVG", ([0, 1, 2], [3, 4])), ("AVG_BY_CIRCLE", ([0, 2, 4], [1, 3]))]
)
def test_two_members_share_the_queues(
    client: Sender, strategy: str, parts: tuple[list[int], ...]
) -> None:
    join(client, "c2", "c1")
    for name, part in zip(("c1", "c2"), parts, strict=True):
        assert queue_ids(query(client, clientId=name, strategyName=strategy)) == part


def test_a_member_with_two_connections_is_one_member(client: Sender) -> None:
    """One that connects anew while the broker still has its old connection; no member read the part of the second one."""
    join(client, "c1", "c2", "c1")
    parts = [queue_ids(query(client, clientId=name)) for name in ("c1", "c2")]
    assert parts == [[0, 1, 2], [3, 4]]
    request = RemotingCommand(
        RequestCode.GET_CONSUMER_LIST_BY_GROUP, ext_fields={"consumerGroup": "g"}
    )
    assert json.loads(client.ask(request).body) == {"consumerIdList": ["c1", "c2"]}


def test_each_member_that_broadcasts_reads_all_queues(client: Sender) -> None:
    assert queue_ids(query(client, messageModel="BROADCASTING")) == [0, 1, 2, 3, 4]


def test_a_client_that_is_not_a_member_reads_nothing(client: Sender) -> None:
    join(client, "c2")
    assert query(client) == {"messageQueueAssignments": []}


def test_without_an_answer_the_client_keeps_its_queues(
    client: Sender, caplog: pytest.LogCaptureFixture
) -> None:
    assert query(client) == {}  # no member
    join(client, "c1")
    for _ in range(2):
        assert query(client, topic="none") == {}
        assert query(client, topic="none", messageModel="BROADCASTING") == {}
        assert query(client, strategyName="MACHINE_ROOM") == {}
        assert query(client, topic="%RETRY%g") == {}
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == [
        "the group has no member",
        "no broker has the topic",
        "strategyName is 'MACHINE_ROOM', expected one of AVG, AVG_BY_CIRCLE",
    ]


def test_a_light_topic_has_one_queue(client: Sender) -> None:
    join(client, "c1")
    assert queue_ids(query(client, topic="%LMQ%a")) == [0]


def test_queues_of_other_brokers_are_shared_out_too(client: Sender) -> None:
    join(client, "c1")
    queues = (QueueData("b", 1, 1, 6), QueueData("a", 2, 0, 4), QueueData("silent", 4, 4, 2))

    def find_route(topic: str, then: Callable[[TopicRoute | None], object]) -> None:
        assert topic == "t"
        client.loop.call_later(1, lambda: then(TopicRoute((), queues)))

    client.broker.find_route = find_route
    client.start(RemotingCommand(RequestCode.QUERY_ASSIGNMENT, body=encode_json(WANTED)))
    assert not client.channel.sent
    client.loop.advance(1_000)
    (answer,) = client.channel.sent
    found = json.loads(answer.body)["messageQueueAssignments"]
    places = [(one["messageQueue"]["brokerName"], one["messageQueue"]["queueId"]) for one in found]
    assert places == [("a", 0), ("a", 1), ("b", 0)]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"messageModel": "OTHER"}, "expected BROADCASTING or CLUSTERING"),
        ({"messageModel": None}, "messageModel"),
        ({"topic": None}, "topic"),
    ],
)
def test_a_body_that_is_wrong(client: Sender, changed: dict[str, Any], words: str) -> None:
    body = encode_json({**WANTED, **changed})
    answer = client.ask(RemotingCommand(RequestCode.QUERY_ASSIGNMENT, body=body))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert words in str(answer.remark)


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({}, ResponseCode.SUCCESS),
        ({"mode": "POP"}, ResponseCode.REQUEST_CODE_NOT_SUPPORTED),
        ({"topic": "%RETRY%g"}, ResponseCode.NO_PERMISSION),
        ({"topic": "none"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"consumerGroup": "bad.name"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
    ],
)
def test_the_mode_of_a_group(client: Sender, changed: dict[str, str], code: ResponseCode) -> None:
    body = encode_json({"topic": "t", "consumerGroup": "g", "mode": "PULL", **changed})
    request = RemotingCommand(RequestCode.SET_MESSAGE_REQUEST_MODE, body=body)
    assert client.ask(request).code == code
