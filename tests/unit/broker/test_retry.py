"""Messages that consumers send back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.sends import ADDRESS, Sender, send

from rmqcore.codec.message import MessageView
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.request_fields import Value, encode_fields

CODE = RequestCode.CONSUMER_SEND_MSG_BACK
SCHEDULE = "SCHEDULE_TOPIC_XXXX"


@pytest.fixture
def sender(tmp_path: Path) -> Iterator[Sender]:
    sender = Sender(tmp_path)
    yield sender
    sender.close()


def back(phy_offset: int, level: int = 0, version: int = 513, **fields: Value) -> RemotingCommand:
    given: dict[str, Value] = {
        "offset": phy_offset,
        "group": "g",
        "delayLevel": level,
        "originTopic": "orders",
        **fields,
    }
    return RemotingCommand(CODE, version=version, ext_fields=encode_fields(CODE, given))


def sent(sender: Sender, **fields: Any) -> MessageView:
    """Store a message, and give it."""
    sender.ask(send("orders", b"body", {"TAGS": "t"}, **fields))
    return sender.messages("orders")[-1]


def test_a_message_waits_longer_each_time(sender: Sender) -> None:
    first = sent(sender, reconsumeTimes=2)
    assert sender.ask(back(first.phy_offset)).code == 0
    (waiting,) = sender.messages(SCHEDULE, 4)  # level 3 + 2
    assert waiting.properties == {
        **first.properties,
        "RETRY_TOPIC": "orders",
        "WAIT": "false",
        "DELAY": "5",
        "ORIGIN_MESSAGE_ID": first.msg_id,
        "REAL_TOPIC": "%RETRY%g",
        "REAL_QID": "0",
    }
    assert (waiting.body, waiting.flag, waiting.reconsume_times) == (b"body", 7, 3)
    assert (waiting.born_host, waiting.store_host) == (first.born_host, ADDRESS)
    assert waiting.born_timestamp_ms == first.born_timestamp_ms
    again = sender.ask(back(waiting.phy_offset, 1))
    assert again.code == 0
    (second,) = sender.messages(SCHEDULE, 0)
    assert second.properties["RETRY_TOPIC"] == "orders"
    assert second.properties["ORIGIN_MESSAGE_ID"] == first.msg_id
    assert second.reconsume_times == 4
    topic = sender.broker.topics.get("%RETRY%g")
    assert topic is not None
    assert (topic.write_queue_nums, topic.perm) == (1, 6)


@pytest.mark.parametrize(
    ("times", "request_", "is_dead"),
    [
        (15, {}, False),
        (16, {}, True),
        (0, {"level": -1}, True),
        (2, {"maxReconsumeTimes": 2}, True),
        (16, {"maxReconsumeTimes": 17}, False),
        (2, {"maxReconsumeTimes": 2, "version": 120}, False),
        (0, {"maxReconsumeTimes": 0}, True),
    ],
)
def test_what_was_tried_enough_is_a_dead_letter(
    sender: Sender, times: int, request_: dict[str, int], is_dead: bool
) -> None:
    message = sent(sender, reconsumeTimes=times)
    assert sender.ask(back(message.phy_offset, **request_)).code == 0
    letters = sender.messages("%DLQ%g")
    assert len(letters) == is_dead
    if is_dead:
        assert letters[0].properties["DELAY"] == "0"
        assert letters[0].reconsume_times == times + 1
        assert sender.broker.topics.get("%DLQ%g") is not None


def test_a_group_without_queues_for_retries_gets_its_answer_alone(sender: Sender) -> None:
    group = sender.broker.groups.find("g")
    assert group is not None
    sender.broker.groups.update(type(group)("g", retry_queue_nums=0))
    end = sent(sender).phy_offset
    log_end = sender.store.max_phy_offset
    assert sender.ask(back(end)).code == 0
    assert sender.store.max_phy_offset == log_end


def test_what_is_refused(tmp_path: Path) -> None:
    sender = Sender(tmp_path, auto_create_subscription_group=False)
    phy_offset = sent(sender).phy_offset
    unknown = sender.ask(back(phy_offset))
    assert unknown.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert (unknown.remark or "").startswith("subscription group not exist, g \nSee https://")
    illegal = sender.ask(back(phy_offset, group="a/../b"))
    assert illegal.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    sender.close()


def test_a_message_that_is_not_there(sender: Sender) -> None:
    sent(sender)
    for phy_offset in (1, 1 << 40, -1):
        response = sender.ask(back(phy_offset))
        assert response.code == ResponseCode.SYSTEM_ERROR
        assert response.remark == f"look message by offset failed, {phy_offset}"


def test_a_broker_without_write_permission(tmp_path: Path) -> None:
    sender = Sender(tmp_path, broker_permission=4)
    response = sender.ask(back(sent(sender).phy_offset))
    assert response.code == ResponseCode.NO_PERMISSION
    assert response.remark == "the broker[127.0.0.1] sending message is forbidden"
    sender.close()


def test_a_topic_without_write_permission(sender: Sender) -> None:
    phy_offset = sent(sender).phy_offset
    sender.ask(back(phy_offset))
    topic = sender.broker.topics.get("%RETRY%g")
    assert topic is not None
    sender.broker.topics.update(type(topic)("%RETRY%g", perm=4))
    response = sender.ask(back(phy_offset))
    assert response.code == ResponseCode.NO_PERMISSION
    assert response.remark == "the topic[%RETRY%g] sending message is forbidden"


def test_a_slave_and_a_failed_store(sender: Sender) -> None:
    phy_offset = sent(sender).phy_offset
    sender.store.fail(OSError("the disk is gone"))
    response = sender.ask(back(phy_offset))
    assert (response.code, response.remark) == (
        ResponseCode.SYSTEM_ERROR,
        "SERVICE_NOT_AVAILABLE",
    )
