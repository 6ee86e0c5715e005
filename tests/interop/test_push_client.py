"""Our push consumers against the real broker and against ours: retries, dead letters, and queues in order."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Iterator

import pytest
from interop.served import KINDS, Served, create_topic, serving
from support.eventually import eventually, eventually_async

from rmqcore.client import (
    AsyncPushConsumer,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
)

FIRST = "CONSUME_FROM_FIRST_OFFSET"


@pytest.fixture(scope="module", params=KINDS)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    with serving(request.param, tmp_path_factory.mktemp("broker")) as made:
        yield made


def test_a_message_that_fails_comes_again_and_ends_among_the_dead_letters(broker: Served) -> None:
    topic, group = create_topic(broker), "pushing"
    tries: list[ReceivedMessage] = []
    finished: set[bytes] = set()

    def handler(message: ReceivedMessage) -> None:
        if message.body == b"3":
            tries.append(message)
            raise RuntimeError("no")
        finished.add(message.body)

    def dead_letters() -> list[ReceivedMessage]:
        with PullConsumer(broker.namesrv, "burying", consume_from=FIRST) as reader:
            reader.subscribe(f"%DLQ%{group}")
            return reader.poll(1)

    with (
        Producer(broker.namesrv) as producer,
        PushConsumer(
            broker.namesrv, group, consume_from=FIRST, max_reconsume_times=2, delay_level=1
        ) as consumer,
    ):
        sent = [producer.send(topic, b"%d" % number) for number in range(6)]
        consumer.subscribe(topic)

        run = threading.Thread(target=consumer.run, args=(handler,))
        run.start()
        eventually(lambda: len(tries) == 3 and len(finished) == 5)
        (dead,) = eventually(dead_letters)
        consumer.stop()
        run.join()
    assert [(one.topic, one.reconsume_times) for one in tries] == [(topic, n) for n in range(3)]
    assert {one.msg_id for one in [*tries, dead]} == {sent[3].msg_id}
    assert (dead.body, dead.properties["RETRY_TOPIC"]) == (b"3", topic)
    with PullConsumer(broker.namesrv, group, consume_from=FIRST) as reader:
        reader.subscribe(topic)
        assert reader.poll(1) == []  # all of it is committed


def test_two_members_consume_each_queue_in_order(broker: Served) -> None:
    topic, group = create_topic(broker), "in_order"
    with Producer(broker.namesrv) as producer:
        for number in range(120):
            producer.send(topic, b"%03d" % number)

    async def work() -> None:
        finished: dict[int, list[bytes]] = defaultdict(list)
        failed: set[bytes] = set()
        busy: set[int] = set()

        async def handler(message: ReceivedMessage) -> None:
            assert message.queue_id not in busy
            busy.add(message.queue_id)
            await asyncio.sleep(0.05)
            busy.discard(message.queue_id)
            if message.body.endswith(b"7") and message.body not in failed:
                failed.add(message.body)
                raise RuntimeError("once")
            finished[message.queue_id].append(message.body)

        members = [
            AsyncPushConsumer(broker.namesrv, group, consume_from=FIRST, orderly=True)
            for _ in range(2)
        ]
        runs = []
        for member in members:
            await member.subscribe(topic)
            runs.append(asyncio.create_task(member.run(handler)))
            await eventually_async(lambda: len(finished) > 0)
        await eventually_async(lambda: sum(map(len, finished.values())) >= 120)
        shares = [{one for one in member.assignment() if one.topic == topic} for member in members]
        assert [len(share) for share in shares] == [2, 2]
        for member in members:
            await member.close()
        await asyncio.gather(*runs)
        for found in finished.values():
            assert found == sorted(set(found))
        assert sorted(body for found in finished.values() for body in found) == [
            b"%03d" % number for number in range(120)
        ]

    asyncio.run(work())
    with PullConsumer(broker.namesrv, group, consume_from=FIRST) as reader:
        reader.subscribe(topic)
        assert reader.poll(1) == []
