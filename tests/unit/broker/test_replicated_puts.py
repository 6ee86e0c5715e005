"""Sends to a SYNC_MASTER: when each kind is answered, and with which code. `store.replicated` stands in for followers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from support.eventually import POLL_S, eventually_async
from support.raw_client import AsyncRawClient, send_request
from support.sends import Sender, image, send
from support.transactions import COMMIT, ROLLBACK, Transacting, end

import rmqcore
from rmqcore.broker.network.server import Ports, serving
from rmqcore.broker.settings import BrokerSettings
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.engine.store.store import MessageStore
from rmqcore.errors import StoreFailedError
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.request_fields import Value, encode_fields

HOUR = 3_600_000  # milliseconds: a wait that does not end by itself during a test
SECOND = 1_000
PAIR: dict[str, Any] = {"broker_role": "SYNC_MASTER", "in_sync_replicas": 2}
PATIENT: dict[str, Any] = {**PAIR, "slave_timeout": HOUR}
HASTY: dict[str, Any] = {**PAIR, "slave_timeout": 1}
TWO = image([(b"one", {"UNIQ_KEY": "B1"}), (b"two", {"UNIQ_KEY": "B2"})])
OK, LATE = ResponseCode.SUCCESS, ResponseCode.FLUSH_SLAVE_TIMEOUT
MakeSender = Callable[..., Sender]


def half(name: str = "h") -> RemotingCommand:
    return send("deals", b"half", {"TRAN_MSG": "true", "PGROUP": "pg", "UNIQ_KEY": name}, sysFlag=4)


KINDS: dict[str, Callable[[], RemotingCommand]] = {
    "one": send,
    "batch": lambda: send(body=TWO, batch=True),
    "half": half,
    "delayed": lambda: send(properties={"DELAY": "1"}),
}


@pytest.fixture
def make(tmp_path: Path) -> Iterator[MakeSender]:
    senders: list[Sender] = []

    def make_sender(kind: type[Sender] = Sender, **store: Any) -> Sender:
        senders.append(kind(tmp_path / str(len(senders)), store=store))
        return senders[-1]

    yield make_sender
    for sender in senders:
        sender.close()


def replicate(sender: Sender, phy_offset: int | None = None) -> None:
    """Report what enough followers hold: all of the log, or up to an offset."""
    end_phy_offset = sender.store.max_phy_offset if phy_offset is None else phy_offset
    sender.store.replicated(end_phy_offset)
    sender.loop.run()


def begin(sender: Sender, request: RemotingCommand) -> None:
    """Bring a request, and return when its message is stored or answered: a new topic is made in another thread before that."""
    before = sender.broker.puts_in_flight, len(sender.channel.sent)
    sender.start(request)
    sender.loop.run_until(
        lambda: (sender.broker.puts_in_flight, len(sender.channel.sent)) != before
    )


def answers(sender: Sender) -> list[int]:
    return [command.code for command in sender.channel.sent if command.is_response]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_the_answer_comes_when_followers_hold_the_message(
    make: MakeSender, kind: str, flush: str
) -> None:
    sender = make(**PATIENT, flush_disk_type=flush)
    begin(sender, KINDS[kind]())
    assert sender.broker.puts_in_flight == 1
    replicate(sender, sender.store.max_phy_offset - 1)
    assert answers(sender) == []
    replicate(sender)
    sender.loop.run_until(lambda: bool(answers(sender)))
    assert answers(sender) == [OK]
    assert sender.broker.puts_in_flight == 0
    if flush == "SYNC_FLUSH":
        assert sender.store.flushed_phy_offset == sender.store.max_phy_offset


@pytest.mark.parametrize("kind", KINDS)
def test_without_followers_it_is_stored_and_the_code_says_so(make: MakeSender, kind: str) -> None:
    sender = make(**HASTY)
    response = sender.ask(KINDS[kind]())
    assert (response.code, bool(response.ext_fields["msgId"])) == (LATE, True)
    assert sender.broker.puts_in_flight == 0
    assert sender.store.max_phy_offset > 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_that_does_not_wait_is_answered_at_once(make: MakeSender, kind: str) -> None:
    sender = make(**PATIENT, flush_disk_type="SYNC_FLUSH")
    request = KINDS[kind]()
    properties = request.ext_fields.get("properties") or request.ext_fields["i"]
    name = "properties" if "properties" in request.ext_fields else "i"
    request.ext_fields[name] = properties.replace("WAIT\x01true", "WAIT\x01false")
    begin(sender, request)
    assert answers(sender) == [OK]


def test_a_late_message_keeps_no_other_from_its_answer(make: MakeSender) -> None:
    """In Java one put without its ack holds up those behind it, until their time is over too."""
    sender = make(**PATIENT)
    ends = []
    for opaque in range(4):
        request = send()
        request.opaque = opaque
        begin(sender, request)
        ends.append(sender.store.max_phy_offset)
    assert sender.broker.puts_in_flight == 4
    replicate(sender, ends[1])
    assert [command.opaque for command in sender.channel.sent] == [0, 1]
    replicate(sender)
    assert [command.opaque for command in sender.channel.sent] == [0, 1, 2, 3]
    assert set(answers(sender)) == {OK}


def test_no_thread_waits_for_followers(make: MakeSender) -> None:
    sender = make(**PATIENT)
    begin(sender, send())
    before = threading.active_count()  # the thread that makes topics among them
    for _ in range(500):
        begin(sender, send())
    assert (threading.active_count(), answers(sender)) == (before, [])
    replicate(sender)
    assert answers(sender) == [OK] * 501


@pytest.mark.parametrize(
    ("times", "reported", "code"),
    [
        ({"sync_flush_timeout": 1}, True, ResponseCode.FLUSH_DISK_TIMEOUT),
        ({"sync_flush_timeout": 1, "slave_timeout": 1}, False, LATE),
        ({"slave_timeout": 1}, False, LATE),
        ({}, True, OK),
    ],
)
def test_disk_and_followers_are_both_waited_for_and_followers_decide(
    make: MakeSender,
    monkeypatch: pytest.MonkeyPatch,
    times: dict[str, int],
    reported: bool,
    code: int,
) -> None:
    gate, flush = threading.Event(), CommitLog.flush

    def slow(self: CommitLog, least_pages: int = 0) -> int:
        assert gate.wait(60)
        return flush(self, least_pages)

    sender = make(
        **{**PATIENT, "flush_disk_type": "SYNC_FLUSH", "sync_flush_timeout": HOUR, **times}
    )
    with monkeypatch.context() as patch:
        patch.setattr(CommitLog, "flush", slow)
        begin(sender, send())
        if reported:
            replicate(sender)
        assert answers(sender) == []
        if "sync_flush_timeout" not in times:
            gate.set()
        sender.loop.run_until(lambda: bool(answers(sender)))
        gate.set()
    assert answers(sender) == [code]


def test_a_store_that_fails_answers_what_waits(make: MakeSender) -> None:
    sender = make(**PATIENT)
    begin(sender, send())
    sender.store.fail(OSError(5, "Input/output error"))
    sender.loop.run_until(lambda: bool(answers(sender)))
    assert answers(sender) == [ResponseCode.SYSTEM_ERROR]
    assert sender.ask(send()).code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert sender.broker.puts_in_flight == 0


@pytest.mark.parametrize("method", ["on_flushed", "on_replicated"])
def test_a_store_that_fails_behind_the_append_answers_once(
    make: MakeSender, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def failed(*_: object) -> None:
        raise StoreFailedError("just now")

    sender = make(**PATIENT, flush_disk_type="SYNC_FLUSH")
    monkeypatch.setattr(sender.store, method, failed)
    begin(sender, send())
    assert answers(sender) == [ResponseCode.SERVICE_NOT_AVAILABLE]
    sender.store.flush()
    replicate(sender)
    sender.loop.run()
    assert len(answers(sender)) == 1
    assert sender.broker.puts_in_flight == 0


def test_a_reply_is_answered_when_followers_hold_it(make: MakeSender) -> None:
    sender = make(**PATIENT)
    begin(
        sender,
        send("replies", b"r", {"CORRELATION_ID": "7"}, code=RequestCode.SEND_REPLY_MESSAGE_V2),
    )
    assert (answers(sender), sender.broker.puts_in_flight) == ([], 1)
    replicate(sender)
    assert len(answers(sender)) == 1


# ---- transactions


@pytest.fixture
def transacting(make: MakeSender) -> Transacting:
    broker = make(Transacting, **PATIENT)
    assert isinstance(broker, Transacting)
    return broker


def stored_half(broker: Transacting, name: str) -> RemotingCommand:
    """Send a half, let followers have it, and give its answer."""
    begin(broker, half(name))
    replicate(broker)
    answer = broker.channel.sent.pop()
    assert answer.code == OK
    broker.dispatch()
    return answer


def test_a_commit_is_answered_when_followers_hold_the_message(transacting: Transacting) -> None:
    """Its message keeps the properties of the half, and so waits as the half did."""
    first = stored_half(transacting, "first")
    begin(transacting, end(first, COMMIT))
    assert (answers(transacting), transacting.broker.puts_in_flight) == ([], 1)
    transacting.advance(10 * SECOND)
    assert transacting.marks() == [], "the half has not ended before"
    replicate(transacting)
    assert answers(transacting) == [OK]
    transacting.advance(10 * SECOND)
    assert (transacting.bodies(), len(transacting.marks())) == ([b"half"], 1)


def test_a_rollback_waits_for_no_follower(transacting: Transacting) -> None:
    first = stored_half(transacting, "first")
    assert transacting.ask(end(first, ROLLBACK)).code == OK


def test_a_late_commit_is_a_commit(make: MakeSender) -> None:
    broker = make(Transacting, **HASTY)
    assert isinstance(broker, Transacting)
    first = broker.half("first")
    assert first.code == LATE
    assert broker.ask(end(first, COMMIT)).code == OK
    assert broker.bodies() == [b"first"]


# ---- messages that the broker stores by itself, and those of consumers: Java's have WAIT=false


def test_a_message_that_is_due_is_delivered_without_followers(make: MakeSender) -> None:
    sender = make(**PATIENT)
    sender.broker.schedule.start()
    begin(sender, send(properties={"DELAY": "1"}))
    replicate(sender)
    assert answers(sender) == [OK]
    assert sender.store.wait_dispatched(60)
    sender.loop.run()
    sender.loop.advance(2 * SECOND)
    assert [message.body for message in sender.messages("orders")] == [b"body"]


def test_a_message_that_is_sent_back_is_answered_at_once(make: MakeSender) -> None:
    sender = make(**PATIENT)
    begin(sender, send())
    replicate(sender)
    (message,) = sender.messages("orders")
    code = RequestCode.CONSUMER_SEND_MSG_BACK
    fields: dict[str, Value] = {
        "offset": message.phy_offset,
        "group": "g",
        "delayLevel": 0,
        "originTopic": "orders",
    }
    assert sender.ask(RemotingCommand(code, ext_fields=encode_fields(code, fields))).code == OK


# ---- the end of a server


def test_a_server_that_ends_answers_what_waits_for_followers(tmp_path: Path) -> None:
    """It takes no more requests, and closes the connections when followers have answered."""

    async def work(store: MessageStore) -> RemotingCommand:
        free = Ports(broker=0, namesrv=None)
        async with AsyncExitStack() as ending:
            server = await ending.enter_async_context(serving(store, BrokerSettings(), free))
            client = await AsyncRawClient.open(server.ready.broker)
            client.send(send_request("t", b"x"))
            await eventually_async(lambda: server.broker.puts_in_flight)
            end_of_server = asyncio.create_task(ending.pop_all().aclose())
            await refuses_connections(server.ready.broker)
            assert (end_of_server.done(), server.broker.puts_in_flight) == (False, 1)
            await asyncio.to_thread(store.replicated, store.max_phy_offset)
            answer = await client.next()
            await end_of_server
            client.close()
            return answer

    with rmqcore.open(tmp_path / "store", **PATIENT) as store:
        answer = asyncio.run(asyncio.wait_for(work(store), 60))
        assert (answer.code, answer.ext_fields["queueOffset"]) == (OK, "0")


async def refuses_connections(address: str) -> None:
    """Wait until a server listens no more."""
    host, _, port = address.rpartition(":")
    while True:
        try:
            _, writer = await asyncio.open_connection(host, int(port))
        except OSError:
            return
        writer.close()
        await asyncio.sleep(POLL_S)
