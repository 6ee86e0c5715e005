"""Requests about topics and groups: what is made, refused, listed."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.sends import Sender

from rmqcore.broker.handlers import in_background
from rmqcore.broker.handlers.topics import PART_SIZE
from rmqcore.remoting.bodies.json_object import encode_json, encode_long_json
from rmqcore.remoting.bodies.subscription_groups import SubscriptionGroupConfig
from rmqcore.remoting.bodies.topic_configs import TopicConfig
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand

TOPIC = {
    "topic": "t",
    "defaultTopic": "TBW102",
    "readQueueNums": "4",
    "writeQueueNums": "3",
    "perm": "6",
    "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": "0",
    "order": "false",
}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Sender]:
    made = Sender(tmp_path)
    yield made
    made.close()


def ask(client: Sender, code: RequestCode, fields: Any = (), body: bytes = b"") -> RemotingCommand:
    return client.ask(RemotingCommand(code, ext_fields=dict(fields), body=body))


def saved(client: Sender, name: str, table: str) -> Any:
    text = (client.store.paths.config / name).read_text(encoding="utf-8")
    return json.loads(text)[table]


# ---- topics -----------------------------------------------------------------------------------------


def test_a_topic_is_on_disk_before_it_is_answered(client: Sender) -> None:
    answer = ask(client, RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC)
    assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, None)
    assert saved(client, "topics.json", "topicConfigTable")["t"] == TopicConfig("t", 4, 3).as_json()


def test_the_same_topic_again_changes_nothing(client: Sender) -> None:
    ask(client, RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC)
    version = client.broker.topics.table().data_version
    assert ask(client, RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC).code == ResponseCode.SUCCESS
    assert client.broker.topics.table().data_version == version


@pytest.mark.parametrize(
    ("changed", "code", "remark"),
    [
        ({"topic": " "}, 29, "The specified topic is blank."),
        ({"topic": "a/b"}, 29, "contains illegal characters"),
        ({"topic": "t" * 128}, 29, "is longer than topic max length: 127"),
        ({"topic": "TBW102"}, 29, "The topic[TBW102] is conflict with system topic."),
        ({"topic": "rmq_sys_x"}, 29, "conflict with system topic"),
        ({"topic": "DefaultCluster"}, 29, "conflict with system topic"),
        ({"readQueueNums": "1025"}, 29, "readQueueNums is 1025, expected 0 to 1024"),
        ({"writeQueueNums": "-1"}, 29, "writeQueueNums is -1"),
        ({"perm": "8"}, 29, "perm is 8, expected 0 to 7"),
        ({"attributes": "+message.type=MIXED"}, 29, "MIXED message type is not supported."),
        ({"attributes": "+color=red"}, 1, "unsupported key: color"),
        ({"attributes": "color=red"}, 1, "add/alter attribute format is wrong: color"),
        ({"topicFilterType": "NO_TAG"}, 1, "topicFilterType = [NO_TAG] value invalid"),
        ({"readQueueNums": "many"}, 1, "readQueueNums is 'many', expected an int"),
    ],
)
def test_topics_that_are_refused(
    client: Sender, changed: dict[str, str], code: int, remark: str
) -> None:
    before = client.broker.topics.table()
    answer = ask(client, RequestCode.UPDATE_AND_CREATE_TOPIC, {**TOPIC, **changed})
    assert answer.code == code
    assert remark in str(answer.remark)
    assert client.broker.topics.table() == before


def test_a_topic_may_have_1024_queues_and_attributes(client: Sender) -> None:
    fields = {**TOPIC, "readQueueNums": "1024", "attributes": "+message.type=FIFO"}
    assert ask(client, RequestCode.UPDATE_AND_CREATE_TOPIC, fields).code == ResponseCode.SUCCESS
    answer = ask(client, RequestCode.GET_TOPIC_CONFIG, {"topic": "t"})
    assert json.loads(answer.body) == {
        "attributes": {"message.type": "FIFO"},
        "order": False,
        "perm": 6,
        "readQueueNums": 1024,
        "topicFilterType": "SINGLE_TAG",
        "topicName": "t",
        "topicSysFlag": 0,
        "writeQueueNums": 3,
    }


def test_a_topic_that_is_not_there(client: Sender) -> None:
    answer = ask(client, RequestCode.GET_TOPIC_CONFIG, {"topic": "t"})
    assert (answer.code, answer.remark) == (17, "No topic in this broker. topic: t")


def test_a_deleted_topic_is_gone_with_the_offsets_of_its_groups(client: Sender) -> None:
    ask(client, RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC)
    client.broker.offsets.commit("g", "t", 0, 5)
    client.broker.offsets.commit("g", "other", 0, 6)
    client.broker.stats.topic_put("t", 1, 1)
    answer = ask(client, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
    assert answer.code == ResponseCode.SUCCESS
    assert "t" not in saved(client, "topics.json", "topicConfigTable")
    assert client.broker.offsets.query("g", "t", 0) == -1
    assert client.broker.offsets.query("g", "other", 0) == 6
    assert client.broker.stats.item("TOPIC_PUT_NUMS", "t") is None
    assert ask(client, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"}).code == 0


@pytest.mark.parametrize("name", [" ", "TBW102", "SCHEDULE_TOPIC_XXXX", "broker-a"])
def test_topics_that_are_not_deleted(client: Sender, name: str) -> None:
    before = client.broker.topics.table()
    answer = ask(client, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": name})
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert client.broker.topics.table() == before


def test_all_topics(client: Sender) -> None:
    answer = ask(client, RequestCode.GET_ALL_TOPIC_CONFIG)
    table = client.broker.topics.table()
    assert answer.ext_fields == {"totalTopicNum": str(len(table.topics))}
    assert json.loads(answer.body).items() >= table.as_json().items()


def test_topics_in_parts(client: Sender) -> None:
    """A slave asks for so many from a place on, as long as the version stays the same."""
    client.broker.topics.update_all([TopicConfig(f"t{n:05}") for n in range(PART_SIZE + 10)])
    table = client.broker.topics.table()
    version = json.dumps(table.data_version.as_json())
    found: dict[str, Any] = {}
    for _ in range(2):
        fields = {"topicSeq": str(len(found)), "dataVersion": version, "maxTopicNum": "99999"}
        answer = ask(client, RequestCode.GET_ALL_TOPIC_CONFIG, fields)
        part = json.loads(answer.body)["topicConfigTable"]
        assert len(part) <= PART_SIZE
        found.update(part)
    assert found.keys() == table.topics.keys()
    fields = {"topicSeq": "2000", "dataVersion": '{"counter":1}', "maxTopicNum": "3"}
    answer = ask(client, RequestCode.GET_ALL_TOPIC_CONFIG, fields)
    assert list(json.loads(answer.body)["topicConfigTable"]) == sorted(table.topics)[:3]
    fields = {"topicSeq": "-5", "dataVersion": version, "maxTopicNum": "-1"}
    answer = ask(client, RequestCode.GET_ALL_TOPIC_CONFIG, fields)
    assert json.loads(answer.body)["topicConfigTable"] == {}


# ---- groups -----------------------------------------------------------------------------------------


def test_a_group_is_on_disk_before_it_is_answered(client: Sender) -> None:
    config = SubscriptionGroupConfig("g", retry_queue_nums=2, consume_enable=False)
    body = encode_json(config.as_json())
    answer = ask(client, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
    assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, None)
    found = saved(client, "subscriptionGroup.json", "subscriptionGroupTable")["g"]
    assert found == config.as_json()
    answer = ask(client, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "g"})
    assert json.loads(answer.body) == config.as_json()


@pytest.mark.parametrize(
    ("body", "code", "remark"),
    [
        (b"{}", 29, "The specified group is blank."),
        (b'{"groupName":"a/b"}', 29, "contains illegal characters"),
        (
            b'{"groupName":"g","retryQueueNums":1025}',
            29,
            "retryQueueNums is 1025, expected at most",
        ),
        (b'{"groupName":"g","attributes":{"+a":"1"}}', 1, "unsupported key: a"),
        (b'{"groupName":"g","consumeEnable":1}', 1, "consumeEnable is 1, expected true or false"),
        (b"not json", 1, "expected a JSON object"),
        (b" " * 70_000, 29, "70000 bytes for a group, expected at most 65536"),
    ],
)
def test_groups_that_are_refused(client: Sender, body: bytes, code: int, remark: str) -> None:
    before = client.broker.groups.table()
    answer = ask(client, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
    assert answer.code == code
    assert remark in str(answer.remark)
    assert client.broker.groups.table() == before


@pytest.mark.parametrize(("clean", "offset"), [("true", -1), ("false", 5)])
def test_a_deleted_group_and_its_offsets(client: Sender, clean: str, offset: int) -> None:
    client.broker.groups.find("g")
    client.broker.offsets.commit("g", "t", 0, 5)
    client.broker.offsets.save_if_changed()
    client.broker.stats.group_get("g", "t", 1, 1)
    fields = {"groupName": "g", "cleanOffset": clean}
    assert ask(client, RequestCode.DELETE_SUBSCRIPTIONGROUP, fields).code == ResponseCode.SUCCESS
    assert "g" not in saved(client, "subscriptionGroup.json", "subscriptionGroupTable")
    assert client.broker.offsets.query("g", "t", 0) == offset
    if clean == "true":  # on disk: a crash does not bring the offsets back
        assert saved(client, "consumerOffset.json", "offsetTable") == {}
    assert client.broker.stats.item("GROUP_GET_NUMS", "t@g") is None


def test_all_groups(client: Sender) -> None:
    client.broker.groups.find("g")
    answer = ask(client, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    assert answer.ext_fields == {"totalGroupNum": "9"}
    assert json.loads(answer.body) == client.broker.groups.table().as_json()
    fields = {"groupSeq": "0", "maxGroupNum": "2"}
    answer = ask(client, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, fields)
    assert len(json.loads(answer.body)["subscriptionGroupTable"]) == 2
    assert answer.ext_fields == {"totalGroupNum": "9"}


def test_asking_for_a_group_makes_it_as_in_java(client: Sender) -> None:
    answer = ask(client, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "new"})
    assert json.loads(answer.body)["groupName"] == "new"
    answer = ask(client, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "a/b"})
    assert (answer.code, answer.remark) == (26, "No group in this broker")


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (RequestCode.GET_ALL_TOPIC_CONFIG, {}),
        (RequestCode.GET_ALL_TOPIC_CONFIG, {"topicSeq": "2", "maxTopicNum": "3"}),
        (RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, {}),
        (RequestCode.GET_ALL_CONSUMER_OFFSET, {}),
        (RequestCode.GET_ALL_PRODUCER_INFO, {}),
    ],
)
def test_a_long_table_is_written_in_another_thread(
    client: Sender, monkeypatch: pytest.MonkeyPatch, code: RequestCode, fields: Any
) -> None:
    client.broker.offsets.commit("g", "t", 0, 7)
    beat = {"clientID": "c", "producerDataSet": [{"groupName": "p"}], "consumerDataSet": []}
    ask(client, RequestCode.HEART_BEAT, (), encode_json(beat))
    short = ask(client, code, fields)
    monkeypatch.setattr(in_background, "SHORT_TABLE", 0)
    made_in: list[int] = []
    encode = encode_long_json

    def noted(value: object) -> bytes:
        made_in.append(threading.get_ident())
        return encode(value)

    monkeypatch.setattr(in_background, "encode_long_json", noted)
    long = ask(client, code, fields)
    assert (long.code, long.ext_fields, long.body) == (short.code, short.ext_fields, short.body)
    assert made_in and made_in != [threading.get_ident()]
