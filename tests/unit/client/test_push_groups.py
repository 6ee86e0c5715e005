"""Members of a group that are given messages: rebalances in the middle of work, and queues that are consumed in order."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

import pytest
from support.fake_cluster import NAMESRV, FakeBroker, FakeCluster, run
from support.push_broker import LOCK, UNLOCK, bodies, push_broker, refuse

from rmqcore.client import AsyncPushConsumer, ReceivedMessage
from rmqcore.errors import AnswerTimeoutError

COMMIT = 15
DLQ = "%DLQ%g"


@pytest.fixture
def broker(cluster: FakeCluster) -> FakeBroker:
    return push_broker(cluster, T=2)


def consumer(**settings: Any) -> AsyncPushConsumer:
    return AsyncPushConsumer(NAMESRV, "g", consume_from="CONSUME_FROM_FIRST_OFFSET", **settings)


def offsets(broker: FakeBroker) -> dict[int, int]:
    return {key[2]: at for key, at in broker.offsets.items() if key[:2] == ("g", "T")}


def queues(member: AsyncPushConsumer) -> set[int]:
    return {one.queue_id for one in member.assignment() if one.topic == "T"}


class Work:
    """What all members of a group do, with the time of each step."""

    def __init__(self, seconds: float = 1.0) -> None:
        self.seconds = seconds
        self.fail: set[bytes] = set()
        self.begun: list[tuple[int, bytes]] = []
        self.ended: list[tuple[int, bytes]] = []
        self.times: list[int] = []
        self._busy: dict[int, int] = defaultdict(int)
        self.most_at_once = 0

    async def __call__(self, message: ReceivedMessage) -> None:
        one = message.queue_id, message.body
        self.begun.append(one)
        self.times.append(message.reconsume_times)
        self._busy[message.queue_id] += 1
        self.most_at_once = max(self.most_at_once, self._busy[message.queue_id])
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self._busy[message.queue_id] -= 1
        if message.body in self.fail:
            raise RuntimeError("no")
        self.ended.append(one)

    def of(self, queue_id: int) -> list[bytes]:
        return [body for queue, body in self.ended if queue == queue_id]


async def member_of(work: Work, **settings: Any) -> tuple[AsyncPushConsumer, asyncio.Task[None]]:
    member = consumer(**settings)
    await member.subscribe("T")
    return member, asyncio.create_task(member.run(work))


def put(broker: FakeBroker, count: int) -> list[bytes]:
    sent = [b"%03d" % number for number in range(count)]
    for queue_id in range(2):
        for body in sent:
            broker.put("T", queue_id, body)
    return sent


# ---- rebalances -------------------------------------------------------------------------------------


def test_two_members_share_the_queues_and_no_message_is_lost(broker: FakeBroker) -> None:
    sent = put(broker, 100)

    async def go() -> None:
        work = Work()
        first, first_run = await member_of(work, concurrency=4)
        await asyncio.sleep(5)
        second, second_run = await member_of(work, concurrency=4)
        await asyncio.sleep(5)
        assert {frozenset(queues(one)) for one in (first, second)} == {
            frozenset({0}),
            frozenset({1}),
        }
        await asyncio.sleep(60)
        for member in (first, second):
            await member.close()
        await asyncio.gather(first_run, second_run)
        assert [sorted(set(work.of(number))) for number in range(2)] == [sent, sent]
        assert offsets(broker) == {0: 100, 1: 100}
        again = len(work.ended) - 2 * len(sent)
        assert 0 <= again <= 8  # what was in work, or finished and not committed, at the rebalance

    run(go())


def test_a_queue_that_goes_while_its_message_is_in_work_is_committed_before_that_message(
    broker: FakeBroker,
) -> None:
    put(broker, 3)

    async def go() -> None:
        work = Work(60)
        first, first_run = await member_of(work)
        await asyncio.sleep(5)
        second = consumer()
        await second.subscribe("T")
        await asyncio.sleep(5)
        (gone,) = queues(second)
        assert offsets(broker)[gone] == 0
        await asyncio.sleep(80)
        assert offsets(broker) == {gone: 0, 1 - gone: 3}
        await first.close()
        await first_run
        await second.close()

    run(go())


def test_a_failure_of_a_message_whose_queue_has_gone_is_left_to_the_next_member(
    broker: FakeBroker,
) -> None:
    put(broker, 1)

    async def go() -> None:
        work = Work(60)
        work.fail = {b"000"}
        first, first_run = await member_of(work)
        await asyncio.sleep(5)
        second = consumer()
        await second.subscribe("T")
        await asyncio.sleep(70)
        assert len(bodies(broker, "%RETRY%g")) == 1
        await second.close()
        await first.close(timeout=0)
        await first_run

    run(go())


def test_unsubscribe_in_the_middle_of_a_rebalance_leaves_no_queue_behind(
    broker: FakeBroker,
) -> None:
    """The rebalance waited for a commit, and then took queues of the topic anew: no pull was possible, or followed later."""

    async def go() -> None:
        work = Work(0)
        first, first_run = await member_of(work)
        put(broker, 1)
        await asyncio.sleep(1)
        broker.silent.add(COMMIT)
        second = consumer()
        await second.subscribe("T")
        await asyncio.sleep(1)  # the first member waits for the commit of the queue that it leaves
        broker.silent.discard(COMMIT)
        await first.unsubscribe("T")
        await second.close()
        await asyncio.sleep(30)
        assert first.assignment() == []
        await first.subscribe("T")
        await asyncio.sleep(30)
        for queue_id in range(2):
            broker.put("T", queue_id, b"new")
        await asyncio.sleep(30)
        assert sorted(one for one in work.ended if one[1] == b"new") == [(0, b"new"), (1, b"new")]
        await first.close()
        await first_run

    run(go())


def test_a_subscribe_while_an_unsubscribe_still_commits_keeps_its_queues(
    broker: FakeBroker,
) -> None:
    """The rest of `unsubscribe` left the queue of the retry topic, which was read again only 20 s later."""
    put(broker, 1)

    async def go() -> None:
        work = Work()
        member, task = await member_of(work)
        await asyncio.sleep(1)
        broker.silent.add(COMMIT)
        with pytest.raises(AnswerTimeoutError):
            await member.unsubscribe("T", timeout=0.1)
        again = asyncio.create_task(member.subscribe("T"))
        await asyncio.sleep(0.1)
        broker.silent.discard(COMMIT)
        await again
        await asyncio.sleep(7)  # until the commit of the withdrawal has given up
        assert len(member.assignment()) == 3
        assert broker.members["g"]
        await member.close()
        await task

    run(go())


def test_a_member_that_reads_another_topic_keeps_its_part_of_the_queues(
    cluster: FakeCluster,
) -> None:
    """As in RocketMQ, whose members are those of a group and not of a topic."""
    push_broker(cluster, T=2, U=2)

    async def go() -> None:
        first, second = consumer(), consumer()
        for member in (first, second):
            await member.subscribe("T")
            await member.subscribe("U")
        await asyncio.sleep(30)
        await first.unsubscribe("T")
        await asyncio.sleep(60)
        assert len(queues(second)) == 1
        await first.unsubscribe("U")
        await asyncio.sleep(30)
        assert len(queues(second)) == 2
        await first.close()
        await second.close()

    run(go())


def test_unsubscribe_lets_work_end_and_leaves_the_group(broker: FakeBroker) -> None:
    put(broker, 2)

    async def go() -> None:
        work = Work(3)
        member, task = await member_of(work)
        await asyncio.sleep(1)
        await member.unsubscribe("T")
        assert member.assignment() == []
        await asyncio.sleep(10)
        assert len(work.ended) == 4
        assert broker.members["g"] == {}
        await member.subscribe("T")
        await asyncio.sleep(10)
        assert len(work.ended) == 8  # their queues had gone before they were finished
        await member.close()
        await task
        assert offsets(broker) == {0: 2, 1: 2}

    run(go())


# ---- in order ---------------------------------------------------------------------------------------


def test_each_queue_is_given_in_order_one_message_at_a_time(broker: FakeBroker) -> None:
    sent = put(broker, 20)

    async def go() -> None:
        work = Work()
        member, task = await member_of(work, orderly=True)
        await asyncio.sleep(30)
        await member.close()
        await task
        assert [work.of(number) for number in range(2)] == [sent, sent]
        assert work.most_at_once == 1
        assert offsets(broker) == {0: 20, 1: 20}
        assert broker.codes()[-2:] == [UNLOCK, 35]

    run(go())


def test_a_failure_stops_its_queue_and_the_same_message_is_given_again(broker: FakeBroker) -> None:
    sent = put(broker, 3)

    async def go() -> None:
        work = Work(0)
        work.fail = {b"001"}
        member, task = await member_of(work, orderly=True)
        await asyncio.sleep(20.5)
        assert work.of(0) == work.of(1) == [b"000"]
        assert offsets(broker) == {0: 1, 1: 1}
        tries = [
            times for times, one in zip(work.times, work.begun, strict=True) if one == (0, b"001")
        ]
        assert tries == list(range(21))  # each second, without an end
        work.fail.clear()
        await asyncio.sleep(5)
        assert work.of(0) == work.of(1) == sent
        await member.close()
        await task

    run(go())


def test_in_order_a_message_is_a_dead_letter_after_so_many_times_if_that_is_wanted(
    broker: FakeBroker,
) -> None:
    put(broker, 3)

    async def go() -> None:
        work = Work(0)
        work.fail = {b"001"}
        member, task = await member_of(work, orderly=True, max_reconsume_times=3)
        take, broker.hooks[36] = broker.hooks[36], refuse
        await asyncio.sleep(10)
        assert work.of(0) == [b"000"]  # its broker did not take it: the queue waits
        broker.hooks[36] = take
        await asyncio.sleep(10)
        assert work.of(0) == [b"000", b"002"]
        assert bodies(broker, DLQ) == [b"001", b"001"]
        await member.close()
        await task
        assert offsets(broker) == {0: 3, 1: 3}

    run(go())


def test_a_queue_goes_to_another_member_only_when_its_work_has_ended(broker: FakeBroker) -> None:
    sent = put(broker, 30)

    async def go() -> None:
        work = Work(7)
        first, first_run = await member_of(work, orderly=True)
        await asyncio.sleep(3)
        second, second_run = await member_of(work, orderly=True)
        await asyncio.sleep(1)
        assert queues(second) == set()  # its message is in work still
        await asyncio.sleep(40)
        assert len(queues(first)) == len(queues(second)) == 1
        await first.close()
        await first_run
        await asyncio.sleep(30)
        assert queues(second) == {0, 1}
        await asyncio.sleep(300)
        await second.close()
        await second_run
        assert [work.of(number) for number in range(2)] == [sent, sent]  # in order, and each once
        assert work.most_at_once == 1
        assert offsets(broker) == {0: 30, 1: 30}

    run(go())


def test_a_queue_whose_lock_is_lost_is_not_consumed(broker: FakeBroker) -> None:
    put(broker, 300)

    async def go() -> None:
        work = Work()
        member, task = await member_of(work, orderly=True)
        lock = broker.hooks[LOCK]
        await asyncio.sleep(5)
        broker.silent.add(LOCK)
        await asyncio.sleep(30)
        stopped = len(work.ended)
        assert 40 < stopped < 70  # thirty seconds behind the last renewal
        await asyncio.sleep(60)
        assert len(work.ended) == stopped
        broker.silent.clear()
        broker.hooks[LOCK] = lock
        await asyncio.sleep(400)
        await member.close()
        await task
        for number in range(2):
            assert sorted(set(work.of(number))) == [b"%03d" % one for one in range(300)]
        assert work.most_at_once == 1

    run(go())


def test_a_queue_that_another_client_has_locked_is_read_when_it_is_free(broker: FakeBroker) -> None:
    put(broker, 2)

    async def go() -> None:
        lock, broker.hooks[LOCK] = broker.hooks[LOCK], lambda one: one.response(body=b"{}")
        work = Work()
        member, task = await member_of(work, orderly=True)
        await asyncio.sleep(30)
        assert work.begun == []
        broker.hooks[LOCK] = lock
        await asyncio.sleep(10)
        assert len(work.ended) == 4
        await member.close()
        await task

    run(go())


def test_a_loop_in_order_has_one_message_of_each_queue(broker: FakeBroker) -> None:
    sent = put(broker, 5)

    async def go() -> None:
        found: list[tuple[int, bytes]] = []
        async with consumer(orderly=True) as member:
            await member.subscribe("T")
            async for message in member:
                found.append((message.queue_id, message.body))
                if len(found) == 10:
                    break
        for number in range(2):
            assert [body for queue_id, body in found if queue_id == number] == sent
        assert sorted(offsets(broker).values()) == [4, 5]

    run(go())
