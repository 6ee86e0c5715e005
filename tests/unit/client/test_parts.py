"""Parts of the clients by themselves: routes, the cache of pulled messages, connections that several wait for."""

from __future__ import annotations

import asyncio

import pytest
from support.fake_cluster import NOW_MS, FakeCluster, run

from rmqcore.client import ReceivedMessage
from rmqcore.client.connection import Connection
from rmqcore.client.message_cache import MOST_BYTES_OF_QUEUE, MOST_MESSAGES, MessageCache, Pulled
from rmqcore.client.messages.message_queue import MessageQueue
from rmqcore.client.remote import Remote
from rmqcore.client.routes import Routes, route_of_new_topic
from rmqcore.codec import decode, encode
from rmqcore.codec.message import Message
from rmqcore.errors import NotReachedError, RequestError
from rmqcore.remoting.bodies.routes import BrokerData, QueueData, TopicRoute
from rmqcore.remoting.command import RemotingCommand

QUEUE = MessageQueue("T", "b-a", 0)


# ---- routes -----------------------------------------------------------------------------------------


def route(*queues: QueueData, **brokers: dict[int, str]) -> TopicRoute:
    found = tuple(BrokerData("C", name, addresses) for name, addresses in brokers.items())
    return TopicRoute(found, queues)


def test_queues_that_may_be_written_and_read() -> None:
    routes = Routes()
    queues = (QueueData("b", 1, 2, 6), QueueData("a", 3, 1, 4), QueueData("c", 1, 1, 2))
    assert routes.learn("T", route(*queues, a={0: "A"}, b={0: "B"}, c={1: "slave alone"}))
    assert routes.publish_queues("T") == [MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)]
    assert routes.subscribe_queues("T") == [
        *(MessageQueue("T", "a", number) for number in range(3)),
        MessageQueue("T", "b", 0),
    ]
    assert routes.publish_queues("U") == routes.subscribe_queues("U") == []
    assert not routes.learn(
        "T", route(*reversed(queues), a={0: "A"}, b={0: "B"}, c={1: "slave alone"})
    )


@pytest.mark.parametrize("name", ["b" * 256, "b\n2026-01-01 ERROR", "b\x1b[2J"])
def test_names_that_a_log_line_must_not_repeat(name: str) -> None:
    queues = (QueueData("b", 1, 1, 6),)
    for route in (
        TopicRoute((BrokerData("c", name, {0: "h:1"}),), queues),
        TopicRoute((BrokerData("c", "b", {0: name}),), queues),
        TopicRoute((BrokerData("c", "b", {0: "h:1"}),), (QueueData(name, 1, 1, 6),)),
    ):
        with pytest.raises(RequestError, match="at most 255 letters"):
            Routes().learn("T", route)


def test_where_an_instance_of_a_broker_is() -> None:
    routes = Routes()
    routes.learn("T", route(a={0: "M", 2: "S2"}, b={3: "S3"}))
    assert [routes.instance("a", number) for number in range(4)] == ["M", "S2", "S2", "M"]
    assert (routes.instance("b", 0), routes.instance("c", 0)) == ("S3", None)
    assert (routes.master("a"), routes.master("b")) == ("M", None)
    assert routes.all_addresses() == {"M", "S2", "S3"}
    assert routes.all_addresses(masters_only=True) == {"M"}
    assert routes.addresses_of_topic("T") == ["M", "S3"]


def test_a_broker_is_where_it_was_said_to_be_last_and_forgotten_with_its_last_topic() -> None:
    routes = Routes()
    routes.learn("T", route(a={0: "old"}, b={0: "B"}))
    routes.learn("U", route(a={0: "new"}))
    assert routes.master("a") == "new"
    routes.learn("T", route(b={0: "B"}))
    routes.forget("U")
    assert routes.master("a") is None
    assert routes.all_addresses() == {"B"}


def test_a_new_topic_has_no_more_queues_than_its_default() -> None:
    default = route(QueueData("a", 8, 9, 7), QueueData("b", 2, 2, 7), a={0: "A"}, b={0: "B"})
    made = route_of_new_topic(default, 4)
    assert [(one.read_queue_nums, one.write_queue_nums) for one in made.queues] == [(4, 4), (2, 2)]


# ---- pulled messages --------------------------------------------------------------------------------


def message(size: int = 1) -> ReceivedMessage:
    record = encode(
        Message("T", b"x" * size), phy_offset=0, queue_offset=0, store_timestamp_ms=NOW_MS
    )
    return ReceivedMessage(decode(record), QUEUE, 0)


async def is_full(cache: MessageCache[str], owner: str) -> bool:
    try:
        async with asyncio.timeout(1):
            await cache.room(owner)
    except TimeoutError:
        return True
    return False


def test_bytes_of_a_queue_are_bounded() -> None:
    async def work() -> None:
        cache: MessageCache[str] = MessageCache()
        large = message(4 << 20)
        for _ in range(MOST_BYTES_OF_QUEUE // large.msg_size):
            cache.put(Pulled("a", (large,), 1))
        assert not await is_full(cache, "a")
        cache.put(Pulled("a", (large,), 1))
        assert await is_full(cache, "a")
        assert not await is_full(cache, "b")
        assert await cache.take(0, lambda _: True) is not None
        assert not await is_full(cache, "a")

    run(work())


def test_messages_of_all_queues_are_bounded() -> None:
    async def work() -> None:
        cache: MessageCache[str] = MessageCache()
        few = (message(),) * 100
        for number in range(MOST_MESSAGES // 100):
            assert not await is_full(cache, "new")
            cache.put(Pulled(f"q{number}", few, 1))
        assert await is_full(cache, "new")
        cache.drop("q3")
        assert not await is_full(cache, "new")
        assert not cache.holds("q3")
        taken = [await cache.take(0, lambda _: True) for _ in range(4)]
        assert [one and one.owner for one in taken] == ["q0", "q1", "q2", "q4"]

    run(work())


# ---- connections ------------------------------------------------------------------------------------


def test_one_that_gives_up_connecting_does_not_take_it_from_another(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.broker("b-a", "192.0.2.1:10911", T=1)
    at_once = Connection.open

    async def slowly(*given: object) -> Connection:
        await asyncio.sleep(1)
        return await at_once(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(Connection, "open", slowly)

    async def work() -> None:
        remote = Remote(RemotingCommand.not_supported, lambda _: None)

        def ask() -> asyncio.Task[int]:
            beat = RemotingCommand(34, body=b'{"clientID":"c"}')
            asked = remote.ask("192.0.2.1:10911", beat, lambda one: one.code, seconds=5)
            return asyncio.create_task(asked)

        first, second = ask(), ask()
        await asyncio.sleep(0.5)
        first.cancel()
        assert await second == 0
        assert remote.connected() == ["192.0.2.1:10911"]
        third = ask()
        remote.close()
        with pytest.raises(NotReachedError, match="this client was closed"):
            await third
        assert remote.connected() == []

    run(work())
