"""What requests may make a broker keep: tables that grew with what a client sent, and work of requests that nobody waits for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.broker import FakeChannel, FakeLoop, ample
from support.eventually import eventually
from support.served_broker import ServedBroker

from rmqcore.broker.channel import Channel
from rmqcore.broker.handlers import in_background, pull_checks
from rmqcore.broker.requests import handle
from rmqcore.broker.state import groups, queue_locks, topics
from rmqcore.broker.state.client_memory import ClientMemory, ClientMemoryError
from rmqcore.broker.state.clients import ClientChannelInfo
from rmqcore.broker.state.producers import Producers
from rmqcore.broker.state.queue_locks import LOCK_MAX_LIVE_TIME_MS, QueueLocks
from rmqcore.remoting.bodies.heartbeat import SubscriptionData, parse_heartbeat
from rmqcore.remoting.bodies.json_object import encode_json
from rmqcore.remoting.bodies.queue_locks import MessageQueue
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


def test_groups_have_a_bound(served: ServedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    table = served.broker.groups
    monkeypatch.setattr(groups, "MOST_GROUPS", len(table.table().groups) + 1)
    assert table.find("first") is not None
    assert table.find("second") is None
    table.update(SubscriptionGroupConfig("first", consume_enable=False))
    with pytest.raises(ValueError, match="groups, the limit is"):
        table.update(SubscriptionGroupConfig("second"))


def test_topics_have_a_bound(served: ServedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    table = served.broker.topics
    monkeypatch.setattr(topics, "MOST_TOPICS", len(table.known()))
    got: list[TopicConfig | None] = []
    table.create_for_send_back("new", 1, 6, 0, got.append)
    assert got == [None]
    table.update(TopicConfig("t", 8, 8))
    with pytest.raises(ValueError, match="topics, the limit is"):
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


def test_locks_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_locks, "MOST_LOCKS", 3)
    loop = FakeLoop()
    locks = QueueLocks(loop.clock)
    queues = [MessageQueue("t", "b", number) for number in range(5)]
    assert locks.try_lock_batch("g", queues, "c") == queues[:3]
    assert locks.try_lock_batch("g", queues, "c") == queues[:3], "they are renewed"
    assert locks.try_lock_batch("h", queues, "c") == []
    locks.unlock_batch("g", queues, "c")
    assert locks.try_lock_batch("h", queues, "c") == queues[:3]
    loop.advance(LOCK_MAX_LIVE_TIME_MS + 1)
    locks.drop_expired()
    assert locks.try_lock_batch("g", queues[:2], "c") == queues[:2]


def test_filters_of_long_expressions_are_not_kept() -> None:
    """A thousand expressions of 60 KB took 0.9 GB."""
    pull_checks._filter_of.cache_clear()
    for number in range(5):
        long = f"{number} || " + "x" * pull_checks.MOST_CACHED
        assert pull_checks._tag_filter(SubscriptionData("t", long)) is not None
        assert pull_checks._tag_filter(SubscriptionData("t", "short")) is not None
    assert pull_checks._filter_of.cache_info().currsize == 1
