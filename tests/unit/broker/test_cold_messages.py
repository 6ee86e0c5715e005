"""A broker whose messages are in no cache: other threads than the loop's wait for the disk, and the answers are the same."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.broker import FakeChannel
from support.sends import Sender, send
from support.served_broker import ServedBroker, tags_of
from support.transactions import COMMIT, Transacting, end, end_asked

from rmqcore.codec import decode
from rmqcore.engine.store.store import MessageStore
from rmqcore.remoting.bodies.heartbeat import SQL92
from rmqcore.remoting.bodies.subscription_groups import SubscriptionGroupConfig
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.request_fields import Value, encode_fields
from rmqcore.vocabulary.topics import TRANS_HALF_TOPIC

HELD = 6  # SUSPEND and SUBSCRIPTION
CHECK_MS = 30_000


class Cold:
    """A store whose looks say that memory holds nothing, and what was waited for in which thread."""

    def __init__(self, store: MessageStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reads: list[str] = []
        self.threads: set[int] = set()
        monkeypatch.setattr(store, "get_warm", lambda *_, **__: None)
        monkeypatch.setattr(store, "is_warm_at", lambda _: False)
        for name in ("read_in", "read_in_at", "read_in_query"):
            monkeypatch.setattr(store, name, self._noted(name, getattr(store, name)))

    def _noted(self, name: str, read: Callable[..., object]) -> Callable[..., object]:
        def noted(*asked: Any, **more: Any) -> object:
            self.reads.append(name)
            self.threads.add(threading.get_ident())
            return read(*asked, **more)

        return noted

    def were_elsewhere(self, *names: str) -> None:
        """Check what was waited for, and that the loop did not."""
        assert self.reads == list(names)
        assert threading.get_ident() not in self.threads
        self.reads.clear()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedBroker]:
    with ServedBroker(tmp_path, settings={"enable_property_filter": True}) as made:
        made.topic("t")
        yield made


@pytest.fixture
def cold(served: ServedBroker, monkeypatch: pytest.MonkeyPatch) -> Cold:
    return Cold(served.store, monkeypatch)


def pull(served: ServedBroker, queue_offset: int = 0, **more: Any) -> RemotingCommand:
    return served.later(RequestCode.PULL_MESSAGE, served.pull_fields("t", queue_offset, **more))


def looks(served: ServedBroker, code: RequestCode, **fields: Any) -> RemotingCommand:
    return served.later(code, {"topic": "t", "queueId": 0, **fields})


# ---- pulls


def test_a_pull(served: ServedBroker, cold: Cold) -> None:
    served.put("t", "A", "B", "A")
    response = pull(served)
    cold.were_elsewhere("read_in")
    assert (response.code, tags_of(response)) == (ResponseCode.SUCCESS, ["A", "B", "A"])
    assert response.ext_fields["nextBeginOffset"] == "3"
    assert tags_of(pull(served, subscription="B")) == ["B"]
    cold.were_elsewhere("read_in")
    assert pull(served, 9).code == ResponseCode.PULL_OFFSET_MOVED


def test_the_offsets_of_a_group_are_committed_once(served: ServedBroker, cold: Cold) -> None:
    served.put("t", "A")
    pull(served, sysFlag=5, commitOffset=1)
    cold.were_elsewhere("read_in")
    assert served.broker.offsets.query("g", "t", 0) == 1
    assert served.broker.stats.item("BROKER_GET_NUMS", "DefaultCluster") is not None


def test_an_offset_is_committed_before_the_disk_is_waited_for(
    served: ServedBroker, cold: Cold, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a consumer commits meanwhile is newer than what its pull has brought."""
    go_on = threading.Event()
    served.broker.groups.update(SubscriptionGroupConfig("g"))
    monkeypatch.setattr(served.store, "read_in", lambda *_, **__: go_on.wait(60))
    served.put("t", "A", "B")
    fields = served.pull_fields("t", 1, sysFlag=5, commitOffset=1)
    assert served.ask(RequestCode.PULL_MESSAGE, fields) is None
    assert served.broker.offsets.query("g", "t", 0) == 1
    newer: dict[str, Value] = {"consumerGroup": "g", "topic": "t", "queueId": 0, "commitOffset": 2}
    served.answer(RequestCode.UPDATE_CONSUMER_OFFSET, newer)
    go_on.set()
    served.loop.run_until(lambda: bool(served.channel.sent))
    assert tags_of(served.channel.sent[0]) == ["B"]
    assert served.broker.offsets.query("g", "t", 0) == 2


def test_nothing_goes_on_behind_the_end(
    served: ServedBroker, cold: Cold, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that waited for the disk would be stored when the marks of ended transactions are written already."""
    go_on, begun = threading.Event(), threading.Event()

    def read_in(*_: object, **__: object) -> None:
        begun.set()
        go_on.wait(60)

    monkeypatch.setattr(served.store, "read_in", read_in)
    served.put("t", "A")
    assert served.pull() is None
    assert begun.wait(60)
    threading.Timer(0.05, go_on.set).start()
    served.broker.stop()
    served.loop.run()
    assert served.channel.sent == []


def test_an_expression_goes_on_where_memory_ends(served: ServedBroker, cold: Cold) -> None:
    """What was read in is looked at, and what lies behind it is left to the next pull."""
    served.put("t", *["A"] * 40, properties={"n": "1"})
    served.put("t", "B", properties={"n": "2"})
    asked: dict[str, Any] = {"subscription": "n = 2", "expressionType": SQL92}
    response = pull(served, **asked)
    cold.were_elsewhere("read_in")
    assert response.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert response.ext_fields["nextBeginOffset"] == "32"
    response = pull(served, 32, **asked)
    assert (tags_of(response), response.ext_fields["nextBeginOffset"]) == (["B"], "41")


def test_a_pull_that_finds_nothing_is_held_and_woken(served: ServedBroker, cold: Cold) -> None:
    served.put("t", "A")
    assert served.pull(queue_offset=1, sysFlag=HELD) is None
    served.loop.run_until(lambda: len(served.broker.held_pulls) == 1)
    cold.were_elsewhere("read_in")
    served.put("t", "B")
    served.loop.run_until(lambda: bool(served.channel.sent))
    cold.were_elsewhere("read_in")
    (response,) = served.channel.sent
    assert (response.code, tags_of(response)) == (ResponseCode.SUCCESS, ["B"])
    assert len(served.broker.held_pulls) == 0


def test_a_client_that_is_gone_is_not_answered_and_holds_nothing(
    served: ServedBroker, cold: Cold
) -> None:
    """Its pull came back from the disk behind its end, and was held for it, by nobody, until the time was over."""
    served.put("t", "A")
    gone = FakeChannel()
    assert served.pull(queue_offset=1, sysFlag=HELD, channel=gone) is None
    gone.close()
    served.broker.channel_closed(gone)
    pull(served)  # a later one: four threads read, and this says that they have
    served.loop.run_until(lambda: cold.reads == ["read_in"] * 2)
    served.loop.advance(1)
    assert gone.sent == []
    assert len(served.broker.held_pulls) == 0


def test_a_read_that_fails_is_answered(
    served: ServedBroker, cold: Cold, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    served.put("t", "A")
    monkeypatch.setattr(served.store, "read_in", fail)
    assert tags_of(pull(served)) == ["A"]  # it was well again
    monkeypatch.setattr(served.store, "get", fail)
    response = pull(served)
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert "Input/output error" in str(response.remark)


# ---- other requests


def test_messages_and_places_that_are_asked_for(served: ServedBroker, cold: Cold) -> None:
    served.put("t", "A", "B", keys="k")
    where = served.store.phy_offset_of("t", 0, 1)
    response = served.later(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": where or 0})
    cold.were_elsewhere("read_in_at")
    assert tags_of(response) == ["B"]
    times = {"maxNum": 9, "beginTimestamp": 0, "endTimestamp": 1 << 62}
    response = served.later(RequestCode.QUERY_MESSAGE, {"topic": "t", "key": "k", **times})
    cold.were_elsewhere("read_in_query")
    assert tags_of(response) == ["A", "B"]
    response = looks(served, RequestCode.GET_EARLIEST_MSG_STORETIME)
    cold.were_elsewhere("read_in_at")
    assert int(response.ext_fields["timestamp"]) > 0
    looks(served, RequestCode.QUERY_CONSUME_QUEUE, index=0, count=2)
    cold.were_elsewhere("read_in")


def test_a_message_that_is_sent_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sender = Sender(tmp_path)
    sender.ask(send("orders", b"body"))
    (first,) = sender.messages("orders")
    cold = Cold(sender.store, monkeypatch)
    code = RequestCode.CONSUMER_SEND_MSG_BACK
    fields: dict[str, Value] = {
        "offset": first.phy_offset,
        "group": "g",
        "delayLevel": 0,
        "originTopic": "orders",
    }
    request = RemotingCommand(code, version=513, ext_fields=encode_fields(code, fields))
    assert sender.ask(request).code == ResponseCode.SUCCESS
    cold.were_elsewhere("read_in_at")
    (back,) = sender.messages("SCHEDULE_TOPIC_XXXX", 2)
    assert back.body == b"body"
    sender.close()


# ---- what the broker does by itself


def test_delayed_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A level that waits for the disk is asked for by nobody else, and goes on when it is there."""
    sender = Sender(tmp_path)
    sender.broker.schedule.start()
    cold = Cold(sender.store, monkeypatch)
    for number in range(3):
        sender.ask(send("orders", b"%d" % number, {"DELAY": "1"}))
    assert sender.store.wait_dispatched(60)
    sender.loop.run()
    assert len(cold.reads) <= 1
    for _ in range(3):
        sender.loop.advance(1_000)
        _let_it_read(sender)
    assert [message.body for message in sender.messages("orders")] == [b"0", b"1", b"2"]
    assert set(cold.reads) == {"read_in"}
    assert threading.get_ident() not in cold.threads
    sender.close()


def test_halves_of_transactions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Transacting(tmp_path)
    cold = Cold(broker.store, monkeypatch)
    ended = broker.half("ended")
    broker.half("asked")
    assert broker.ask(end(ended, COMMIT)).code == ResponseCode.SUCCESS
    cold.were_elsewhere("read_in_at")
    broker.dispatch()
    questions = []
    for _ in range(3):
        broker.advance(CHECK_MS)
        _let_it_read(broker)
        questions += broker.questions()
    question = questions[0]
    assert question.ext_fields["topic"] == TRANS_HALF_TOPIC
    assert decode(question.body).body == b"asked"
    cold.reads.clear()
    broker.start(end_asked(question, COMMIT))
    _let_it_read(broker)
    broker.dispatch()
    assert broker.bodies() == [b"ended", b"asked"]
    assert threading.get_ident() not in cold.threads
    broker.close()


def _let_it_read(sender: Sender) -> None:
    """Go on until nothing more is asked of the disk."""
    readers = sender.broker.readers
    while readers._waiting:
        sender.loop.run_until(lambda: not readers._waiting)
        sender.loop.advance(0)
