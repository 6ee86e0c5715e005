"""``on_event``: what clients tell a program that counts, and that a mistake in it hurts nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from support.fake_cluster import NAMESRV, NOW_MS, FakeBroker, FakeCluster, run
from support.push_broker import ADDRESS, push_broker, refuse

from rmqcore.client import (
    Admin,
    AsyncAdmin,
    AsyncProducer,
    AsyncPullConsumer,
    AsyncPushConsumer,
    ClientEvent,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
)
from rmqcore.errors import ClientError, NoRouteError, RefusedError

FIRST = "CONSUME_FROM_FIRST_OFFSET"


@pytest.fixture
def broker(cluster: FakeCluster) -> FakeBroker:
    return push_broker(cluster, T=2)


def counts(events: list[ClientEvent], kind: str) -> list[tuple[str, int]]:
    return [(one.name, one.count) for one in events if one.kind == kind and one.error is None]


def failures(events: list[ClientEvent], kind: str) -> list[type[BaseException]]:
    return [type(one.error) for one in events if one.kind == kind and one.error is not None]


def test_sends(broker: FakeBroker) -> None:
    events: list[ClientEvent] = []

    async def work() -> None:
        async with AsyncProducer(NAMESRV, on_event=events.append, retry_times=0) as producer:
            await producer.send("T", b"one")
            await producer.send_many("T", iter([b"two", b"three"]))
            await producer.send_oneway("T", b"four")
            broker.hooks[310] = refuse
            with pytest.raises(RefusedError):
                await producer.send("T", b"five")

    run(work())
    assert counts(events, "send") == [("T", 1), ("T", 2), ("T", 1)]
    assert failures(events, "send") == [RefusedError]
    assert counts(events, "connect") == [(NAMESRV, 1), (ADDRESS, 1)]
    assert all(0 <= one.seconds < 60 for one in events)


def test_a_pull_consumer(broker: FakeBroker) -> None:
    events: list[ClientEvent] = []

    async def work() -> None:
        for number in range(3):
            broker.put("T", 0, b"%d" % number)
        async with AsyncPullConsumer(
            NAMESRV, "g", consume_from=FIRST, now_ms=lambda: NOW_MS, on_event=events.append
        ) as member:
            await member.subscribe("T")
            assert len(await member.poll(10)) == 3
            await member.commit()
            broker.hooks[15] = refuse
            broker.put("T", 0, b"more")
            assert len(await member.poll(10)) == 1
            with pytest.raises(ClientError):
                await member.commit()

    run(work())
    assert counts(events, "rebalance") == [("T", 2)]
    assert counts(events, "poll") == counts(events, "pull") == [("T", 3), ("T", 1)]
    assert counts(events, "commit")[:1] == [("T", 1)]
    assert failures(events, "commit") == [RefusedError]


def test_a_push_consumer(broker: FakeBroker) -> None:
    events: list[ClientEvent] = []

    async def work() -> None:
        for number in range(3):
            broker.put("T", 0, b"%d" % number)
        async with AsyncPushConsumer(
            NAMESRV, "g", consume_from=FIRST, now_ms=lambda: NOW_MS, on_event=events.append
        ) as member:
            handled = 0

            async def handle(message: ReceivedMessage) -> None:
                nonlocal handled
                handled += 1
                if handled == 3:
                    member.stop()
                if message.body == b"2":
                    raise ValueError("no")

            await member.subscribe("T")
            await member.run(handle, concurrency=1)

    run(work())
    assert counts(events, "handle") == [("T", 1)] * 2
    assert failures(events, "handle") == [ValueError]
    assert ("T", 2) in counts(events, "rebalance")
    assert ("T", 1) in counts(events, "commit")


def test_calls_of_an_administrator(broker: FakeBroker) -> None:
    events: list[ClientEvent] = []

    async def work() -> None:
        async with AsyncAdmin(NAMESRV, on_event=events.append) as admin:
            await admin.topic_route("T")
            with pytest.raises(NoRouteError):
                await admin.topic_route("none")

    run(work())
    assert counts(events, "call") == [("topic_route", 1)]
    assert failures(events, "call") == [NoRouteError]


def test_a_reconnect_is_told(broker: FakeBroker) -> None:
    events: list[ClientEvent] = []

    async def work() -> None:
        async with AsyncProducer(NAMESRV, on_event=events.append) as producer:
            await producer.send("T", b"one")
            broker.close_all()
            await asyncio.sleep(0.1)
            await producer.send("T", b"two")

    run(work())
    assert [number for name, number in counts(events, "connect") if name == ADDRESS] == [1, 2]


def test_what_a_hook_raises_is_logged_once_and_loses_nothing(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(event: ClientEvent) -> None:
        raise RuntimeError("the counter is full")

    async def work() -> None:
        async with AsyncProducer(NAMESRV, on_event=fails) as producer:
            for number in range(5):
                await producer.send("T", b"%d" % number)
        async with AsyncPullConsumer(
            NAMESRV, "g", consume_from=FIRST, now_ms=lambda: NOW_MS, on_event=fails
        ) as member:
            await member.subscribe("T")
            found: list[bytes] = []
            while len(found) < 5:
                batch = await member.poll(10)
                assert batch
                found += [one.body for one in batch]
            await member.commit()

    run(work())
    assert len(caplog.records) == 2  # one for each client
    assert {one.message for one in caplog.records} == {
        "on_event raised; later exceptions from it are not logged"
    }


@pytest.mark.parametrize(
    "make",
    [
        lambda on_event: Producer(NAMESRV, on_event=on_event),
        lambda on_event: PullConsumer(NAMESRV, "g", on_event=on_event),
        lambda on_event: PushConsumer(NAMESRV, "g", on_event=on_event),
        lambda on_event: Admin(NAMESRV, on_event=on_event),
    ],
    ids=["Producer", "PullConsumer", "PushConsumer", "Admin"],
)
def test_the_clients_for_ordinary_code_take_it_too(
    make: Callable[
        [Callable[[ClientEvent], object]], Producer | PullConsumer | PushConsumer | Admin
    ],
) -> None:
    with make(lambda _: None):
        pass
