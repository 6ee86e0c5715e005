"""Offsets of groups and queues over the wire."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.served_broker import ServedBroker

from rmqcore.disk.consumer_offsets import read_consumer_offsets
from rmqcore.disk.paths import StorePaths
from rmqcore.remoting.bodies.subscription_groups import SubscriptionGroupConfig
from rmqcore.remoting.codes import RequestCode, ResponseCode

QUEUE: dict[str, Any] = {"topic": "t", "queueId": 0}
GROUP: dict[str, Any] = {**QUEUE, "consumerGroup": "g"}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedBroker]:
    with ServedBroker(tmp_path) as made:
        made.topic("t")
        made.broker.groups.update(SubscriptionGroupConfig("g"))
        yield made


def query(served: ServedBroker, **more: Any) -> tuple[int, str | None]:
    response = served.later(RequestCode.QUERY_CONSUMER_OFFSET, {**GROUP, **more})
    return response.code, response.ext_fields.get("offset")


def test_a_committed_offset(served: ServedBroker) -> None:
    served.broker.offsets.commit("g", "t", 0, 7)
    assert query(served) == (ResponseCode.SUCCESS, "7")
    assert query(served, setZeroIfNotFound=False) == (ResponseCode.SUCCESS, "7")


def test_none_is_committed(served: ServedBroker) -> None:
    """A new group on a young queue begins at 0, whatever it asks for; on any other queue it is told that there is none."""
    assert query(served) == (ResponseCode.QUERY_NOT_FOUND, None)
    served.put("t", "A")
    assert query(served) == (ResponseCode.SUCCESS, "0")
    assert query(served, setZeroIfNotFound=True) == (ResponseCode.SUCCESS, "0")
    assert query(served, setZeroIfNotFound=False) == (ResponseCode.QUERY_NOT_FOUND, None)
    assert query(served, queueId=1) == (ResponseCode.QUERY_NOT_FOUND, None)


def test_a_queue_whose_first_messages_are_gone(tmp_path: Path) -> None:
    with ServedBroker(tmp_path, mapped_file_size_consume_queue=20 * 10) as served:
        served.topic("t")
        served.put("t", *["A"] * 200, properties={"long": "x" * 2000})
        assert query(served) == (ResponseCode.SUCCESS, "0")
        served.store.flush()
        served.store.clean_once(disk_ratio=0.99)
        assert served.store.min_offset("t", 0) > 0
        assert query(served) == (ResponseCode.QUERY_NOT_FOUND, None)


def test_commits(served: ServedBroker) -> None:
    def commit(**more: Any) -> int:
        fields = {**GROUP, "commitOffset": 3, **more}
        return served.answer(RequestCode.UPDATE_CONSUMER_OFFSET, fields).code

    assert commit() == ResponseCode.SUCCESS
    assert query(served) == (ResponseCode.SUCCESS, "3")
    assert commit(commitOffset=2) == ResponseCode.SUCCESS
    assert query(served) == (ResponseCode.SUCCESS, "2")
    assert commit(consumerGroup="h") == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert commit(topic="u") == ResponseCode.TOPIC_NOT_EXIST
    assert commit(queueId=4) == ResponseCode.INVALID_PARAMETER
    assert commit(queueId=-1) == ResponseCode.INVALID_PARAMETER
    assert commit(commitOffset=-1) == ResponseCode.INVALID_PARAMETER
    served.tell(RequestCode.UPDATE_CONSUMER_OFFSET, {**GROUP, "commitOffset": 9})
    assert query(served) == (ResponseCode.SUCCESS, "9")


def test_both_ends_of_a_queue(served: ServedBroker) -> None:
    served.put("t", "A", "B")
    answer = served.later
    assert answer(RequestCode.GET_MAX_OFFSET, QUEUE).ext_fields == {"offset": "2"}
    assert answer(RequestCode.GET_MIN_OFFSET, QUEUE).ext_fields == {"offset": "0"}
    never: dict[str, Any] = {"topic": "never", "queueId": -5}
    assert answer(RequestCode.GET_MAX_OFFSET, never).ext_fields == {"offset": "0"}
    with served.store.get("t", 0, 0) as result:
        stored_ms = result.messages[0].store_timestamp_ms
    code = RequestCode.GET_EARLIEST_MSG_STORETIME
    assert answer(code, QUEUE).ext_fields == {"timestamp": str(stored_ms)}
    assert answer(code, {**QUEUE, "queueId": 1}).ext_fields == {"timestamp": "-1"}


def test_offsets_by_time(served: ServedBroker) -> None:
    served.put("t", "A", "B")
    with served.store.get("t", 0, 0) as result:
        stored_ms = result.messages[0].store_timestamp_ms

    def search(timestamp_ms: int, **more: Any) -> int:
        fields = {**QUEUE, "timestamp": timestamp_ms, **more}
        response = served.later(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, fields)
        return int(response.ext_fields["offset"])

    assert search(stored_ms - 1000) == 0
    for boundary in ("LOWER", "UPPER"):
        expected = served.store.offset_by_time("t", 0, stored_ms + 60_000, boundary)
        assert search(stored_ms + 60_000, boundaryType=boundary) == expected
    assert search(stored_ms - 1000, boundaryType="neither") == 0


def test_all_offsets_are_what_the_file_has(served: ServedBroker, tmp_path: Path) -> None:
    served.broker.offsets.commit("g", "t", 0, 7)
    served.broker.offsets.commit("g", "%RETRY%g", 0, 1)
    response = served.answer(RequestCode.GET_ALL_CONSUMER_OFFSET)
    table = json.loads(response.body)["offsetTable"]
    assert table == {"t@g": {"0": 7}, "%RETRY%g@g": {"0": 1}}
    served.loop.advance(5_000)
    served.broker.stop()
    served.broker.config_files.close()
    read = read_consumer_offsets(StorePaths(tmp_path))
    assert read.groups == {"g": {("t", 0): 7, ("%RETRY%g", 0): 1}}


def test_offsets_are_written_at_the_stop(tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as served:
        served.broker.offsets.commit("g", "t", 0, 7)
    with ServedBroker(tmp_path) as served:
        assert served.broker.offsets.query("g", "t", 0) == 7
