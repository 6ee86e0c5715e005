"""Heartbeats and good-byes, who is in a group, and what may be subscribed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.broker import FakeChannel
from support.served_broker import ServedBroker

from rmqcore.broker.handlers.in_background import LONG_BODY_BYTES
from rmqcore.remoting.bodies.heartbeat import (
    SQL92,
    ConsumerData,
    Heartbeat,
    SubscriptionData,
    encode_heartbeat,
    subscription_json,
)
from rmqcore.remoting.bodies.json_object import encode_json
from rmqcore.remoting.bodies.subscription_groups import SubscriptionGroupConfig
from rmqcore.remoting.codes import RequestCode, ResponseCode

T = SubscriptionData("t")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedBroker]:
    with ServedBroker(tmp_path) as made:
        made.topic("t")
        yield made


def told(channel: FakeChannel) -> list[str]:
    code = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
    requests = [one for one in channel.sent if not one.is_response]
    channel.sent.clear()
    assert all(one.code == code and one.is_oneway for one in requests)
    return [one.ext_fields["consumerGroup"] for one in requests]


def test_a_heartbeat_makes_group_and_retry_topic_before_it_is_answered(
    served: ServedBroker,
) -> None:
    consumers = tuple(
        ConsumerData(
            name, "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", (T,), unit
        )
        for name, unit in (("g", False), ("unit", True))
    )
    body = encode_heartbeat(Heartbeat("c", ("p",), consumers))
    assert served.ask(RequestCode.HEART_BEAT, body=body) is None
    # The answer waits for topics.json; the members are there at once, for the pulls behind it.
    assert told(served.channel) == ["g", "unit"]
    assert served.broker.consumers.group("g") is not None
    assert served.broker.producers.channels("p") == [served.channel]
    served.loop.run_until(lambda: bool(served.channel.sent))
    (response,) = served.channel.sent
    assert response.code == ResponseCode.SUCCESS
    assert response.ext_fields == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
    for name, sys_flag in (("%RETRY%g", 0), ("%RETRY%unit", 2)):
        topic = served.broker.topics.get(name)
        assert topic is not None
        assert (topic.read_queue_nums, topic.perm, topic.topic_sys_flag) == (1, 6, sys_flag)
    assert served.answer(RequestCode.HEART_BEAT, body=body).code == ResponseCode.SUCCESS
    assert told(served.channel) == []


def test_a_group_that_cannot_be_made_is_left_out(tmp_path: Path) -> None:
    with ServedBroker(tmp_path, settings={"auto_create_subscription_group": False}) as served:
        assert served.beat(T).code == ResponseCode.SUCCESS
        assert served.broker.consumers.group("g") is None
        served.broker.groups.update(SubscriptionGroupConfig("g", retry_queue_nums=3))
        served.beat(T)
        topic = served.broker.topics.get("%RETRY%g")
        assert topic is not None
        assert topic.write_queue_nums == 3


@pytest.mark.parametrize("group", ["", "a b", "x" * 200])
def test_a_name_that_is_none_makes_nothing(served: ServedBroker, group: str) -> None:
    assert served.beat(T, group=group).code == ResponseCode.SUCCESS
    assert served.broker.consumers.groups() == {}


def test_a_group_whose_members_are_not_told(served: ServedBroker) -> None:
    served.broker.groups.update(
        SubscriptionGroupConfig("g", notify_consumer_ids_changed_enable=False)
    )
    served.beat(T)
    assert told(served.channel) == []


def test_shortened_heartbeats(served: ServedBroker) -> None:
    """V2: a fingerprint stands for the subscriptions; where nothing is known that it could stand for, all is asked for."""

    def changed(*wanted: SubscriptionData, fingerprint: int, without_sub: bool) -> str:
        response = served.beat(*wanted, fingerprint=fingerprint, without_sub=without_sub)
        assert response.ext_fields["IS_SUPPORT_HEART_BEAT_V2"] == "true"
        return response.ext_fields["IS_SUB_CHANGE"]

    assert changed(fingerprint=7, without_sub=True) == "true"
    assert changed(T, fingerprint=7, without_sub=False) == "false"
    assert changed(fingerprint=7, without_sub=True) == "false"
    assert served.broker.consumers.subscription("g", "t") is not None
    assert changed(fingerprint=8, without_sub=True) == "true"
    assert changed(fingerprint=0, without_sub=False) == "true"
    assert served.broker.consumers.subscription("g", "t") is None


def test_good_byes(served: ServedBroker) -> None:
    other = FakeChannel("2:2")
    for channel in (served.channel, other):
        served.beat(T, client_id=channel.peer, channel=channel)
    body = encode_heartbeat(Heartbeat("c", ("p",)))
    served.answer(RequestCode.HEART_BEAT, body=body)
    told(served.channel), told(other)
    fields = {"clientID": "c", "consumerGroup": "g", "producerGroup": "p"}
    assert served.answer(RequestCode.UNREGISTER_CLIENT, fields).code == ResponseCode.SUCCESS
    assert (told(served.channel), told(other)) == ([], ["g"])
    assert served.broker.producers.channels("p") == []
    unknown = {"clientID": "c", "consumerGroup": "never"}
    assert served.answer(RequestCode.UNREGISTER_CLIENT, unknown).code == ResponseCode.SUCCESS
    assert served.broker.groups.get("never") is None


def test_who_is_in_a_group(served: ServedBroker) -> None:
    """Java's compact JSON: the Go client takes a blank for a part of a name."""
    served.beat(T, client_id="192.0.2.1@7#x")
    served.beat(T, client_id="192.0.2.1@8@STREAM", channel=FakeChannel("2:2"))
    fields = {"consumerGroup": "g"}
    response = served.answer(RequestCode.GET_CONSUMER_LIST_BY_GROUP, fields)
    assert response.body == b'{"consumerIdList":["192.0.2.1@7#x","192.0.2.1@8@STREAM"]}'
    served.broker.channel_closed(served.channel)
    response = served.answer(RequestCode.GET_CONSUMER_LIST_BY_GROUP, fields)
    assert json.loads(response.body) == {"consumerIdList": ["192.0.2.1@8@STREAM"]}
    response = served.answer(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "none"})
    assert (response.code, response.remark) == (1, "no consumer for this group, none")


def test_silent_clients_are_dropped_after_two_minutes(served: ServedBroker) -> None:
    other = FakeChannel("2:2")
    served.beat(T)
    served.beat(T, channel=other)
    for _ in range(4):
        served.loop.advance(30_000)
        served.beat(T, channel=other)
    told(served.channel), told(other)
    served.loop.advance(10_001)
    assert (served.channel.closed, other.closed) == (True, False)
    assert told(other) == ["g"]


def test_what_may_be_subscribed(served: ServedBroker) -> None:
    def check(expression: str, expression_type: str) -> int:
        wanted = SubscriptionData("t", expression, expression_type=expression_type)
        body = {"clientId": "c", "group": "g", "subscriptionData": subscription_json(wanted)}
        return served.answer(RequestCode.CHECK_CLIENT_CONFIG, body=encode_json(body)).code

    assert check("A", "TAG") == ResponseCode.SUCCESS
    assert check("a > 1", SQL92) == ResponseCode.SYSTEM_ERROR
    served.broker.settings = replace(served.broker.settings, enable_property_filter=True)
    assert check("a > 1", SQL92) == ResponseCode.SUCCESS
    assert check("a >", SQL92) == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert check("a", "OTHER") == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    for body in (b"", b'{"clientId":"c"}'):
        assert served.answer(RequestCode.CHECK_CLIENT_CONFIG, body=body).code == 0


def test_a_body_that_is_none(served: ServedBroker) -> None:
    for code in (RequestCode.HEART_BEAT, RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ):
        response = served.answer(code, body=b"[]")
        assert response.code == ResponseCode.SYSTEM_ERROR
        assert code.name in str(response.remark)


def test_what_follows_a_long_heartbeat_waits_until_it_is_noted(served: ServedBroker) -> None:
    groups = tuple(f"{number}{'x' * 100}" for number in range(900))
    body = encode_heartbeat(Heartbeat("c", groups))
    assert len(body) > LONG_BODY_BYTES
    assert served.ask(RequestCode.HEART_BEAT, body=body) is None
    assert served.channel.held == 1
    served.loop.run_until(lambda: not served.channel.held)
    assert served.broker.producers.channels(groups[-1]) == [served.channel]
    assert served.ask(RequestCode.HEART_BEAT, body=b"[" * len(body)) is None
    served.loop.run_until(lambda: not served.channel.held)
    assert [one.code for one in served.channel.sent][-1] == ResponseCode.SYSTEM_ERROR
