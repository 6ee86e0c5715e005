"""What a broker asks members for an administrator: offsets that are reset, how far they are, and what they do."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from support.fake_cluster import NAMESRV, NOW_MS, FakeBroker, FakeCluster, run
from support.push_broker import push_broker

from rmqcore.client import AsyncPullConsumer, AsyncPushConsumer, ReceivedMessage
from rmqcore.remoting.bodies.queue_locks import MessageQueue
from rmqcore.remoting.bodies.queue_tables import encode_reset_offsets
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import ONEWAY_FLAG, RemotingCommand


@pytest.fixture
def broker(cluster: FakeCluster) -> FakeBroker:
    return push_broker(cluster, T=2)


def settings(**more: Any) -> dict[str, Any]:
    return {"consume_from": "CONSUME_FROM_FIRST_OFFSET", "now_ms": lambda: NOW_MS, **more}


def put(broker: FakeBroker, count: int, queue_id: int = 0) -> None:
    for number in range(count):
        broker.put("T", queue_id, b"%d" % number)


def reset(
    broker: FakeBroker, offsets: dict[int, int], *, group: str = "g", topic: str = "T"
) -> None:
    """Set offsets as an operator does: the broker stores them, and tells the members."""
    for queue_id, queue_offset in offsets.items():
        broker.offsets[group, topic, queue_id] = queue_offset
    tell(broker, offsets, group=group, topic=topic)


def tell(
    broker: FakeBroker, offsets: dict[int, int], *, group: str = "g", topic: str = "T"
) -> None:
    table = {MessageQueue("T", "b-a", queue_id): at for queue_id, at in offsets.items()}
    for pipe in broker.members["g"].values():
        pipe.send(
            RemotingCommand(
                RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
                flag=ONEWAY_FLAG,
                ext_fields={"topic": topic, "group": group, "timestamp": "0", "isForce": "true"},
                body=encode_reset_offsets(table),
            )
        )


def ask(broker: FakeBroker, code: RequestCode, **fields: str) -> None:
    (pipe,) = broker.members["g"].values()
    pipe.send(RemotingCommand(code, opaque=99, ext_fields=fields))


def answer(broker: FakeBroker) -> RemotingCommand:
    (found,) = (one for one in broker.asked if one.is_response and one.opaque == 99)
    return found


async def seen(bodies: list[bytes], count: int) -> None:
    async with asyncio.timeout(60):
        while True:
            await asyncio.sleep(0.5)
            if len(bodies) >= count:
                return


# ---- offsets ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("to", [0, 2, 5])
def test_a_push_consumer_goes_on_from_the_new_offset(
    broker: FakeBroker, orderly: bool, to: int
) -> None:
    bodies: list[bytes] = []

    async def handle(message: ReceivedMessage) -> None:
        bodies.append(message.body)

    async def work() -> None:
        put(broker, 5)
        async with AsyncPushConsumer(NAMESRV, "g", **settings(orderly=orderly)) as member:
            await member.subscribe("T")
            task = asyncio.create_task(member.run(handle))
            await seen(bodies, 5)
            reset(broker, {0: to})
            await seen(bodies, 10 - to)
            broker.put("T", 0, b"next")
            await seen(bodies, 11 - to)
            member.stop()
            await task

    run(work())
    again = [b"%d" % number for number in range(to, 5)]
    assert bodies == [b"0", b"1", b"2", b"3", b"4", *again, b"next"]
    assert broker.offsets["g", "T", 0] == 6


@pytest.mark.parametrize("orderly", [False, True])
def test_what_is_held_is_dropped_and_a_handler_at_work_does_not_move_the_offset(
    broker: FakeBroker, orderly: bool
) -> None:
    """A jump ahead: the messages before are not given any more, and the old message that is finished late does not count."""
    bodies: list[bytes] = []
    go_on = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        bodies.append(message.body)
        await go_on.wait()

    async def work() -> None:
        put(broker, 20)
        more = settings(orderly=orderly, concurrency=1)
        async with AsyncPushConsumer(NAMESRV, "g", **more) as member:
            await member.subscribe("T")
            task = asyncio.create_task(member.run(handle))
            await seen(bodies, 1)
            reset(broker, {0: 18})
            await asyncio.sleep(1.0)
            assert bodies == [b"0"]
            go_on.set()
            await seen(bodies, 3)
            assert bodies == [b"0", b"18", b"19"]
            member.stop()
            await task

    run(work())
    assert broker.offsets["g", "T", 0] == 20


def test_a_pull_consumer_goes_on_from_the_new_offset(broker: FakeBroker) -> None:
    async def work() -> None:
        put(broker, 5)
        async with AsyncPullConsumer(NAMESRV, "g", **settings()) as member:
            await member.subscribe("T")
            assert len(await member.poll(10)) == 5
            await member.commit()
            reset(broker, {0: 3})
            await asyncio.sleep(0.5)
            # What the program had before the reset does not move the group.
            await member.commit()
            assert broker.offsets["g", "T", 0] == 3
            assert [one.body for one in await member.poll(10)] == [b"3", b"4"]
            await member.commit()
            assert broker.offsets["g", "T", 0] == 5

    run(work())


@pytest.mark.parametrize("kind", [AsyncPullConsumer, AsyncPushConsumer])
def test_a_commit_in_progress_does_not_take_a_reset_back(broker: FakeBroker, kind: Any) -> None:
    """The broker stored the operator's offset, then a commit that was under way overwrote it."""

    async def work() -> None:
        put(broker, 5)
        async with kind(NAMESRV, "g", **settings()) as member:
            await member.subscribe("T")
            if kind is AsyncPullConsumer:
                assert len(await member.poll(10)) == 5
                await member.commit()
            broker.offsets["g", "T", 0] = 5
            tell(broker, {0: 1})
            await asyncio.sleep(2.0)
            assert broker.offsets["g", "T", 0] == 1

    run(work())


def test_other_groups_topics_and_queues_are_left_alone(broker: FakeBroker) -> None:
    async def work() -> None:
        put(broker, 3)
        async with AsyncPullConsumer(NAMESRV, "g", **settings()) as member:
            await member.subscribe("T")
            assert len(await member.poll(10)) == 3
            tell(broker, {0: 0}, group="another")
            tell(broker, {0: 0}, topic="U")
            tell(broker, {7: 0})
            for pipe in broker.members[
                "g"
            ].values():  # what is no table is refused, and nothing ends
                code, fields = (
                    RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
                    {"topic": "T", "group": "g"},
                )
                pipe.send(RemotingCommand(code, opaque=99, ext_fields=fields, body=b"{"))
            await asyncio.sleep(0.5)
            assert answer(broker).code == ResponseCode.SYSTEM_ERROR
            await member.commit()
            assert broker.offsets["g", "T", 0] == 3
            broker.put("T", 0, b"more")
            assert [one.body for one in await member.poll(10)] == [b"more"]

    run(work())


# ---- questions --------------------------------------------------------------------------------------


def test_how_far_a_member_is(broker: FakeBroker) -> None:
    async def work() -> None:
        put(broker, 3)
        async with AsyncPullConsumer(NAMESRV, "g", **settings()) as member:
            await member.subscribe("T")
            assert len(await member.poll(10)) == 3
            await member.commit()
            ask(broker, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, topic="T", group="g")
            await asyncio.sleep(0.1)

    run(work())
    found = answer(broker)
    assert found.code == ResponseCode.SUCCESS
    queue = b'{"brokerName":"b-a","queueId":0,"topic":"T"}:3'
    assert found.body == b'{"consumerTable":{},"messageQueueTable":{%s}}' % queue


def test_what_a_member_does(broker: FakeBroker) -> None:
    async def work() -> None:
        put(broker, 3)
        async with AsyncPushConsumer(NAMESRV, "g", **settings(orderly=True)) as member:
            await member.subscribe("T", "A || B")
            broker.put("T", 1, b"x", tags="A")
            await asyncio.sleep(0.5)
            ask(broker, RequestCode.GET_CONSUMER_RUNNING_INFO, consumerGroup="g", clientId="x")
            await asyncio.sleep(0.1)

    run(work())
    found = answer(broker)
    assert found.code == ResponseCode.SUCCESS
    text = found.body.decode()
    assert '{"brokerName":"b-a","queueId":1,"topic":"T"}:{"commitOffset":' in text
    assert '"locked":true' in text
    rest = json.loads("{" + text[text.index('"properties"') :])
    assert rest["properties"]["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
    assert rest["properties"]["PROP_NAMESERVER_ADDR"] == NAMESRV
    subscribed = {one["topic"]: one["subString"] for one in rest["subscriptionSet"]}
    assert subscribed == {"T": "A || B", "%RETRY%g": "*"}


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "h", "clientId": "x"}),
        (RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, {"topic": "T", "group": "h"}),
    ],
)
def test_another_group_is_not_in_this_client(
    broker: FakeBroker, code: RequestCode, fields: dict[str, str]
) -> None:
    async def work() -> None:
        async with AsyncPullConsumer(NAMESRV, "g", **settings()) as member:
            await member.subscribe("T")
            ask(broker, code, **fields)
            await asyncio.sleep(0.1)

    run(work())
    found = answer(broker)
    assert (found.code, found.remark) == (
        ResponseCode.SYSTEM_ERROR,
        "The Consumer Group <h> not exist in this consumer",
    )
