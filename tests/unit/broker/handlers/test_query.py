"""Messages by key or place over the wire."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.served_broker import ServedBroker, tags_of

from rmqcore.broker.handlers import query as module
from rmqcore.remoting.bodies.heartbeat import SQL92, SubscriptionData
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.names import UNIQUE_KEY_QUERY

FAR = 1 << 62


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedBroker]:
    with ServedBroker(tmp_path) as made:
        made.topic("t")
        yield made


def by_key(
    served: ServedBroker, key: str, max_num: int = 32, *, unique: str | None = None, **more: Any
) -> RemotingCommand:
    fields = {
        "topic": "t",
        "key": key,
        "maxNum": max_num,
        "beginTimestamp": 0,
        "endTimestamp": FAR,
        **more,
    }
    flag = {} if unique is None else {UNIQUE_KEY_QUERY: unique}
    return served.later(RequestCode.QUERY_MESSAGE, fields, more=flag)


def test_messages_by_key(served: ServedBroker) -> None:
    served.put("t", "A", "B", keys="k")
    served.put("t", "C", keys="other")
    response = by_key(served, "k")
    assert response.code == ResponseCode.SUCCESS
    assert tags_of(response) == ["A", "B"]
    last = served.store.query("t", "other")
    assert response.ext_fields == {
        "indexLastUpdatePhyoffset": str(last.index_last_update_phy_offset),
        "indexLastUpdateTimestamp": str(last.index_last_update_timestamp_ms),
    }
    assert tags_of(by_key(served, "k", 1)) == ["B"]
    assert tags_of(by_key(served, "k", 1, unique="true")) == ["A", "B"]
    assert tags_of(by_key(served, "k", 1, unique="false")) == ["B"]


def test_no_message_has_the_key(served: ServedBroker) -> None:
    served.put("t", "A", keys="k")
    for response in (by_key(served, "x"), by_key(served, "k", 0), by_key(served, "k", -1)):
        assert response.code == ResponseCode.QUERY_NOT_FOUND
        assert set(response.ext_fields) == {"indexLastUpdatePhyoffset", "indexLastUpdateTimestamp"}
    assert by_key(served, "k", indexType="X").code == ResponseCode.SYSTEM_ERROR


def test_an_answer_holds_the_newest_that_fit(
    served: ServedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.put("t", "A", "B", "C", keys="k")
    size = len(by_key(served, "k").body)
    monkeypatch.setattr(module, "MOST_BODY_BYTES", size - 1)
    assert tags_of(by_key(served, "k")) == ["B", "C"]


def test_a_message_by_its_place(served: ServedBroker) -> None:
    served.put("t", "A", "B")
    with served.store.get("t", 0, 1) as result:
        second = result.messages[0]
        where, raw = second.phy_offset, second.raw
    response = served.answer(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": where})
    assert (response.code, response.body) == (ResponseCode.SUCCESS, raw)
    for wrong in (where + 1, where + len(raw), -1, FAR):
        response = served.answer(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": wrong})
        assert response.code == ResponseCode.SYSTEM_ERROR
        assert response.remark == f"can not find message by the offset, {wrong}"


def entries(served: ServedBroker, **more: Any) -> RemotingCommand:
    fields = {"topic": "t", "queueId": 0, "index": 0, "count": 10, **more}
    return served.later(RequestCode.QUERY_CONSUME_QUEUE, fields)


def test_entries_of_a_queue(served: ServedBroker) -> None:
    assert entries(served).code == ResponseCode.SYSTEM_ERROR
    served.put("t", *["A"] * 40)
    body = json.loads(entries(served, index=1, count=2).body)
    with served.store.get("t", 0, 1, 2) as result:
        expected = [
            {
                "eval": False,
                "physicOffset": view.phy_offset,
                "physicSize": view.msg_size,
                "tagsCode": view.tags_code,
            }
            for view in result
        ]
    assert body == {"maxQueueIndex": 40, "minQueueIndex": 0, "queueData": expected}
    assert len(json.loads(entries(served, count=1000).body)["queueData"]) == 40
    assert json.loads(entries(served, count=-1).body)["queueData"] == []
    response = entries(served, index=40)
    assert response.remark == "Index 40 of 0@t is not exist!"
    assert "queueData" not in json.loads(response.body)


def test_entries_with_what_a_group_wants(served: ServedBroker) -> None:
    served.put("t", "A")
    body = json.loads(entries(served, consumerGroup="g").body)
    assert body["filterData"] == "g@t is not online!"
    served.beat(SubscriptionData("t", "a = 1", sub_version=3, expression_type=SQL92))
    body = json.loads(entries(served, consumerGroup="g").body)
    assert body["subscriptionData"]["subString"] == "a = 1"
    assert json.loads(body["filterData"])["clientVersion"] == 3
