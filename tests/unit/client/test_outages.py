"""Peers that are away, hang, or answer late: what a call costs then, and what the log says."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest
from support.fake_cluster import NAMESRV, FakeBroker, FakeCluster, Peer, run
from support.push_broker import ADDRESS, admin_broker, push_broker

from rmqcore.client import (
    AsyncAdmin,
    AsyncProducer,
    AsyncPullConsumer,
    AsyncPushConsumer,
    ClientEvent,
    Producer,
)
from rmqcore.client.connection import Connection
from rmqcore.client.outages import QUIET_SECONDS, Outages
from rmqcore.errors import AnswerTimeoutError, ClientError, RefusedError

FIRST: dict[str, Any] = {"consume_from": "CONSUME_FROM_FIRST_OFFSET"}


@pytest.fixture
def broker(cluster: FakeCluster) -> FakeBroker:
    return push_broker(cluster, T=16)


def deaf(request: object, pipe: object) -> None:
    """Hear a request, and do nothing."""


# ---- the log ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["broker", "name server", "both"])
@pytest.mark.parametrize("kind", [AsyncPullConsumer, AsyncPushConsumer])
@pytest.mark.parametrize("hangs", [False, True])
def test_ten_minutes_without_peers_are_a_few_lines(
    cluster: FakeCluster,
    broker: FakeBroker,
    caplog: pytest.LogCaptureFixture,
    who: str,
    kind: Any,
    hangs: bool,
) -> None:
    """Where broker and name server were away a consumer of 16 queues logged 145 warnings in 10 s, one per topic and second."""
    peers: dict[str, list[Peer]] = {
        "broker": [broker],
        "name server": [cluster.names],
        "both": [broker, cluster.names],
    }

    async def work() -> None:
        async with kind(NAMESRV, "g", **FIRST) as consumer:
            await consumer.subscribe("T")
            caplog.clear()
            caplog.set_level(logging.INFO, "rmqcore.client")
            hearing: dict[Peer, Any] = {}
            for peer in peers[who]:
                hearing[peer] = peer.hear
                if hangs:
                    peer.hear = deaf  # type: ignore[method-assign]
                else:
                    del cluster.peers[peer.address]
                    peer.close_all()
            await asyncio.sleep(600)
            assert len(caplog.records) <= 8, caplog.messages
            for peer, hear in hearing.items():
                cluster.peers[peer.address] = peer
                peer.hear = hear  # type: ignore[method-assign]
            await asyncio.sleep(120)
            assert len(caplog.records) <= 16, caplog.messages
            assert len(consumer.assignment()) >= 16

    run(work())


def test_something_that_fails_and_works_in_turns_is_logged_now_and_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 0.0
    outages = Outages(lambda: now)
    for second in range(100):
        now = float(second)
        outages.begin("a", "%s fails", "a")
        outages.begin("a", "%s fails", "a")
        outages.end("a", "%s works", "a")
        outages.end("a", "%s works", "a")
    assert caplog.messages == ["a fails", "a works"] * (1 + 99 // round(QUIET_SECONDS))


def test_a_remark_cannot_fill_the_log_or_look_like_another_line() -> None:
    error = RefusedError("h:1", "PULL", 1, "SYSTEM_ERROR", "x\n2026-01-01 ERROR y" + "z" * 100_000)
    assert len(str(error)) < 700
    assert "\n" not in str(error)
    assert "100,020 characters" in str(error)


# ---- time -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["close", "unsubscribe", "seek"])
@pytest.mark.parametrize("kind", [AsyncPullConsumer, AsyncPushConsumer])
@pytest.mark.parametrize("seconds", [1.0, 2.5])
def test_a_hung_broker_costs_a_consumer_what_its_call_was_allowed(
    broker: FakeBroker, kind: Any, call: str, seconds: float
) -> None:
    """`close(0.5)` of a pull consumer took 1.5 s, a push consumer's 9 s in order; `unsubscribe` and `seek` had no limit."""
    if call == "seek" and kind is AsyncPushConsumer:
        return
    settings: dict[str, Any] = (
        {"orderly": True} if kind is AsyncPushConsumer else {"auto_commit": True}
    )
    for queue_id in range(16):
        broker.put("T", queue_id, b"x")

    async def work() -> None:
        loop = asyncio.get_running_loop()
        consumer = kind(NAMESRV, "g", **FIRST, **settings)
        await consumer.subscribe("T")
        if kind is AsyncPullConsumer:
            for _ in range(16):
                assert await consumer.poll(5)
        else:
            async for message in consumer:
                consumer.finish(message)
                break
        await asyncio.sleep(2)
        broker.hear = deaf  # type: ignore[method-assign]
        begin = loop.time()
        with suppress(AnswerTimeoutError):
            if call == "close":
                await consumer.close(timeout=seconds)
            elif call == "seek":
                await consumer.seek("T", 0, 0, timeout=seconds)
            else:
                await consumer.unsubscribe("T", timeout=seconds)
        assert loop.time() - begin <= seconds + 0.1
        consumer.abandon()

    run(work())


@pytest.mark.parametrize("kind", [AsyncProducer, AsyncAdmin])
@pytest.mark.parametrize("seconds", [0.0, 0.25, 5.0])
def test_a_hung_broker_costs_a_producer_or_admin_what_its_close_was_allowed(
    broker: FakeBroker, kind: Any, seconds: float
) -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        client = kind(NAMESRV)
        if kind is AsyncProducer:
            await client.send("T", b"x")
            broker.hear = deaf  # type: ignore[method-assign]
            sending = asyncio.create_task(client.send("T", b"y"))
            await asyncio.sleep(0.1)
        else:
            await client.topic_queues("T")
            broker.hear = deaf  # type: ignore[method-assign]
            sending = asyncio.create_task(client.message_by_id("T", "0" * 32))
            await asyncio.sleep(0.1)
        begin = loop.time()
        await client.close(timeout=seconds)
        assert loop.time() - begin <= min(seconds, 1.0) + 0.001
        assert not broker.pipes
        with pytest.raises(ClientError):
            await sending
        assert loop.time() - begin <= min(seconds, 1.0) + 0.1, "a call in progress ends with it"
        await client.close(timeout=seconds)

    run(work())


def test_a_one_way_send_takes_no_longer_than_its_timeout(
    cluster: FakeCluster, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The route, the connection and the bytes had a limit each: three times as long as the caller allowed."""
    connect = Connection.open

    async def slowly(*arguments: Any) -> Connection:
        await asyncio.sleep(0.8)
        return await connect(*arguments)

    async def work() -> None:
        loop = asyncio.get_running_loop()
        producer = AsyncProducer(NAMESRV, timeout=1.0)
        monkeypatch.setattr(Connection, "open", slowly)
        begin = loop.time()
        with pytest.raises(ClientError):
            await producer.send_oneway("T", b"x")
        assert loop.time() - begin <= 1.1
        producer.abandon()

    run(work())


def test_a_goodbye_is_said_where_a_commit_has_taken_all_the_time(broker: FakeBroker) -> None:
    broker.put("T", 0, b"x")
    broker.silent.add(15)

    async def work() -> None:
        consumer = AsyncPullConsumer(NAMESRV, "g", auto_commit=True, **FIRST)
        await consumer.subscribe("T")
        assert await consumer.poll(5)
        assert await consumer.poll(0) == []
        begin = asyncio.get_running_loop().time()
        await consumer.close(timeout=0.5)
        assert asyncio.get_running_loop().time() - begin <= 0.6
        assert broker.members["g"] == {}

    run(work())


# ---- members ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 5, 8, 13])
@pytest.mark.parametrize("kind", [AsyncPullConsumer, AsyncPushConsumer])
def test_an_unsubscribe_that_is_cancelled_leaves_no_member(
    broker: FakeBroker, kind: Any, steps: int
) -> None:
    """The goodbye was left out: for two minutes no other member had the queues of this one."""
    for queue_id in range(16):
        broker.put("T", queue_id, b"x")
    settings: dict[str, Any] = {} if kind is AsyncPushConsumer else {"auto_commit": True}

    async def work() -> None:
        consumer = kind(NAMESRV, "g", **FIRST, **settings)
        await consumer.subscribe("T")
        other = AsyncPullConsumer(NAMESRV, "g", **FIRST)
        await other.subscribe("T")
        call = asyncio.ensure_future(consumer.unsubscribe("T"))
        for _ in range(steps):
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await asyncio.sleep(5)
        expected = 8 if steps == 0 else 16  # cancelled before it began
        assert len(other.assignment()) == expected
        await consumer.close()
        await other.close()

    run(work())


CALLS: dict[str, Callable[[Any], Coroutine[Any, Any, object]]] = {
    "create_topic": lambda admin: admin.create_topic("T"),
    "lag": lambda admin: admin.lag("g"),
    "list_groups": lambda admin: admin.list_groups(),
    "reset_offsets": lambda admin: admin.reset_offsets("g", "T", "first"),
    "message_by_id": lambda admin: admin.message_by_id("T", "AC11000112345"),
    "send": lambda producer: producer.send("T", b"x"),
    "send_many": lambda producer: producer.send_many("T", [b"x", b"y"]),
    "send_oneway": lambda producer: producer.send_oneway("T", b"x"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_is_cancelled_anywhere_leaves_its_client_whole(
    cluster: FakeCluster, name: str
) -> None:
    """After each number of steps of the loop; the first call of a client, and one over connections that are there."""
    admin_broker(cluster)
    call = CALLS[name]
    kind: Any = AsyncProducer if name.startswith("send") else AsyncAdmin
    raised: list[object] = []

    async def cut(client: Any, steps: int) -> bool:
        task = asyncio.ensure_future(call(client))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    async def work() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: raised.append(context))
        steps, was_cut = 0, True
        while was_cut:
            async with kind(NAMESRV) as client:
                was_cut = await cut(client, steps)
                await call(client)
                await cut(client, steps)
                await call(client)
            await asyncio.sleep(1)
            assert asyncio.all_tasks() == {asyncio.current_task()}
            steps += 1
        assert steps > 3

    run(work())
    gc.collect()
    assert raised == []


# ---- programs ---------------------------------------------------------------------------------------


def test_a_call_in_on_event_is_refused(broker: FakeBroker) -> None:
    """It waited for itself, for ever."""
    raised: list[BaseException] = []

    def on_event(event: ClientEvent) -> None:
        if event.kind == "send" and not raised:
            try:
                producer.send("T", b"from the hook")
            except ClientError as error:
                raised.append(error)

    producer = Producer(NAMESRV, on_event=on_event)
    done = threading.Thread(target=producer.send, args=("T", b"x"), daemon=True)
    done.start()
    done.join(60)
    assert not done.is_alive()
    assert "wait for itself" in str(raised[0])
    producer.close()


def test_a_handler_whose_error_has_no_text_is_one_that_failed(broker: FakeBroker) -> None:
    """`run` ended with the error of the text, and the message did not count as one that failed."""

    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    broker.put("T", 0, b"x")
    calls = 0

    async def handle(_: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise Odd
        consumer.stop()

    async def work() -> None:
        await consumer.subscribe("T")
        await asyncio.wait_for(consumer.run(handle), 60)
        await consumer.close()

    consumer = AsyncPushConsumer(NAMESRV, "g", **FIRST)
    run(work())
    assert calls == 2


@pytest.mark.parametrize("name", ["nextBeginOffset", "offset"])
def test_a_negative_offset_is_not_an_answer(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """It was committed."""
    code = 361 if name == "nextBeginOffset" else 14

    def negative(request: Any) -> Any:
        fields = {"nextBeginOffset": "-5", "minOffset": "0", "maxOffset": "9"}
        found = fields | {"suggestWhichBrokerId": "0"} if code == 361 else {"offset": "-5"}
        return request.response(19 if code == 361 else 0, ext_fields=found)

    broker.hooks[code] = negative

    async def work() -> None:
        async with AsyncPullConsumer(NAMESRV, "g", **FIRST) as consumer:
            await consumer.subscribe("T", timeout=5)
            assert await consumer.poll(3) == []
            await consumer.commit()

    run(work())
    assert all(offset >= 0 for offset in broker.offsets.values())
    assert f"{name} is -5, expected 0 or more" in caplog.text
    assert ADDRESS in caplog.text
