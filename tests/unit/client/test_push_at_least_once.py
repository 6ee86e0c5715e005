"""At least once, whatever happens: nothing is committed that a handler has not finished, and nothing is left out."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

import pytest
from support.doses import dose
from support.fake_cluster import NAMESRV, FakeBroker, FakeCluster, fake_cluster, run
from support.push_broker import SEND_BACK, push_broker, record, refuse

from rmqcore.client import AsyncPushConsumer, ConsumeStatus, ReceivedMessage
from rmqcore.codec import decode
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.request_fields import parse_fields

COMMIT = 15
ROUNDS = dose("random lives of push consumers", test=8, verify=200, night=5000)
STEPS = dose("cancellations of a push consumer", test=60, verify=300, night=1500)


class Judge:
    """Compares each commit with what handlers have finished, and with what was sent back."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.finished: set[tuple[str, int, int]] = set()
        self.commits = 0
        take = broker.hooks[SEND_BACK]

        def send_back(request: RemotingCommand) -> RemotingCommand | None:
            fields = parse_fields(RequestCode(SEND_BACK), request.ext_fields)
            view = record(broker, fields.number("offset"))
            if self.refuses():
                return refuse(request)
            self.finished.add((view.topic, view.queue_id, view.queue_offset))
            return take(request)

        def commit(request: RemotingCommand) -> RemotingCommand:
            fields = parse_fields(RequestCode(COMMIT), request.ext_fields)
            topic, queue_id = fields.text("topic"), fields.number("queueId")
            self.commits += 1
            for queue_offset in range(fields.number("commitOffset")):
                where = (topic, queue_id, queue_offset)
                assert where in self.finished, f"committed and not finished: {where}"
            broker.offsets[fields.text("consumerGroup"), topic, queue_id] = fields.number(
                "commitOffset"
            )
            return request.response()

        broker.hooks |= {SEND_BACK: send_back, COMMIT: commit}

    def refuses(self) -> bool:
        return False

    def finish(self, message: ReceivedMessage) -> None:
        self.finished.add((message.queue.topic, message.queue_id, message.queue_offset))

    def bodies(self) -> set[bytes]:
        found = set()
        for topic, queue_id, queue_offset in self.finished:
            found.add(decode(self.broker.queues[topic, queue_id][queue_offset]).body)
        return found


def errors_of_hooks(work: Coroutine[Any, Any, None]) -> None:
    """Run a test; what its hooks raise in callbacks of the loop fails it."""
    raised: list[object] = []

    async def watched() -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: raised.append(context.get("exception", context))
        )
        await work

    run(watched())
    assert raised == []


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
def test_random_lives(orderly: bool) -> None:
    for number in range(ROUNDS):
        with fake_cluster() as cluster:
            errors_of_hooks(_live(cluster, random.Random(number), orderly))


async def _live(cluster: FakeCluster, chance: random.Random, orderly: bool) -> None:
    broker = push_broker(cluster, T=3)
    judge = Judge(broker)
    quiet = False
    judge.refuses = lambda: not quiet and chance.random() < 0.3  # type: ignore[method-assign]

    async def handler(message: ReceivedMessage) -> ConsumeStatus | None:
        if not quiet:
            await asyncio.sleep(chance.choice([0, 0, 0.5, 3, 20]))
            match chance.randrange(8):
                case 0:
                    raise RuntimeError("no")
                case 1:
                    return ConsumeStatus.RECONSUME_LATER
        judge.finish(message)
        return None

    async def member() -> None:
        one = AsyncPushConsumer(
            NAMESRV, "g", consume_from="CONSUME_FROM_FIRST_OFFSET", orderly=orderly
        )
        await one.subscribe("T")
        if chance.random() < 0.5:
            task = asyncio.create_task(one.run(handler, concurrency=chance.randrange(1, 6)))
        else:
            task = asyncio.create_task(loop(one))
        await asyncio.sleep(chance.randrange(60))
        match chance.randrange(4):
            case 0:
                one.abandon()  # as after a kill
                task.cancel()
            case 1:
                task.cancel()
                await asyncio.wait([task])
                await one.close()
            case 2:
                await one.close(timeout=chance.choice([0, 2, 30]))
            case _:
                one.stop()
                await one.close()
        task.cancel()
        await asyncio.wait([task])

    async def loop(one: AsyncPushConsumer) -> None:
        async for message in one:
            await asyncio.sleep(chance.choice([0, 0, 1]))
            if chance.random() < 0.05:
                return
            judge.finish(message)

    sent = {b"%d" % number for number in range(60)}
    members = [asyncio.create_task(member()) for _ in range(4)]
    for body in sorted(sent):
        broker.put("T", chance.randrange(3), body)
        await asyncio.sleep(chance.choice([0, 0, 0, 1]))
    await asyncio.gather(*members)
    quiet = True
    await asyncio.sleep(90)  # members that were killed are forgotten, and their locks
    broker.members.clear()
    last = AsyncPushConsumer(
        NAMESRV, "g", consume_from="CONSUME_FROM_FIRST_OFFSET", orderly=orderly
    )
    await last.subscribe("T")
    task = asyncio.create_task(last.run(handler))
    await asyncio.sleep(300)
    await last.close()
    await task
    assert judge.bodies() == sent
    assert judge.commits > 0
    for key, records in broker.queues.items():
        if key[0] in {"T", "%RETRY%g"}:
            assert broker.offsets["g", *key] == len(records)


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
def test_a_cancellation_at_every_step(orderly: bool) -> None:
    """A program that is cancelled between any two steps of its loop, and again while it ends, has every message."""
    steps = 0
    while steps < STEPS:
        with fake_cluster() as cluster:
            errors_of_hooks(_cancelled_after(cluster, steps, orderly))
        steps += 1


async def _cancelled_after(cluster: FakeCluster, steps: int, orderly: bool) -> None:
    broker = push_broker(cluster, T=2)
    judge = Judge(broker)
    for number in range(6):
        broker.put("T", number % 2, b"%d" % number)

    async def program(again: bool) -> None:
        async def handler(message: ReceivedMessage) -> None:
            if message.body == b"3" and message.queue.topic == "T" and not again and not orderly:
                raise RuntimeError("no")
            await asyncio.sleep(0)
            judge.finish(message)

        settings: dict[str, Any] = {"consume_from": "CONSUME_FROM_FIRST_OFFSET"}
        async with AsyncPushConsumer(NAMESRV, "g", orderly=orderly, **settings) as one:
            await one.subscribe("T")
            if not again and steps % 2:
                async for message in one:
                    await asyncio.sleep(0)
                    judge.finish(message)
            else:
                await one.run(handler, concurrency=2)

    task = asyncio.create_task(program(again=False))
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    if steps % 3 == 0:
        for _ in range(steps * 5 % 17):
            await asyncio.sleep(0)
        task.cancel()
    await asyncio.wait([task])
    await asyncio.sleep(90)
    broker.members.clear()
    task = asyncio.create_task(program(again=True))
    await asyncio.sleep(90)
    task.cancel()
    await asyncio.wait([task])
    assert judge.bodies() == {b"%d" % number for number in range(6)}
    assert {key[2]: at for key, at in broker.offsets.items() if key[1] == "T"} == {0: 3, 1: 3}
