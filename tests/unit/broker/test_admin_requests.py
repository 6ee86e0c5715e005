"""Requests of administrators: settings, statistics, how far groups have read, who is connected."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.broker import FakeChannel
from support.sends import Sender

from rmqcore import Message
from rmqcore.broker.handlers.admin.ask_consumers import ASK_TIMEOUT_MS
from rmqcore.broker.state.clients import ClientChannelInfo
from rmqcore.broker.worker import MOST_WAITING
from rmqcore.disk.config_files import read_config_file
from rmqcore.remoting.bodies.heartbeat import ConsumerData, SubscriptionData
from rmqcore.remoting.bodies.topic_configs import TopicConfig
from rmqcore.remoting.codes import LanguageCode, RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand

QUEUE = {"brokerName": "broker-a", "topic": "t"}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Sender]:
    made = Sender(tmp_path)
    made.broker.topics.update(TopicConfig("t", 2, 2))
    yield made
    made.close()


def ask(client: Sender, code: RequestCode, body: bytes = b"", /, **fields: str) -> RemotingCommand:
    return client.ask(RemotingCommand(code, ext_fields=fields, body=body))


def put(client: Sender, count: int, queue_id: int = 0) -> list[int]:
    """Put messages, one a second; give their times."""
    times = []
    for n in range(count):
        client.loop.now_ms += 1_000
        client.store.put(Message("t", b"%d" % n, queue_id)).raise_for_status()
        times.append(client.loop.now_ms)
    assert client.store.wait_dispatched(60)
    return times


def tables(body: bytes) -> Any:
    """Read JSON whose keys may be objects: those become texts."""
    text = body.decode()
    return json.loads(re.sub(r"([{,])(\{[^{}]*\}):", lambda m: f"{m[1]}{json.dumps(m[2])}:", text))


def queue(queue_id: int) -> str:
    return f'{{"brokerName":"broker-a","queueId":{queue_id},"topic":"t"}}'


def join(
    client: Sender,
    group: str = "g",
    *,
    language: LanguageCode = LanguageCode.JAVA,
    name: str = "c1",
) -> FakeChannel:
    """Let a consumer of the topic connect."""
    channel = FakeChannel(f"127.0.0.1:{40001 + len(name)}")
    info = ClientChannelInfo(channel, name, language, 513, client.loop.now_ms)
    consumer = ConsumerData(
        group,
        "CONSUME_PASSIVELY",
        "CLUSTERING",
        "CONSUME_FROM_LAST_OFFSET",
        (SubscriptionData("t"),),
    )
    client.broker.consumers.register(consumer, info, notify=False, now_ms=client.loop.now_ms)
    return channel


# ---- how far queues and groups are ------------------------------------------------------------------


def test_how_far_a_topic_reaches(client: Sender) -> None:
    times = put(client, 3)
    answer = ask(client, RequestCode.GET_TOPIC_STATS_INFO, topic="t")
    assert tables(answer.body) == {
        "offsetTable": {
            queue(0): {"lastUpdateTimestamp": times[-1], "maxOffset": 3, "minOffset": 0},
            queue(1): {"lastUpdateTimestamp": 0, "maxOffset": 0, "minOffset": 0},
        },
        "topicPutTps": 0.0,
    }
    answer = ask(client, RequestCode.GET_TOPIC_STATS_INFO, topic="none")
    assert (answer.code, answer.remark) == (17, "topic[none] not exist")


def test_how_far_a_group_has_read(client: Sender) -> None:
    times = put(client, 5)
    client.broker.offsets.commit("g", "t", 0, 2)
    client.broker.offsets.note_pull("g", "t", 0, 4)
    answer = ask(client, RequestCode.GET_CONSUME_STATS, consumerGroup="g")
    wanted = {
        queue(0): {
            "brokerOffset": 5,
            "consumerOffset": 2,
            "lastTimestamp": times[1],
            "pullOffset": 4,
        },
        queue(1): {"brokerOffset": 0, "consumerOffset": 0, "lastTimestamp": 0, "pullOffset": 0},
    }
    assert tables(answer.body) == {"consumeTps": 0.0, "offsetTable": wanted}
    answer = ask(client, RequestCode.GET_CONSUME_STATS, consumerGroup="g", topicList="t;none")
    assert tables(answer.body)["offsetTable"] == wanted


def test_topics_that_a_group_no_longer_wants_do_not_count(client: Sender) -> None:
    client.broker.topics.update(TopicConfig("old", 1, 1))
    client.broker.offsets.commit("g", "old", 0, 1)
    join(client)
    answer = ask(client, RequestCode.GET_CONSUME_STATS, consumerGroup="g")
    assert tables(answer.body)["offsetTable"] == {}
    answer = ask(client, RequestCode.GET_CONSUME_STATS, consumerGroup="g", topic="old")
    assert tables(answer.body)["offsetTable"] == {}
    answer = ask(client, RequestCode.GET_CONSUME_STATS, consumerGroup="g", topic="t")
    assert len(tables(answer.body)["offsetTable"]) == 2
    answer = ask(client, RequestCode.GET_CONSUME_STATS, consumerGroup="g", topicList="old")
    assert len(tables(answer.body)["offsetTable"]) == 1


def test_how_far_all_groups_have_read(client: Sender) -> None:
    put(client, 5)
    client.broker.groups.find("g")
    client.broker.offsets.commit("g", "t", 0, 2)
    client.broker.offsets.note_pull("g", "t", 0, 4)
    answer = ask(client, RequestCode.GET_BROKER_CONSUME_STATS, isOrder="false")
    found = tables(answer.body)
    assert (found["brokerAddr"], found["totalDiff"], found["totalInflightDiff"]) == (
        "127.0.0.1:10911",
        3,
        2,
    )
    (of_group,) = [one["g"] for one in found["consumeStatsList"] if "g" in one]
    assert of_group[0]["offsetTable"].keys() == {queue(0), queue(1)}
    answer = ask(client, RequestCode.GET_BROKER_CONSUME_STATS, isOrder="true")
    assert tables(answer.body)["totalDiff"] == 0


def test_of_when_the_messages_are(client: Sender) -> None:
    times = put(client, 5)
    client.broker.offsets.commit("g", "t", 0, 2)
    client.loop.now_ms += 100
    answer = ask(client, RequestCode.QUERY_CONSUME_TIME_SPAN, topic="t", group="g")
    first, second = json.loads(answer.body)["consumeTimeSpanSet"]
    assert first == {
        "consumeTimeStamp": times[1],
        "delayTime": client.loop.now_ms - times[2],
        "maxTimeStamp": times[-1],
        "messageQueue": {**QUEUE, "queueId": 0},
        "minTimeStamp": times[0],
    }
    assert (second["minTimeStamp"], second["maxTimeStamp"], second["consumeTimeStamp"]) == (
        -1,
        -1,
        -1,
    )
    answer = ask(client, RequestCode.QUERY_CONSUME_TIME_SPAN, topic="none", group="g")
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST


# ---- offsets that are set ---------------------------------------------------------------------------


def reset(client: Sender, **fields: str) -> RemotingCommand:
    wanted = {"topic": "t", "group": "g", "timestamp": "-1", "isForce": "true", **fields}
    return ask(client, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, **wanted)


def test_a_group_without_members_is_reset(client: Sender) -> None:
    times = put(client, 5)
    client.broker.groups.find("g")
    answer = reset(client, timestamp=str(times[2]))
    assert tables(answer.body) == {"offsetTable": {queue(0): 2, queue(1): 0}}
    assert client.broker.offsets.query("g", "t", 0) == 2
    # On disk when it is answered: a crash does not take it back.
    saved = read_config_file(client.store.paths, "config/consumerOffset.json")
    assert saved is not None
    assert saved["offsetTable"] == {"t@g": {"0": 2, "1": 0}}
    assert tables(reset(client).body)["offsetTable"] == {queue(0): 5, queue(1): 0}


def test_members_are_told(client: Sender) -> None:
    put(client, 5)
    client.broker.groups.find("g")
    java, other = join(client), join(client, language=LanguageCode.CPP, name="other")
    assert reset(client, timestamp="0").code == ResponseCode.SUCCESS
    (told,) = java.sent
    assert (told.code, told.is_oneway) == (RequestCode.RESET_CONSUMER_CLIENT_OFFSET, True)
    assert told.ext_fields == {"topic": "t", "group": "g", "timestamp": "0", "isForce": "true"}
    assert tables(told.body) == {"offsetTable": {queue(0): 0, queue(1): 0}}
    listed = json.loads(other.sent[0].body)["offsetTable"]
    assert listed == [{**QUEUE, "queueId": n, "offset": 0} for n in (0, 1)]


def test_one_queue_is_set(client: Sender) -> None:
    put(client, 5)
    client.broker.groups.find("g")
    answer = reset(client, queueId="0", offset="3")
    assert tables(answer.body) == {"offsetTable": {queue(0): 3}}
    answer = reset(client, queueId="0", offset="7")
    assert (answer.code, answer.remark) == (1, "Target offset 7 not in consume queue range [0-5]")
    assert client.broker.offsets.query("g", "t", 0) == 3


def test_what_cannot_be_reset(client: Sender) -> None:
    answer = reset(client, topic="none")
    assert (answer.code, answer.remark) == (17, "Topic none does not exist")
    answer = reset(client, group="none")
    assert (answer.code, answer.remark) == (26, "Group none does not exist")
    client.broker.groups.find("g")
    client.broker.topics.update(TopicConfig("empty", 0, 0))
    assert reset(client, topic="empty").remark == "No queues to reset."


# ---- clients ----------------------------------------------------------------------------------------


def test_who_consumes(client: Sender) -> None:
    answer = ask(client, RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup="g")
    assert (answer.code, answer.remark) == (206, "the consumer group[g] not online")
    join(client)
    answer = ask(client, RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup="g")
    found = json.loads(answer.body)
    assert found["connectionSet"] == [
        {"clientAddr": "127.0.0.1:40003", "clientId": "c1", "language": "JAVA", "version": 513}
    ]
    assert (found["consumeType"], found["messageModel"], found["consumeFromWhere"]) == (
        "CONSUME_PASSIVELY",
        "CLUSTERING",
        "CONSUME_FROM_LAST_OFFSET",
    )
    assert found["subscriptionTable"]["t"]["subString"] == "*"


def test_who_produces(client: Sender) -> None:
    answer = ask(client, RequestCode.GET_PRODUCER_CONNECTION_LIST, producerGroup="p")
    assert (answer.code, answer.remark) == (1, "the producer group[p] not exist")
    assert json.loads(ask(client, RequestCode.GET_ALL_PRODUCER_INFO).body) == {"data": {}}
    info = ClientChannelInfo(FakeChannel(), "c1", LanguageCode.GO, 500, 77)
    client.broker.producers.register("p", info)
    answer = ask(client, RequestCode.GET_PRODUCER_CONNECTION_LIST, producerGroup="p")
    assert json.loads(answer.body)["connectionSet"] == [
        {"clientAddr": "127.0.0.1:40000", "clientId": "c1", "language": "GO", "version": 500}
    ]
    assert json.loads(ask(client, RequestCode.GET_ALL_PRODUCER_INFO).body)["data"]["p"] == [
        {
            "clientId": "c1",
            "language": "GO",
            "lastUpdateTimestamp": 77,
            "remoteIP": "/127.0.0.1:40000",
            "version": 500,
        }
    ]


def test_a_consumer_says_what_it_does(client: Sender) -> None:
    code = RequestCode.GET_CONSUMER_RUNNING_INFO
    fields = {"consumerGroup": "g", "clientId": "c1", "jstackEnable": "true"}
    assert ask(client, code, **fields).remark == "The Consumer <g> <c1> not online"
    consumer = join(client)
    client.start(RemotingCommand(code, opaque=9, ext_fields=fields))
    (question,) = consumer.sent
    assert (question.code, question.ext_fields) == (code, fields)
    client.broker.client_requests.answered(consumer, question.response(0, None, body=b"{}"))
    assert (client.channel.sent[-1].opaque, client.channel.sent[-1].body) == (9, b"{}")


def test_a_consumer_that_says_nothing(client: Sender) -> None:
    consumer = join(client)
    fields = {"consumerGroup": "g", "clientId": "c1"}
    client.start(RemotingCommand(RequestCode.GET_CONSUMER_RUNNING_INFO, ext_fields=fields))
    before = len(client.channel.sent)
    client.loop.advance(ASK_TIMEOUT_MS)
    assert client.channel.sent[before].code == ResponseCode.CONSUME_MSG_TIMEOUT
    assert not consumer.closed


# ---- settings ---------------------------------------------------------------------------------------


def test_a_setting_is_changed(client: Sender) -> None:
    told: list[tuple[TopicConfig, ...]] = []
    client.broker.topics.on_change = lambda topics, _: told.append(topics)
    body = b"brokerPermission=4\nautoCreateTopicEnable=false\n"
    assert ask(client, RequestCode.UPDATE_BROKER_CONFIG, body).code == ResponseCode.SUCCESS
    assert client.broker.settings.broker_permission == 4
    assert not client.broker.topics.settings.auto_create_topic_enable
    assert told == [()]
    text = ask(client, RequestCode.GET_BROKER_CONFIG).body.decode()
    assert {"brokerPermission=4", "autoCreateTopicEnable=false"} <= set(text.splitlines())


@pytest.mark.parametrize(
    ("body", "code", "remark"),
    [
        (b"storePathRootDir=/tmp", 16, "Can not update config 'storePathRootDir'"),
        (b"brokerName=other", 16, "Can not update config 'brokerName'"),
        (b"noSuchKey=1", 16, "Can not update config 'noSuchKey'"),
        (b"traceOn=false\nlistenPort=1", 16, "Can not update config 'listenPort'"),
        (b"brokerPermission=9", 1, "brokerPermission: expected 0 to 7, got 9"),
        (b"traceOn=perhaps", 1, "expected true or false"),
        (b"\xff=1", 1, "decode"),
        (b"traceOn=false\n" * 1000, 29, "14000 bytes of settings, expected at most 8192"),
    ],
)
def test_settings_that_are_not_changed(client: Sender, body: bytes, code: int, remark: str) -> None:
    before = client.broker.settings
    answer = ask(client, RequestCode.UPDATE_BROKER_CONFIG, body)
    assert answer.code == code
    assert remark in str(answer.remark)
    assert client.broker.settings == before


def test_all_settings(client: Sender) -> None:
    answer = ask(client, RequestCode.GET_BROKER_CONFIG)
    found = dict(line.split("=", 1) for line in answer.body.decode().splitlines())
    assert found["brokerName"] == "broker-a"
    assert found["listenPort"] == "10911"
    size = client.store.config.mapped_file_size_commit_log
    assert found["mappedFileSizeCommitLog"] == str(size)
    assert found["longPollingEnable"] == "true"
    assert list(found) == sorted(found)


# ---- how the broker does ----------------------------------------------------------------------------


def test_how_the_broker_does(client: Sender) -> None:
    times = put(client, 3)
    client.broker.stats.topic_put("t", 3, 600)
    client.loop.advance(11_000)
    answer = ask(client, RequestCode.GET_BROKER_RUNTIME_INFO)
    table = json.loads(answer.body)["table"]
    assert all(isinstance(value, str) for value in table.values())
    assert table["earliestMessageTimeStamp"] == str(times[0])
    assert table["commitLogMaxOffset"] == str(client.store.max_phy_offset)
    assert table["msgPutTotalTodayNow"] == "3"
    assert len(table["putTps"].split()) == len(table["getTransferredTps"].split()) == 3
    assert re.fullmatch(r"\[ 0 days, 0 hours, 0 minutes, 14 seconds \]", table["runtime"])
    read_by_cluster_list = {
        "brokerVersionDesc",
        "putTps",
        "getTransferredTps",
        "sendThreadPoolQueueSize",
        "pullThreadPoolQueueSize",
        "sendThreadPoolQueueHeadWaitTimeMills",
        "pullThreadPoolQueueHeadWaitTimeMills",
        "pageCacheLockTimeMills",
        "earliestMessageTimeStamp",
        "commitLogDiskRatio",
        "brokerActive",
        "timerReadBehind",
        "timerOffsetBehind",
        "timerCongestNum",
        "timerEnqueueTps",
        "timerDequeueTps",
        "msgPutTotalYesterdayMorning",
        "msgGetTotalTodayNow",
    }
    assert read_by_cluster_list <= table.keys()


def test_whether_the_store_takes_messages(client: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    def state() -> tuple[str, str]:
        table = json.loads(ask(client, RequestCode.GET_BROKER_RUNTIME_INFO).body)["table"]
        assert (table["brokerName"], table["brokerId"]) == ("broker-a", "0")
        assert table["brokerClusterName"] == "DefaultCluster"
        return table["storeState"], table["storeStateReason"]

    put(client, 1)
    assert state() == ("ok", "")
    monkeypatch.setattr(client.broker.disk_guard, "is_full", lambda: True)
    word, why = state()
    assert word == "full"
    assert why.startswith("more than diskMaxUsedSpaceRatio is used: CL: ")
    monkeypatch.undo()
    client.store.fail(OSError("the disk is gone"))
    assert state() == ("failed", "the disk is gone")


def test_nobody_follows(client: Sender) -> None:
    put(client, 1)
    found = json.loads(ask(client, RequestCode.GET_BROKER_HA_STATUS).body)
    assert (found["master"], found["haConnectionInfo"], found["masterCommitLogMaxOffset"]) == (
        True,
        [],
        client.store.max_phy_offset,
    )


def test_what_was_counted(client: Sender) -> None:
    fields = {"statsName": "TOPIC_PUT_NUMS", "statsKey": "t"}
    answer = ask(client, RequestCode.VIEW_BROKER_STATS_DATA, **fields)
    assert (answer.code, answer.remark) == (1, "The stats <TOPIC_PUT_NUMS> <t> not exist")
    client.broker.stats.topic_put("t", 20, 1)
    client.loop.advance(10_000)
    answer = ask(client, RequestCode.VIEW_BROKER_STATS_DATA, **fields)
    assert json.loads(answer.body)["statsMinute"] == {"avgpt": 20.0, "sum": 20, "tps": 2.0}


# ---- tables -----------------------------------------------------------------------------------------


def test_tables(client: Sender) -> None:
    client.broker.offsets.commit("g", "t", 0, 5)
    body = ask(client, RequestCode.GET_ALL_CONSUMER_OFFSET).body
    assert json.loads(body)["offsetTable"] == {"t@g": {"0": 5}}
    assert json.loads(ask(client, RequestCode.GET_ALL_DELAY_OFFSET).body)["offsetTable"] == {}
    body = ask(client, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE).body
    assert json.loads(body) == {"messageRequestModeMap": {}}
    listed = json.loads(ask(client, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER).body)[
        "topicList"
    ]
    assert {"TBW102", "DefaultCluster", "broker-a", "SCHEDULE_TOPIC_XXXX"} <= set(listed)


def test_who_consumes_a_topic(client: Sender) -> None:
    client.broker.offsets.commit("read", "t", 0, 5)
    client.broker.offsets.commit("both", "t", 0, 5)
    join(client, "both")
    join(client, "new")
    body = ask(client, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, topic="t").body
    assert sorted(json.loads(body)["groupList"]) == ["both", "new", "read"]


# ---- work in the background -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code", [RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, RequestCode.CLEAN_UNUSED_TOPIC]
)
def test_queues_without_messages_are_deleted(client: Sender, code: RequestCode) -> None:
    put(client, 1)
    assert ask(client, code).code == ResponseCode.SUCCESS
    assert client.store.max_offset("t", 0) == 1  # its message is in the log


def test_work_that_fails_is_answered(client: Sender) -> None:
    def fails() -> list[tuple[str, int]]:
        raise OSError(5, "the disk is gone")

    client.store.clean_expired_consume_queues = fails  # type: ignore[method-assign]
    answer = ask(client, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "the disk is gone" in str(answer.remark)


def test_a_flood_of_work_is_refused(client: Sender) -> None:
    """Each request that waits for the disk holds memory: a client that sends thousands is told to come again."""
    for opaque in range(MOST_WAITING + 1):
        client.start(RemotingCommand(RequestCode.GET_BROKER_RUNTIME_INFO, opaque=opaque))
    assert [one.code for one in client.channel.sent] == [ResponseCode.SYSTEM_BUSY]
    assert client.channel.sent[0].opaque == MOST_WAITING
    done: Callable[[], bool] = lambda: len(client.channel.sent) == MOST_WAITING + 1  # noqa: E731
    client.loop.run_until(done)
    assert ask(client, RequestCode.GET_BROKER_RUNTIME_INFO).code == ResponseCode.SUCCESS
