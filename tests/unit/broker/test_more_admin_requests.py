"""Requests of administrators that tools send now and then: lists of topics and groups, messages for one consumer, clones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.broker import FakeChannel
from support.sends import Sender

from rmqcore import Message
from rmqcore.broker.handlers.admin.ask_consumers import STATUS_TIMEOUT_MS
from rmqcore.broker.state.clients import ClientChannelInfo
from rmqcore.disk.config_files import read_config_file
from rmqcore.remoting.bodies.heartbeat import ConsumerData, SubscriptionData
from rmqcore.remoting.bodies.json_object import encode_json
from rmqcore.remoting.bodies.topic_configs import TopicConfig
from rmqcore.remoting.codes import LanguageCode, RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Sender]:
    made = Sender(tmp_path)
    made.broker.topics.update(TopicConfig("t", 2, 2, topic_sys_flag=1))
    yield made
    made.close()


def ask(client: Sender, code: RequestCode, body: bytes = b"", /, **fields: str) -> RemotingCommand:
    return client.ask(RemotingCommand(code, ext_fields=fields, body=body))


def join(client: Sender, name: str = "c1") -> FakeChannel:
    channel = FakeChannel(f"127.0.0.1:{40001 + int(name[1:])}")
    info = ClientChannelInfo(channel, name, LanguageCode.JAVA, 513, client.loop.now_ms)
    wanted = (SubscriptionData("t"),)
    consumer = ConsumerData(
        "g", "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", wanted
    )
    client.broker.consumers.register(consumer, info, notify=False, now_ms=client.loop.now_ms)
    return channel


def test_a_request_that_is_not_served_is_logged_once(
    client: Sender, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        assert ask(client, RequestCode.POP_MESSAGE).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    (record,) = caplog.records
    assert "does not support request 200050 POP_MESSAGE" in record.getMessage()


# ---- lists ------------------------------------------------------------------------------------------


def test_several_topics_are_made_at_once(client: Sender) -> None:
    topics = [TopicConfig(name, 1, 1) for name in ("a", "t", "b")]
    topics[1] = client.broker.topics.get("t") or topics[1]  # as it is already: Java would stop here
    body = encode_json({"topicConfigList": [topic.as_json() for topic in topics]})
    assert ask(client, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body).code == ResponseCode.SUCCESS
    assert client.broker.topics.get("a") == topics[0]
    assert client.broker.topics.get("b") == topics[2]


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        (TopicConfig("bad.name"), "bad.name"),
        (TopicConfig("TBW102"), "conflict with system topic"),
        (TopicConfig("x", 9999, 1), "readQueueNums is 9999"),
        (TopicConfig("x", attributes={"+message.type": "MIXED"}), "MIXED"),
    ],
)
def test_one_wrong_topic_of_a_list_stops_all(
    client: Sender, topic: TopicConfig, words: str
) -> None:
    body = encode_json({"topicConfigList": [TopicConfig("a").as_json(), topic.as_json()]})
    answer = ask(client, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body)
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert words in str(answer.remark)
    assert client.broker.topics.get("a") is None


def test_several_groups_are_made_at_once(client: Sender) -> None:
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST
    groups: list[dict[str, Any]] = [{"groupName": "g1"}, {"groupName": "g2", "retryQueueNums": 3}]
    assert ask(client, code, encode_json({"groupConfigList": groups})).code == ResponseCode.SUCCESS
    made = client.broker.groups.get("g2")
    assert made is not None
    assert made.retry_queue_nums == 3
    for wrong in ({"groupName": "bad.name"}, {"groupName": "g4", "retryQueueNums": 2000}):
        answer = ask(client, code, encode_json({"groupConfigList": [{"groupName": "g3"}, wrong]}))
        assert answer.code == ResponseCode.INVALID_PARAMETER
    assert client.broker.groups.get("g3") is None


# ---- consumers --------------------------------------------------------------------------------------


def test_a_message_is_given_to_one_consumer(client: Sender) -> None:
    client.broker.groups.find("g")
    put = client.store.put(Message("t", b"body", 0))
    put.raise_for_status()
    code = RequestCode.CONSUME_MESSAGE_DIRECTLY
    fields = {"consumerGroup": "g", "clientId": "c1", "msgId": str(put.msg_id), "topic": "t"}
    assert ask(client, code, **fields).remark == "The Consumer <g> <c1> not online"
    consumer = join(client)
    client.start(RemotingCommand(code, opaque=9, ext_fields=fields))
    client.loop.run_until(lambda: bool(consumer.sent))
    (question,) = consumer.sent
    more = {"brokerName": "broker-a", "topicSysFlag": "1", "groupSysFlag": "0"}
    assert (question.code, question.ext_fields) == (code, {**fields, **more})
    (stored,) = client.messages("t")
    assert question.body == stored.raw
    client.broker.client_requests.answered(consumer, question.response(0, None, body=b"{}"))
    assert (client.channel.sent[-1].opaque, client.channel.sent[-1].body) == (9, b"{}")


@pytest.mark.parametrize("msg_id", ["", "x" * 32, "7F00000100002A9F000000000000FFFF"])
def test_a_message_that_is_not_there(client: Sender, msg_id: str) -> None:
    join(client)
    fields = {"consumerGroup": "g", "clientId": "c1", "msgId": msg_id}
    answer = ask(client, RequestCode.CONSUME_MESSAGE_DIRECTLY, **fields)
    assert answer.code == ResponseCode.SYSTEM_ERROR


def test_how_far_each_member_is(client: Sender, caplog: pytest.LogCaptureFixture) -> None:
    code = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
    fields = {"topic": "t", "group": "g"}
    answer = ask(client, code, **fields)
    assert answer.remark == "No Any Consumer online in the consumer group: [g]"
    members = [join(client, f"c{n}") for n in range(4)]
    client.start(RemotingCommand(code, opaque=9, ext_fields=fields))
    questions = [member.sent[0] for member in members]
    assert {question.code for question in questions} == {221}
    assert questions[0].ext_fields == fields
    table = b'{{"brokerName":"b","queueId":0,"topic":"t"}:5,{"brokerName":"b","queueId":1,"topic":"t"}:7}'
    bodies = [
        b'{"consumerTable":{},"messageQueueTable":%s}' % table,
        b'{"messageQueueTable":{}}',
        b'{"messageQueueTable":{1:2}}',
    ]
    for member, question, body in zip(members, questions, bodies, strict=False):
        client.broker.client_requests.answered(member, question.response(body=body))
    before = len(client.channel.sent)
    client.loop.advance(STATUS_TIMEOUT_MS)  # the last one says nothing
    answer = client.channel.sent[before]
    wanted = b'{"consumerTable":{"c0":%s,"c1":{}},"messageQueueTable":{}}'
    assert (answer.opaque, answer.body) == (9, wanted % table)
    assert "expected a JSON object" in caplog.text


def test_a_member_that_connected_anew_is_asked_once(client: Sender) -> None:
    old, new = join(client, "c1"), join(client, "c1")
    code = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
    client.start(RemotingCommand(code, ext_fields={"topic": "t", "group": "g"}))
    assert not old.sent
    (question,) = new.sent
    client.broker.client_requests.answered(new, question.response(body=b'{"messageQueueTable":{}}'))
    assert json.loads(client.channel.sent[-1].body)["consumerTable"] == {"c1": {}}


def test_only_the_member_that_is_named_is_asked(client: Sender) -> None:
    first, second = join(client, "c1"), join(client, "c2")
    code = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
    fields = {"topic": "t", "group": "g", "clientAddr": "c2"}
    client.start(RemotingCommand(code, ext_fields=fields))
    assert not first.sent
    (question,) = second.sent
    client.broker.client_requests.answered(second, question.response())
    assert client.channel.sent[-1].body == b'{"consumerTable":{},"messageQueueTable":{}}'
    answer = ask(client, code, **{**fields, "clientAddr": "c3"})
    assert json.loads(answer.body)["consumerTable"] == {}


# ---- groups -----------------------------------------------------------------------------------------


def test_a_group_begins_where_another_one_is(client: Sender) -> None:
    offsets = client.broker.offsets
    client.broker.topics.update(TopicConfig("u", 1, 1))
    for topic, queue_id, queue_offset in (("t", 0, 3), ("t", 1, 4), ("u", 0, 5), ("gone", 0, 6)):
        offsets.commit("a", topic, queue_id, queue_offset)
    offsets.commit("b", "t", 0, 9)
    code = RequestCode.CLONE_GROUP_OFFSET
    answer = ask(client, code, srcGroup="a", destGroup="b", topic="t", offline="false")
    assert answer.code == ResponseCode.SUCCESS
    assert offsets.queues("b", "t") == {0: 3, 1: 4}
    saved = read_config_file(client.store.paths, "config/consumerOffset.json")
    assert saved is not None
    assert saved["offsetTable"]["t@b"] == {"0": 3, "1": 4}
    assert offsets.queues("b", "u") == {}
    ask(client, code, srcGroup="a", destGroup="b")
    assert (offsets.queues("b", "u"), offsets.queues("b", "gone")) == ({0: 5}, {})
    offsets.commit("a", "t", 0, 8)
    assert offsets.query("b", "t", 0) == 3
    assert ask(client, code, srcGroup="a", destGroup="bad.name").code == 29


def test_a_topic_that_the_members_do_not_want_is_not_cloned(client: Sender) -> None:
    client.broker.topics.update(TopicConfig("u", 1, 1))
    client.broker.offsets.commit("g", "u", 0, 5)
    join(client)
    code = RequestCode.CLONE_GROUP_OFFSET
    ask(client, code, srcGroup="g", destGroup="b", topic="u", offline="false")
    assert client.broker.offsets.queues("b", "u") == {}
    ask(client, code, srcGroup="g", destGroup="b", topic="u", offline="true")
    assert client.broker.offsets.queues("b", "u") == {0: 5}


def test_what_a_group_reads(client: Sender) -> None:
    client.broker.offsets.commit("g", "t", 0, 1)
    answer = ask(client, RequestCode.QUERY_TOPICS_BY_CONSUMER, group="g")
    assert json.loads(answer.body) == {"brokerAddr": "127.0.0.1:10911", "topicList": ["t"]}
    code = RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER
    assert json.loads(ask(client, code, group="g", topic="t").body) == {"group": "g", "topic": "t"}
    join(client)
    found = json.loads(ask(client, code, group="g", topic="t").body)
    assert found["subscriptionData"]["subString"] == "*"


def test_a_group_must_not_read_a_topic(client: Sender) -> None:
    code = RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN
    client.broker.groups.find("g")
    client.broker.topics.update(TopicConfig("u", 1, 1))

    def readable(topic: str, **change: str) -> bool:
        answer = ask(client, code, group="g", topic=topic, **change)
        assert (answer.code, answer.remark) == (0, "")
        found = json.loads(answer.body)
        assert (found["group"], found["topic"]) == ("g", topic)
        return bool(found["readable"])

    assert readable("t")
    assert not readable("t", readable="false")
    assert not readable("u", readable="false")
    assert readable("u", readable="true")
    assert not readable("t")
    assert client.broker.groups.is_read_forbidden("g", "t")
    assert readable("t", readable="true")
    assert client.broker.groups.table().forbidden == {}
    assert ask(client, code, group="none", topic="t", readable="false").code == 26
    assert ask(client, code, group="g", topic="none", readable="false").code == 17


# ---- the broker -------------------------------------------------------------------------------------


def test_expired_files_are_deleted_whatever_the_hour(
    client: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(
        type(client.store), "execute_delete_files_manually", lambda _: asked.append(True)
    )
    assert ask(client, RequestCode.DELETE_EXPIRED_COMMITLOG).code == ResponseCode.SUCCESS
    assert asked == [True]


def test_no_group_is_held_back_for_cold_reads(client: Sender) -> None:
    found = json.loads(ask(client, RequestCode.GET_COLD_DATA_FLOW_CTR_INFO).body)
    assert (found["runtimeTable"], found["configTable"], found["globalAcc"]) == ({}, {}, 0)


def test_rocketmq_exporter_finds_its_numbers(client: Sender) -> None:
    """Each name is parsed by the constructor of its BrokerRuntimeStats, which stops at the first that is missing."""
    table = json.loads(ask(client, RequestCode.GET_BROKER_RUNTIME_INFO).body)["table"]
    spans = [part.split(":") for part in table["putMessageDistributeTime"].split(" ") if part]
    assert [name for name, _ in spans][::12] == ["[<=0ms]", "[10s~]"]
    assert [int(times) for _, times in spans] == [0] * 13
    assert int(table["brokerVersion"]) == 513
    assert table["getTransferedTps"] == table["getTransferredTps"]
    assert float(table["remainHowManyDataToFlush"].split(" ")[0]) >= 0


def test_a_long_name_makes_a_short_line(client: Sender, caplog: pytest.LogCaptureFixture) -> None:
    """Deletions of names of 60 KB wrote 185 MB of log in 8 seconds."""
    name = "x" * 60_000
    ask(client, RequestCode.DELETE_TOPIC_IN_BROKER, topic=name)
    ask(client, RequestCode.DELETE_SUBSCRIPTIONGROUP, groupName=name, cleanOffset="false")
    client.broker.offsets.commit(name, name, 0, 5)
    client.broker.offsets.commit(name, name, 0, 4)
    lines = [record.getMessage() for record in caplog.records]
    assert [len(line) < 1_000 for line in lines] == [True] * 3
