"""Sends: what is checked, answered and stored. `tests/interop/test_sends.py` compares it with the real broker."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.broker import FakeLoop
from support.sends import ADDRESS, Sender, image, send

from rmqcore._native.put.put_result import PutResult
from rmqcore.broker.put_message import store_message
from rmqcore.broker.state.clients import ClientChannelInfo
from rmqcore.broker.state.uniq_keys import UniqKeys
from rmqcore.codec.message import Message
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.remoting.bodies.queue_locks import MessageQueue
from rmqcore.remoting.bodies.topic_configs import TopicConfig
from rmqcore.remoting.codes import LanguageCode, RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.vocabulary.status import PutMessageStatus

MakeSender = Callable[..., Sender]
BATCH = RequestCode.SEND_BATCH_MESSAGE
COMMON = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
TWO = image([(b"one", {"TAGS": "a", "UNIQ_KEY": "B1"}), (b"two", {"UNIQ_KEY": "B2"})])


@pytest.fixture
def make(tmp_path: Path) -> Iterator[MakeSender]:
    senders: list[Sender] = []

    def make_sender(**settings: Any) -> Sender:
        senders.append(Sender(tmp_path / str(len(senders)), **settings))
        return senders[-1]

    yield make_sender
    for sender in senders:
        sender.close()


@pytest.fixture
def sender(make: MakeSender) -> Sender:
    return make()


def answer(response: RemotingCommand) -> tuple[int, str | None]:
    return response.code, response.remark


# ---- one message


def test_a_message_is_stored_as_it_came(sender: Sender) -> None:
    properties = {"TAGS": "t", "odd": "ä\x01", "POP_CK": "mine"}
    response = sender.ask(send("orders", b"\x00raw", properties, flag=9, queueId=2, sysFlag=1))
    (stored,) = sender.messages("orders", 2)
    assert (stored.body, stored.flag, stored.sys_flag, stored.queue_id) == (b"\x00raw", 9, 1, 2)
    assert stored.properties == {
        "UNIQ_KEY": "KEY",
        "WAIT": "true",
        "TAGS": "t",
        "odd": "ä\x01",
        **COMMON,
        "CLUSTER": "DefaultCluster",
    }
    assert list(stored.properties)[-1] == "CLUSTER"
    assert (stored.born_host, stored.store_host) == (sender.channel.peer, ADDRESS)
    assert (stored.born_timestamp_ms, stored.reconsume_times) == (1_699_999_999_000, 0)
    assert (response.code, response.opaque, response.remark) == (0, 5, None)
    assert response.ext_fields == {
        **COMMON,
        "msgId": stored.msg_id,
        "queueId": "2",
        "queueOffset": "0",
        "transactionId": "KEY",
    }


def test_a_missing_key_is_made(sender: Sender) -> None:
    keys = [
        sender.ask(send(properties={"UNIQ_KEY": ""})).ext_fields["transactionId"] for _ in range(3)
    ]
    assert len(set(keys)) == 3
    assert all(re.fullmatch("7F000001[0-9A-F]{24}", key) for key in keys)
    assert [m.uniq_key for m in sender.messages("orders")] == keys


def test_a_negative_queue_is_any_of_those_that_there_are(sender: Sender) -> None:
    told = {sender.ask(send(queueId=-1)).ext_fields["queueId"] for _ in range(200)}
    assert told == {"0", "1", "2", "3"}


def test_a_oneway_send_is_stored_and_not_answered(sender: Sender) -> None:
    sender.ask(send())
    sender.start(send(oneway=True))
    assert len(sender.messages("orders")) == 2
    assert len(sender.channel.sent) == 1


def test_the_first_send_makes_its_topic_and_is_answered_when_the_file_is_written(
    sender: Sender,
) -> None:
    sender.start(send("new"))
    assert (sender.channel.sent, sender.messages("new")) == ([], [])
    sender.loop.run_until(lambda: bool(sender.channel.sent))
    assert (sender.channel.sent[0].code, len(sender.messages("new"))) == (0, 1)
    topic = sender.broker.topics.get("new")
    assert topic is not None
    assert (topic.write_queue_nums, topic.perm) == (4, 6)


@pytest.mark.parametrize(
    ("request_", "code", "remark"),
    [
        (send("bad name"), ResponseCode.INVALID_PARAMETER, "The specified topic: bad name, contains"),
        (send(""), ResponseCode.INVALID_PARAMETER, "The specified topic is blank."),
        (send("x" * 128), ResponseCode.INVALID_PARAMETER, "The specified topic: x"),
        (send("SCHEDULE_TOPIC_XXXX"), ResponseCode.NO_PERMISSION, "Sending message to topic[SCHED"),
        (send("u", defaultTopic="no"), ResponseCode.TOPIC_NOT_EXIST, "topic[u] not exist, apply"),
        (send(queueId=4), ResponseCode.INVALID_PARAMETER, "request queueId[4] is illegal, TopicC"),
        (send(body=b""), ResponseCode.SYSTEM_ERROR, "the message has no body"),
        (send(properties={"DELAY": "x"}), ResponseCode.SYSTEM_ERROR, "SEND_MESSAGE_V2: properties"),
        (send(body=b"x" * 4097), ResponseCode.MESSAGE_ILLEGAL, "the message is illegal, maybe"),
        (send(properties={"p": "x" * 33_000}), ResponseCode.MESSAGE_ILLEGAL, "the message is illeg"),
        (send(properties={"TIMER_DELAY_MS": "1"}), ResponseCode.SYSTEM_ERROR, "accurate timer mess"),
        (send(code=BATCH, batch=True, body=TWO[:-1]), ResponseCode.SYSTEM_ERROR, "SEND_BATCH_MESSA"),
        (send(code=BATCH, batch=True, body=TWO[:9]), ResponseCode.SYSTEM_ERROR, "SEND_BATCH_MESSAGE"),
        (send("%RETRY%g", TWO, code=BATCH, batch=True), ResponseCode.MESSAGE_ILLEGAL, "batch request "),
        (send(code=BATCH, batch=True, body=b""), ResponseCode.SYSTEM_ERROR, "the batch has no mess"),
    ],
)  # fmt: skip
def test_what_is_refused(
    make: MakeSender, request_: RemotingCommand, code: ResponseCode, remark: str
) -> None:
    sender = make(store={"max_message_size": 4096})
    sender.ask(send())
    response = sender.ask(request_)
    assert response.code == code
    assert (response.remark or "").startswith(remark)
    assert len(sender.messages("orders")) == 1
    assert sender.store.max_phy_offset == sender.messages("orders")[0].msg_size


def test_a_broker_without_write_permission_takes_no_ordered_topic(make: MakeSender) -> None:
    sender = make(broker_permission=4)
    assert sender.ask(send()).code == 0  # as in Java: only topics with an order
    sender.broker.topics.update(
        type(sender.broker.topics.get("orders"))("ordered", order=True)  # type: ignore[misc]
    )
    forbidden = "the broker[127.0.0.1] sending message is forbidden"
    assert answer(sender.ask(send("ordered"))) == (ResponseCode.NO_PERMISSION, forbidden)


def test_a_slave_takes_nothing(make: MakeSender) -> None:
    sender = make(store={"broker_role": "SLAVE"})
    for request in (send(), send(code=BATCH, batch=True, body=TWO)):
        response = sender.ask(request)
        assert response.code == ResponseCode.SYSTEM_BUSY
        assert response.remark == "[REJECTREQUEST]system busy, start flow control for a while"


def test_broker_and_store_agree_on_whether_a_slave_takes_puts(make: MakeSender) -> None:
    for duplicates, status in (
        (False, PutMessageStatus.SERVICE_NOT_AVAILABLE),
        (True, PutMessageStatus.PUT_OK),
    ):
        sender = make(store={"broker_role": "SLAVE", "duplication_enable": duplicates})
        found: list[PutResult] = []
        store_message(sender.broker, Message("orders", b"body"), found.append)
        assert [result.status for result in found] == [status]
        assert sender.broker.store.put(Message("orders", b"body")).status == status


def test_a_full_disk_refuses_and_tells(
    make: MakeSender, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sender = make(store={"disk_max_used_space_ratio": 80})
    monkeypatch.setattr("rmqcore.broker.state.disk_guard.used_percent", lambda folder: 80)
    assert sender.ask(send()).code == 0
    monkeypatch.setattr("rmqcore.broker.state.disk_guard.used_percent", lambda folder: 81)
    assert sender.ask(send()).code == 0  # it is asked once a second
    sender.loop.advance(1_000)
    for request in (send(), send(body=TWO, batch=True)):
        response = sender.ask(request)
        assert response.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "the broker's disk is full [CL:  0.81 CQ:  0.81 INDEX:  0.81]" in (
            response.remark or ""
        )
    monkeypatch.setattr("rmqcore.broker.state.disk_guard.used_percent", lambda folder: 50)
    sender.loop.advance(1_000)
    assert sender.ask(send()).code == 0
    full, room = (record.getMessage() for record in caplog.records)
    assert "is 81 % full, more than diskMaxUsedSpaceRatio (80): messages are refused" in full
    assert "is 50 % full, no more than" in room


def test_a_store_that_failed_answers_that_it_is_not_available(sender: Sender) -> None:
    sender.ask(send())
    sender.store.fail(OSError("the disk is gone"))
    assert sender.ask(send()).code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert sender.ask(send(body=TWO, batch=True)).code == ResponseCode.SERVICE_NOT_AVAILABLE


@pytest.mark.parametrize("batch", [False, True])
def test_a_host_that_an_old_release_cannot_read(make: MakeSender, batch: bool) -> None:
    """RocketMQ 4.5.2 cuts its log at the first record with an IPv6 host; a client that connects by IPv6 sends them."""
    sender = make(store={"for_version": "4.5"})
    sender.channel.peer = "[2001:db8::7]:9"
    body = TWO if batch else b"body"
    response = sender.ask(send("orders", body, batch=batch))
    assert response.code == ResponseCode.MESSAGE_ILLEGAL
    assert response.remark is not None
    assert "forVersion is 4.5: this release cannot read IPv6 hosts and topics" in response.remark
    assert sender.messages("orders") == []


@pytest.mark.parametrize("attribute", ["queue.type=BatchCQ", "cleanup.policy=COMPACTION"])
def test_topics_that_are_not_served_take_nothing(sender: Sender, attribute: str) -> None:
    """A single send to a topic of batch queues was stored into an ordinary queue: no Java broker starts on such a store."""
    key, _, value = attribute.partition("=")
    sender.broker.topics._topics["odd"] = TopicConfig("odd", attributes={key: value})
    for request in (send("odd", properties={"KEYS": "k"}), send("odd", TWO, batch=True)):
        response = sender.ask(request)
        assert response.code == ResponseCode.MESSAGE_ILLEGAL
        assert response.remark == f"topic[odd] has {attribute}, which this broker does not support"
    assert sender.messages("odd") == []


def test_a_topic_without_a_queue_to_write_to(sender: Sender) -> None:
    """A send to any of its queues was answered with the words of Python's random numbers."""
    sender.broker.topics._topics["full"] = TopicConfig("full", 4, 0)
    response = sender.ask(send("full", queueId=-1))
    assert answer(response) == (1, "topic[full] has no writable queue")


# ---- retries and dead letters


def test_a_retry_goes_to_its_topic_until_it_was_tried_enough(sender: Sender) -> None:
    sender.broker.groups.find("g")
    tried = sender.ask(send("%RETRY%g", reconsumeTimes=16))
    dead = sender.ask(send("%RETRY%g", reconsumeTimes=17))
    allowed = sender.ask(send("%RETRY%g", reconsumeTimes=17, maxReconsumeTimes=20))
    older = sender.ask(send("%RETRY%g", reconsumeTimes=17, maxReconsumeTimes=20, version=120))
    assert [r.code for r in (tried, dead, allowed, older)] == [0, 0, 0, 0]
    assert [m.reconsume_times for m in sender.messages("%RETRY%g")] == [16, 17]
    letters = sender.messages("%DLQ%g")
    assert [m.properties["DELAY"] for m in letters] == ["-1", "-1"]
    topic = sender.broker.topics.get("%DLQ%g")
    assert topic is not None
    assert (topic.write_queue_nums, topic.perm) == (1, 6)


def test_a_group_that_consumes_in_order_has_no_retries(sender: Sender) -> None:
    queue = MessageQueue("orders", "broker-a", 0)
    sender.broker.queue_locks.try_lock_batch("g", [queue], "client", sender.channel)
    assert sender.ask(send("%RETRY%g")).code == 0
    assert (len(sender.messages("%RETRY%g")), len(sender.messages("%DLQ%g"))) == (0, 1)


def test_a_retry_of_a_group_that_nobody_knows(make: MakeSender) -> None:
    sender = make(auto_create_subscription_group=False)
    code, remark = answer(sender.ask(send("%RETRY%g")))
    assert code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert remark is not None
    assert remark.startswith("subscription group not exist, g \nSee https://")


# ---- batches


def test_a_batch_is_stored_message_by_message(sender: Sender) -> None:
    response = sender.ask(send("many", TWO, {"UNIQ_KEY": "B"}, code=BATCH, batch=True))
    first, second = sender.messages("many")
    assert [first.body, second.body] == [b"one", b"two"]
    assert [first.flag, second.flag] == [3, 3]
    assert first.properties == {"TAGS": "a", "UNIQ_KEY": "B1"}  # nothing of the batch, as in Java
    assert response.ext_fields == {
        **COMMON,
        "msgId": f"{first.msg_id},{second.msg_id}",
        "queueId": "0",
        "queueOffset": "0",
        "transactionId": "B",
    }


def test_a_batch_is_one_by_its_field(sender: Sender) -> None:
    sender.ask(send("many", TWO, batch=True))
    sender.ask(send("many", TWO, code=BATCH, batch=False))
    assert [m.body for m in sender.messages("many")] == [b"one", b"two", TWO]


@pytest.mark.parametrize("changed", [{"sysFlag": 4}, {"properties": {"DELAY": "1"}}])
def test_a_batch_is_no_transaction_and_has_no_delay(sender: Sender, changed: Any) -> None:
    response = sender.ask(send("many", TWO, batch=True, **changed))
    assert response.code == ResponseCode.MESSAGE_ILLEGAL
    assert sender.messages("many") == []


# ---- who waits for the disk


@contextmanager
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """The log's sync waits until it may go on."""
    import threading

    gate = threading.Event()
    flush = CommitLog.flush

    def slow(self: CommitLog, least_pages: int = 0) -> int:
        assert gate.wait(60)
        return flush(self, least_pages)

    with monkeypatch.context() as patch:
        patch.setattr(CommitLog, "flush", slow)
        yield gate.set
        gate.set()


@pytest.mark.parametrize("body", [{}, {"body": TWO, "batch": True}])
def test_under_sync_flush_the_answer_comes_from_the_disk(
    make: MakeSender, monkeypatch: pytest.MonkeyPatch, body: Any
) -> None:
    sender = make(store={"flush_disk_type": "SYNC_FLUSH"})
    sender.ask(send())
    before = len(sender.channel.sent)
    with slow_disk(monkeypatch) as go_on:
        sender.start(send(**body))
        sender.start(send(properties={"WAIT": "false"}))
        assert len(sender.channel.sent) == before + 1  # of the one for which nobody waits
        go_on()
        sender.loop.run_until(lambda: len(sender.channel.sent) == before + 2)
    assert {response.code for response in sender.channel.sent} == {0}
    assert sender.store.flushed_phy_offset > 0


@pytest.mark.parametrize("body", [{}, {"body": TWO, "batch": True}])
def test_a_one_way_send_waits_for_no_disk(
    make: MakeSender, monkeypatch: pytest.MonkeyPatch, body: Any
) -> None:
    """Each kept its body until the disk had answered, and no bound counted it; its client is told nothing."""
    sender = make(store={"flush_disk_type": "SYNC_FLUSH"})
    sender.ask(send())
    with slow_disk(monkeypatch) as go_on:
        for _ in range(10):
            sender.start(send(oneway=True, **body))
        assert sender.broker.puts_in_flight == 0
        sender.start(send())
        assert sender.broker.puts_in_flight == 1
        go_on()
        sender.loop.run_until(lambda: sender.broker.puts_in_flight == 0)
    assert len(sender.channel.sent) == 2
    many = 2 if body else 1
    assert len(sender.messages("orders")) == 2 + 10 * many
    assert sender.channel.kept == 0


@pytest.mark.parametrize("oneway", [False, True])
def test_a_send_that_waits_for_its_topic_is_counted_with_its_body(
    make: MakeSender, oneway: bool
) -> None:
    """10,000 sends of 4 MiB could wait for a new topic on one connection, and without an end where they were one-way."""
    sender = make()
    for number in range(3):
        sender.start(send(f"new{number}", bytes(5_000), oneway=oneway))
    assert 15_000 < sender.channel.kept < 20_000
    sender.loop.run_until(lambda: sender.channel.kept == 0)
    assert [len(sender.messages(f"new{number}")) for number in range(3)] == [1, 1, 1]
    assert len(sender.channel.sent) == (0 if oneway else 3)


@pytest.mark.parametrize("body", [{}, {"body": TWO, "batch": True}])
def test_a_slow_disk_is_told_of_and_the_message_is_stored(
    make: MakeSender, monkeypatch: pytest.MonkeyPatch, body: Any
) -> None:
    sender = make(store={"flush_disk_type": "SYNC_FLUSH", "sync_flush_timeout": 1})
    sender.start(send())
    sender.loop.run_until(lambda: bool(sender.channel.sent))
    with slow_disk(monkeypatch):
        response = sender.ask(send(**body))
    assert response.code == ResponseCode.FLUSH_DISK_TIMEOUT
    assert response.ext_fields["msgId"]


# ---- replies


def reply(**changed: Any) -> RemotingCommand:
    properties = {"REPLY_TO_CLIENT": "asker", "CORRELATION_ID": "7"}
    return send("replies", b"r", properties, code=RequestCode.SEND_REPLY_MESSAGE_V2, **changed)


def connect(sender: Sender, client_id: str) -> None:
    client = ClientChannelInfo(
        sender.channel, client_id, LanguageCode.JAVA, 513, sender.loop.now_ms
    )
    sender.broker.producers.register("pg", client)


def test_a_reply_goes_to_who_asked_and_is_stored(sender: Sender) -> None:
    connect(sender, "asker")
    sender.start(reply())
    sender.loop.run_until(lambda: bool(sender.channel.sent))
    push = sender.channel.sent[-1]
    assert (push.code, push.body) == (RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, b"r")
    now_ms = str(sender.loop.now_ms)
    assert push.ext_fields["storeTimestamp"] == now_ms
    assert f"\x02PUSH_REPLY_TIME\x01{now_ms}\x02" in push.ext_fields["properties"]
    response = sender.ask(push.response())
    assert (response.code, response.remark, response.ext_fields["queueId"]) == (0, None, "0")
    (stored,) = sender.messages("replies")
    assert (stored.body, stored.properties.get("PUSH_REPLY_TIME")) == (b"r", None)
    assert response.ext_fields["msgId"] == stored.msg_id


def test_a_reply_that_does_not_arrive(sender: Sender) -> None:
    gone = "push reply message fail, channel of <asker> not found."
    assert answer(sender.ask(reply())) == (ResponseCode.SYSTEM_ERROR, gone)
    connect(sender, "asker")
    sender.start(reply())
    sender.loop.advance(10_000)
    failed = (ResponseCode.SYSTEM_ERROR, "push reply message to askerfail.")
    assert answer(sender.channel.sent[-1]) == failed
    sender.start(reply())
    refusal = sender.channel.sent[-1].response(ResponseCode.SYSTEM_ERROR)
    assert answer(sender.ask(refusal)) == failed
    assert len(sender.messages("replies")) == 3


def test_the_clock_of_keys_goes_over_the_end_of_a_month() -> None:
    loop = FakeLoop()
    keys = UniqKeys("[::1]:10911", loop.clock)
    first = keys.make()
    loop.now_ms += 40 * 86_400_000
    second = keys.make()
    assert first[:44] == second[:44]
    assert [int(key[44:52], 16) < 31 * 86_400_000 for key in (first, second)] == [True, True]
    assert [key[52:] for key in (first, second)] == ["0000", "0001"]
