"""What requests may make a broker keep: tables that grew with what a client sent, and work of requests that nobody waits for."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.broker import FakeChannel, FakeLoop, ample
from support.eventually import eventually
from support.served_broker import ServedBroker

from rmqcore.broker.channel import Channel
from rmqcore.broker.handlers import clients, in_background, pull_checks
from rmqcore.broker.requests import handle
from rmqcore.broker.state.client_memory import ClientMemory, ClientMemoryError
from rmqcore.broker.state.clients import ClientChannelInfo
from rmqcore.broker.state.producers import Producers
from rmqcore.broker.state.queue_locks import LOCK_MAX_LIVE_TIME_MS, QueueLocks
from rmqcore.broker.worker import MOST_WAITING
from rmqcore.remoting.bodies.heartbeat import SubscriptionData, parse_heartbeat
from rmqcore.remoting.bodies.json_object import encode_json
from rmqcore.remoting.bodies.queue_locks import LockBatch, MessageQueue, encode_lock_batch
from rmqcore.remoting.bodies.subscription_groups import SubscriptionGroupConfig
from rmqcore.remoting.bodies.topic_configs import TopicConfig
from rmqcore.remoting.codes import LanguageCode, RequestCode, ResponseCode
from rmqcore.remoting.command import ONEWAY_FLAG, RemotingCommand
from rmqcore.remoting.request_fields import Value, encode_fields

SUSPEND, SUBSCRIPTION = 2, 4


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedBroker]:
    with ServedBroker(tmp_path) as made:
        made.topic("t")
        yield made


def test_a_one_way_pull_is_never_held(served: ServedBroker) -> None:
    """100,000 held pulls of one connection: the limit of unanswered requests counts those alone that want an answer."""
    fields: dict[str, Value] = {
        "consumerGroup": "g",
        "topic": "t",
        "queueId": 0,
        "queueOffset": 0,
        "maxMsgNums": 32,
        "sysFlag": SUSPEND | SUBSCRIPTION,
        "commitOffset": 0,
        "suspendTimeoutMillis": 86_400_000,
        "subscription": "*",
        "subVersion": 0,
    }
    code = RequestCode.PULL_MESSAGE
    pull = RemotingCommand(code, flag=ONEWAY_FLAG, ext_fields=encode_fields(code, fields))
    assert handle(served.broker, pull, served.channel) is None
    assert len(served.broker.held_pulls) == 0


def test_a_one_way_question_gives_the_readers_no_work(
    served: ServedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[object] = []
    monkeypatch.setattr(served.broker.readers, "run", lambda *work: begun.append(work))
    code = RequestCode.QUERY_CONSUMER_OFFSET
    fields = encode_fields(code, {"consumerGroup": "g", "topic": "t", "queueId": 0})
    for flag in (ONEWAY_FLAG, 0):
        request = RemotingCommand(code, flag=flag, ext_fields=fields)
        assert handle(served.broker, request, served.channel) is None
    assert len(begun) == 1


def test_a_long_heartbeat_is_parsed_in_another_thread(
    served: ServedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_background, "LONG_BODY_BYTES", 100)
    body = encode_json(
        {
            "clientID": "c" * 100,
            "consumerDataSet": [],
            "producerDataSet": [{"groupName": "p"}],
        }
    )
    assert parse_heartbeat("x", body).producer_groups
    request = RemotingCommand(RequestCode.HEART_BEAT, body=body)
    assert handle(served.broker, request, served.channel) is None
    assert not served.broker.producers.channels("p")

    def answered() -> bool:
        served.loop.run()
        return bool(served.channel.sent)

    eventually(answered)
    assert served.channel.sent[0].code == ResponseCode.SUCCESS
    assert served.broker.producers.channels("p") == [served.channel]


def test_long_heartbeats_of_many_clients_wait_for_the_thread(
    served: ServedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The 65th was refused, and its client sent it again at once; its connection is not read while it waits."""
    monkeypatch.setattr(in_background, "LONG_BODY_BYTES", 100)
    go_on = threading.Event()
    served.broker.parser.run(go_on.wait, lambda _: None)
    body = encode_json({"clientID": "c" * 100})
    channels = [FakeChannel() for _ in range(2 * MOST_WAITING)]
    try:
        for channel in channels:
            request = RemotingCommand(RequestCode.HEART_BEAT, body=body)
            assert handle(served.broker, request, channel) is None
    finally:
        go_on.set()
    served.loop.run_until(lambda: all(channel.sent for channel in channels))
    assert {channel.sent[0].code for channel in channels} == {ResponseCode.SUCCESS}


def test_a_long_heartbeat_of_a_client_that_left_is_not_parsed(
    served: ServedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[bytes] = []
    monkeypatch.setattr(in_background, "LONG_BODY_BYTES", 100)
    monkeypatch.setattr(clients, "parse_heartbeat", lambda _, body: parsed.append(body))
    go_on = threading.Event()
    served.broker.parser.run(go_on.wait, lambda _: None)
    request = RemotingCommand(RequestCode.HEART_BEAT, body=bytes(200))
    assert handle(served.broker, request, served.channel) is None
    served.channel.close()
    go_on.set()
    served.loop.run_until(lambda: not served.broker.parser.waiting)
    assert not parsed
    assert not served.channel.sent


def test_groups_have_a_bound(served: ServedBroker) -> None:
    table = served.broker.groups
    most = len(table.table().groups) + 1
    served.broker.change_settings(replace(served.broker.settings, max_subscription_groups=100))
    for number in range(most, 100):
        assert table.find(f"g{number}") is not None
    assert table.find("first") is not None
    assert table.find("second") is None
    table.update(SubscriptionGroupConfig("first", consume_enable=False))
    with pytest.raises(ValueError, match="maxSubscriptionGroups"):
        table.update(SubscriptionGroupConfig("second"))


def test_topics_have_a_bound(served: ServedBroker) -> None:
    table = served.broker.topics
    served.broker.change_settings(replace(served.broker.settings, max_topics=100))
    table.update_all([TopicConfig(f"t{number}") for number in range(100 - len(table.known()))])
    got: list[TopicConfig | None] = []
    table.create_for_send_back("new", 1, 6, 0, got.append)
    assert got == [None]
    table.update(TopicConfig("t1", 8, 8))
    with pytest.raises(ValueError, match="maxTopics"):
        table.update(TopicConfig("new"))


def member(channel: FakeChannel, client_id: str = "c") -> ClientChannelInfo:
    return ClientChannelInfo(channel, client_id, LanguageCode.JAVA, 500, 0)


def test_producer_groups_of_a_connection_have_a_bound() -> None:
    memory = ClientMemory(5_000, 1 << 40, Channel.close)
    table, one, other = Producers(120_000, memory), FakeChannel("1"), FakeChannel("2")

    def fill() -> None:
        for number in range(100):
            table.register(f"g{number}", member(one))

    with pytest.raises(ClientMemoryError, match="maxClientBytesPerConnection"):
        fill()
    kept = len(table.groups())
    assert 3 <= kept <= 5
    with pytest.raises(ClientMemoryError):
        table.register("x" * 5_000, member(other))
    with pytest.raises(ClientMemoryError):
        table.register("g0", member(other, "x" * 5_000))
    table.register("g0", member(one))
    table.register(f"g{kept}", member(other))
    assert set(table.groups()) == {f"g{number}" for number in range(kept + 1)}
    table.channel_closed(one)
    assert set(table.groups()) == {f"g{kept}"}
    table.channel_closed(other)
    assert not table._of_channel
    assert memory.total == 0


def test_a_client_that_changes_its_id_leaves_none_behind() -> None:
    """Each heartbeat with another id of the client left an entry for ever."""
    table, channel = Producers(120_000, ample()), FakeChannel()
    for number in range(10):
        table.register("g", member(channel, f"id {number}"))
    assert table.find_channel("id 9") is channel
    assert table.find_channel("id 8") is None
    table.channel_closed(channel)
    assert not table._by_client_id


def test_the_connection_that_holds_most_locks_loses_them(caplog: pytest.LogCaptureFixture) -> None:
    """One client took all places for a minute, and no other group could consume in order."""
    loop, gone = FakeLoop(), list[Channel]()
    locks = QueueLocks(loop.clock, 10, gone.append)
    greedy, quiet, late = FakeChannel("1"), FakeChannel("2"), FakeChannel("3")
    queues = [MessageQueue("t", "b", number) for number in range(12)]
    assert locks.try_lock_batch("quiet", queues[:3], "q", quiet) == queues[:3]
    assert locks.try_lock_batch("g", queues, "c", greedy) == queues[:7]
    assert locks.try_lock_batch("g", queues[:7], "c", greedy) == queues[:7], "they are renewed"
    assert locks.try_lock_batch("other", queues, "c", greedy) == [], "it holds most itself"
    assert gone == []
    assert locks.try_lock_batch("late", queues[:4], "l", late) == queues[:4]
    assert gone == [greedy]
    assert "1: it holds 7 locks of queues" in caplog.text
    assert locks.try_lock_batch("g", queues[:3], "other", late) == queues[:3], "they are free"
    assert locks.try_lock_batch("quiet", queues[:1], "other", late) == [], "not those of others"


def test_locks_of_a_connection_that_left_count_for_it() -> None:
    loop, gone = FakeLoop(), list[Channel]()
    locks = QueueLocks(loop.clock, 4, gone.append)
    first, second = FakeChannel("1"), FakeChannel("2")
    queues = [MessageQueue("t", "b", number) for number in range(5)]
    assert locks.try_lock_batch("g", queues, "c", first) == queues[:4]
    first.close()
    assert locks.try_lock_batch("g", queues[:4], "c", second) == queues[:4], "its client came back"
    assert locks.try_lock_batch("h", queues[:1], "d", second) == []
    locks.unlock_batch("g", queues[:1], "c")
    assert locks.try_lock_batch("h", queues[:2], "d", second) == queues[:1]
    loop.advance(LOCK_MAX_LIVE_TIME_MS + 1)
    locks.drop_expired()
    assert locks.try_lock_batch("g", queues, "e", first) == queues[:4]
    assert gone == []


def test_a_flood_of_locks_ends_with_its_connection(tmp_path: Path) -> None:
    with ServedBroker(tmp_path, settings={"max_queue_locks": 100}) as served:
        greedy = FakeChannel("9.9.9.9:1")
        queues = tuple(MessageQueue("t", "b", number) for number in range(100))
        body = encode_lock_batch(LockBatch("flood", "c", queues))
        served.answer(RequestCode.LOCK_BATCH_MQ, body=body, channel=greedy)
        body = encode_lock_batch(LockBatch("g", "d", queues[:2]))
        answer = served.answer(RequestCode.LOCK_BATCH_MQ, body=body)
        assert len(json.loads(answer.body)["lockOKMQSet"]) == 2
        assert greedy.closed
        assert not served.channel.closed


def test_filters_of_long_expressions_are_not_kept() -> None:
    """A thousand expressions of 60 KB took 0.9 GB."""
    pull_checks._filter_of.cache_clear()
    for number in range(5):
        long = f"{number} || " + "x" * pull_checks.MOST_CACHED
        assert pull_checks._tag_filter(SubscriptionData("t", long)) is not None
        assert pull_checks._tag_filter(SubscriptionData("t", "short")) is not None
    assert pull_checks._filter_of.cache_info().currsize == 1
