"""The push consumer over a cluster without sockets: what is finished, what comes again, and what the group's offsets cover."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from support.fake_cluster import NAMESRV, NOW_MS, FakeBroker, FakeCluster, run
from support.push_broker import SEND_BACK, bodies, push_broker, refuse

from rmqcore.client import AsyncPushConsumer, ConsumeStatus, HeldLimits, ReceivedMessage
from rmqcore.errors import ClientClosedError, ClientError
from rmqcore.remoting.codes import RequestCode

PULL, COMMIT = 361, 15
DLQ = "%DLQ%g"
RETRY = "%RETRY%g"


@pytest.fixture
def broker(cluster: FakeCluster) -> FakeBroker:
    return push_broker(cluster, T=2)


def consumer(**settings: Any) -> AsyncPushConsumer:
    begin = {"consume_from": "CONSUME_FROM_FIRST_OFFSET", "now_ms": lambda: NOW_MS}
    return AsyncPushConsumer(NAMESRV, "g", **{**begin, **settings})


def offsets(broker: FakeBroker, topic: str = "T") -> dict[int, int]:
    return {key[2]: at for key, at in broker.offsets.items() if key[:2] == ("g", topic)}


def put(broker: FakeBroker, count: int, queue_id: int = 0) -> list[bytes]:
    made = [b"%d" % number for number in range(count)]
    for body in made:
        broker.put("T", queue_id, body)
    return made


class Handler:
    """Keeps the messages that it is given; does with each body what it is told."""

    def __init__(self, **outcomes: Any) -> None:
        self.seen: list[ReceivedMessage] = []
        self.finished: list[bytes] = []
        self._outcomes = {name[1:].encode(): outcome for name, outcome in outcomes.items()}

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.seen]

    async def __call__(self, message: ReceivedMessage) -> ConsumeStatus | None:
        self.seen.append(message)
        outcome = self._outcomes.get(message.body)
        if isinstance(outcome, BaseException):
            raise outcome
        if isinstance(outcome, asyncio.Event):
            await outcome.wait()
            outcome = None
        if outcome is None:
            self.finished.append(message.body)
        return outcome


async def running(member: AsyncPushConsumer, handler: Handler, count: int, **more: Any) -> None:
    """Run until the handler has seen so many messages, and stop."""
    task = asyncio.create_task(member.run(handler, **more))
    while len(handler.seen) < count:
        assert not task.done(), task.result()
        await asyncio.sleep(0.1)
    member.stop()
    await task


# ---- the way of a message ---------------------------------------------------------------------------


def test_each_message_is_given_once_and_committed_when_it_is_finished(broker: FakeBroker) -> None:
    sent = put(broker, 40) + put(broker, 40, 1)

    async def work() -> None:
        handler = Handler()
        async with consumer() as member:
            await member.subscribe("T")
            await running(member, handler, 80)
        assert sorted(handler.bodies) == sorted(sent)
        assert offsets(broker) == {0: 40, 1: 40}
        (beat,) = {one.consume_type for beat in broker.beats for one in beat.consumers}
        assert beat == "CONSUME_PASSIVELY"
        topics = {one.topic for one in broker.beats[-1].consumers[0].subscriptions}
        assert topics == {"T", RETRY}
        async with consumer() as member:
            await member.subscribe("T")
            broker.put("T", 0, b"late")
            late = Handler()
            await running(member, late, 1)
        assert late.bodies == [b"late"]

    run(work())


def test_the_offset_is_the_lowest_message_that_is_not_finished(broker: FakeBroker) -> None:
    put(broker, 6)

    async def work() -> None:
        slow = asyncio.Event()
        handler = Handler(_2=slow)
        async with consumer() as member:
            await member.subscribe("T")
            task = asyncio.create_task(member.run(handler, concurrency=3))
            await asyncio.sleep(11)
            assert sorted(handler.finished) == [b"0", b"1", b"3", b"4", b"5"]
            assert offsets(broker) == {0: 2, 1: 0}
            slow.set()
            await asyncio.sleep(6)
            assert offsets(broker)[0] == 6
            member.stop()
            await task

    run(work())


def test_where_a_new_group_begins_is_committed_before_any_message(broker: FakeBroker) -> None:
    """A member that left before the first message took the group's place with it: messages were skipped."""
    put(broker, 3)

    async def work() -> None:
        async with consumer(consume_from="CONSUME_FROM_LAST_OFFSET") as member:
            await member.subscribe("T")
        assert offsets(broker) == {0: 3, 1: 0}
        put(broker, 1)
        async with consumer(consume_from="CONSUME_FROM_LAST_OFFSET") as member:
            await member.subscribe("T")
            handler = Handler()
            await running(member, handler, 1)
        assert handler.seen[0].queue_offset == 3

    run(work())


def test_only_the_tags_of_the_expression_are_given_and_the_others_are_passed(
    broker: FakeBroker,
) -> None:
    for number, tag in enumerate("ABAB"):
        broker.put("T", 0, b"%d" % number, tags=tag)

    async def work() -> None:
        handler = Handler()
        async with consumer() as member:
            await member.subscribe("T", "A || C")
            await running(member, handler, 2)
        assert handler.bodies == [b"0", b"2"]
        assert offsets(broker)[0] == 4

    run(work())


# ---- failures ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "outcome",
    [RuntimeError("no"), asyncio.CancelledError(), ConsumeStatus.RECONSUME_LATER],
    ids=["raises", "is_cancelled_by_itself", "later"],
)
def test_a_failure_sends_the_message_back_and_it_comes_again_until_it_is_a_dead_letter(
    broker: FakeBroker, outcome: object
) -> None:
    put(broker, 3)

    async def work() -> None:
        handler = Handler(_1=outcome)
        async with consumer(max_reconsume_times=2, delay_level=4) as member:
            await member.subscribe("T")
            await running(member, handler, 5)
        tries = [message for message in handler.seen if message.body == b"1"]
        assert [(one.topic, one.reconsume_times) for one in tries] == [("T", 0), ("T", 1), ("T", 2)]
        assert [one.queue.topic for one in tries] == ["T", RETRY, RETRY]
        assert bodies(broker, DLQ) == [b"1"]
        assert offsets(broker)[0] == 3
        assert offsets(broker, RETRY) == {0: 2}

    run(work())
    asked = [one.ext_fields for one in broker.asked if one.code == SEND_BACK]
    assert {(one["originTopic"], one["delayLevel"]) for one in asked} == {("T", "4")}
    assert {one["maxReconsumeTimes"] for one in asked} == {"2"}


def test_a_message_that_its_broker_does_not_take_back_is_given_again(broker: FakeBroker) -> None:
    put(broker, 2)
    take = broker.hooks[SEND_BACK]
    broker.hooks[SEND_BACK] = refuse

    async def work() -> None:
        handler = Handler(_0=RuntimeError("no"))
        async with consumer() as member:
            await member.subscribe("T")
            task = asyncio.create_task(member.run(handler))
            await asyncio.sleep(14)
            times = [one.reconsume_times for one in handler.seen if one.body == b"0"]
            assert times == [0, 1, 2]  # each five seconds
            assert offsets(broker)[0] == 0
            broker.hooks[SEND_BACK] = take
            handler._outcomes.clear()
            await asyncio.sleep(6)
            member.stop()
            await task
        assert handler.finished == [b"1", b"0"]
        assert offsets(broker)[0] == 2

    run(work())


def test_a_handler_that_returns_something_else_is_a_mistake_of_the_program(
    broker: FakeBroker,
) -> None:
    put(broker, 1)

    async def work() -> None:
        async with consumer() as member:
            await member.subscribe("T")
            with pytest.raises(TypeError, match="returned False, expected None"):
                await member.run(Handler(_0=False))
            with pytest.raises(TypeError, match="expected a coroutine"):
                await member.run(lambda _: None)  # type: ignore[arg-type, return-value]
        assert offsets(broker)[0] == 0

    run(work())
    assert SEND_BACK not in broker.codes()


# ---- cancellation and the end -----------------------------------------------------------------------


def test_a_cancelled_run_gives_its_messages_again(broker: FakeBroker) -> None:
    put(broker, 4)

    async def work() -> None:
        first = Handler(_0=asyncio.Event(), _2=asyncio.Event())
        async with consumer() as member:
            await member.subscribe("T")
            task = asyncio.create_task(member.run(first))
            await asyncio.sleep(1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert sorted(first.finished) == [b"1", b"3"]
            second = Handler()
            await running(member, second, 2)
            assert sorted(second.bodies) == [b"0", b"2"]
        assert offsets(broker)[0] == 4

    run(work())
    assert SEND_BACK not in broker.codes()


def test_a_handler_that_finishes_in_spite_of_its_cancellation_counts(broker: FakeBroker) -> None:
    put(broker, 1)

    async def stubborn(_: ReceivedMessage) -> None:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            await asyncio.sleep(1)

    async def work() -> None:
        async with consumer() as member:
            await member.subscribe("T")
            task = asyncio.create_task(member.run(stubborn))
            await asyncio.sleep(1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert offsets(broker)[0] == 1

    run(work())


def test_close_waits_for_the_messages_in_work_and_gives_no_further_ones(broker: FakeBroker) -> None:
    put(broker, 20)

    async def work() -> None:
        async def slow(message: ReceivedMessage) -> None:
            seen.append(message.body)
            await asyncio.sleep(10)
            finished.append(message.body)

        seen: list[bytes] = []
        finished: list[bytes] = []
        member = consumer()
        await member.subscribe("T")
        task = asyncio.create_task(member.run(slow, concurrency=4))
        await asyncio.sleep(1)
        await member.close()
        await task
        assert sorted(seen) == sorted(finished) == [b"0", b"1", b"2", b"3"]
        assert offsets(broker)[0] == 4
        await member.close()
        with pytest.raises(ClientClosedError):
            await member.run(slow)
        with pytest.raises(ClientClosedError):
            aiter(member)
        with pytest.raises(ClientClosedError):
            await member.subscribe("U")

    run(work())


def test_close_cancels_handlers_that_take_longer_than_its_time(broker: FakeBroker) -> None:
    put(broker, 2)

    async def work() -> None:
        handler = Handler(_1=asyncio.Event())
        member = consumer()
        await member.subscribe("T")
        task = asyncio.create_task(member.run(handler))
        await asyncio.sleep(1)
        loop = asyncio.get_running_loop()
        began = loop.time()
        await member.close(timeout=5)
        assert 3 <= loop.time() - began < 3.1
        await task
        assert offsets(broker)[0] == 1

    run(work())


@pytest.mark.parametrize("seconds", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("hangs", [False, True])
@pytest.mark.parametrize("orderly", [False, True])
def test_close_ends_in_its_time_with_handlers_that_do_not(
    broker: FakeBroker, seconds: float, hangs: bool, orderly: bool
) -> None:
    """It took two seconds more: one for the cancelled handlers, one for the commit."""
    put(broker, 2)

    async def work() -> None:
        may_end = asyncio.Event()

        async def stubborn(message: ReceivedMessage) -> None:
            while message.body == b"1" and not may_end.is_set():
                with suppress(asyncio.CancelledError):
                    await may_end.wait()

        member = consumer(orderly=orderly)
        await member.subscribe("T")
        task = asyncio.create_task(member.run(stubborn))
        await asyncio.sleep(1)
        loop = asyncio.get_running_loop()
        if hangs:
            broker.silent |= set(RequestCode)
        began = loop.time()
        await member.close(timeout=seconds)
        assert loop.time() - began <= seconds + 0.101
        assert offsets(broker).get(0, 0) == (not hangs), "the message in work is not committed"
        may_end.set()
        await task
        assert not broker.pipes

    run(work())


def test_a_close_that_is_cancelled_leaves_no_member_behind(broker: FakeBroker) -> None:
    """Its heartbeats went on: the member kept its share of the queues, and read none of them."""
    put(broker, 2)

    async def work() -> None:
        slow = asyncio.Event()
        member = consumer()
        await member.subscribe("T")
        task = asyncio.create_task(member.run(Handler(_0=slow)))
        await asyncio.sleep(1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await member.close()
        assert broker.pipes == []
        slow.set()
        await member.close()
        await task
        broker.members.clear()  # as a broker does whose connection is closed
        async with consumer() as other:
            await other.subscribe("T")
            handler = Handler()
            await running(other, handler, 2)
        assert offsets(broker)[0] == 2

    run(work())


def test_a_handler_stops_its_run_and_may_not_close(broker: FakeBroker) -> None:
    put(broker, 1)

    async def work() -> None:
        async def handler(_: ReceivedMessage) -> None:
            with pytest.raises(ClientError, match=r"stop\(\)"):
                await member.close()
            member.stop()

        async with consumer() as member:
            await member.subscribe("T")
            await member.run(handler)
        assert offsets(broker)[0] == 1

    run(work())


def test_nothing_is_subscribed(broker: FakeBroker) -> None:
    async def work() -> None:
        async with consumer() as member:
            with pytest.raises(ClientError, match="nothing is subscribed"):
                await member.run(Handler())
            with pytest.raises(ClientError, match="nothing is subscribed"):
                aiter(member)

    run(work())


@pytest.mark.parametrize(
    "wrong",
    [
        {"concurrency": 0},
        {"pull_batch_size": 0},
        {"max_reconsume_times": -1},
        {"delay_level": -1},
        {"consume_from": "SOMEWHERE"},
    ],
)
def test_settings_out_of_range(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"is -?\d|SOMEWHERE"):
        consumer(**wrong)


@pytest.mark.parametrize(
    "name", ["messages", "size", "messages_of_queue", "size_of_queue", "span_of_queue"]
)
def test_limits_under_which_nothing_would_be_pulled_are_refused(name: str) -> None:
    """With `HeldLimits(messages=0)` a consumer waited for ever, and nothing said why."""
    least = int(name != "span_of_queue")
    assert getattr(HeldLimits(**{name: least}), name) == least
    with pytest.raises(ValueError, match=rf"{name} is {least - 1}, expected at least {least}"):
        HeldLimits(**{name: least - 1})
    with pytest.raises(TypeError, match=f"{name}: expected"):
        HeldLimits(**{name: 1.5})  # type: ignore[arg-type]


def test_a_failure_of_a_handler_is_one_line(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        async def fails(message: ReceivedMessage) -> None:
            member.stop()
            raise RuntimeError("by the test")

        async with consumer() as member:
            await member.subscribe("T")
            broker.put("T", 0, b"x")
            await member.run(fails, 1)

    run(work())
    assert len([line for line in caplog.messages if "by the test" in line]) == 1


def test_arguments_of_a_wrong_type(broker: FakeBroker) -> None:
    with pytest.raises(TypeError, match="concurrency: expected"):
        consumer(concurrency="8")

    async def work() -> None:
        async with consumer() as member:
            with pytest.raises(TypeError, match="topic: expected"):
                await member.subscribe(b"T")  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="topic: expected"):
                await member.unsubscribe(b"T")  # type: ignore[arg-type]

    run(work())


# ---- loops ------------------------------------------------------------------------------------------


def test_asking_for_the_next_message_finishes_the_one_before(broker: FakeBroker) -> None:
    put(broker, 4)

    async def work() -> None:
        member = consumer()
        await member.subscribe("T")
        async for message in member:
            if message.body == b"2":
                break
        await member.close()
        assert offsets(broker)[0] == 2

    run(work())


def test_finish_counts_before_a_loop_is_left(broker: FakeBroker) -> None:
    put(broker, 2)

    async def work() -> None:
        async with consumer() as member:
            await member.subscribe("T")
            async for message in member:
                member.finish(message)
                member.finish(message)
                break
        assert offsets(broker)[0] == 1

    run(work())


async def fails_in_its_body(member: AsyncPushConsumer) -> None:
    async for _ in member:
        raise ZeroDivisionError


def test_what_a_loop_left_in_its_body_comes_again(broker: FakeBroker) -> None:
    put(broker, 2)

    async def work() -> None:
        async with consumer() as member:
            await member.subscribe("T")
            with pytest.raises(ZeroDivisionError):
                await fails_in_its_body(member)

            async def held(found: list[bytes]) -> None:
                async for message in member:
                    found.append(message.body)
                    await asyncio.sleep(100)

            found: list[bytes] = []
            task = asyncio.create_task(held(found))
            await asyncio.sleep(1)
            task.cancel()
            await asyncio.wait([task])
            assert found == [b"0"]
            del task
            async for message in member:
                found.append(message.body)
                if message.body == b"1":
                    break
            assert found == [b"0", b"0", b"1"]
        assert offsets(broker)[0] == 1

    run(work())


def test_loops_of_several_tasks_share_the_messages_and_end_at_close(broker: FakeBroker) -> None:
    sent = put(broker, 30)

    async def work() -> None:
        found: list[bytes] = []

        async def loop() -> None:
            async for message in member:
                found.append(message.body)
                await asyncio.sleep(1)

        member = consumer()
        await member.subscribe("T")
        tasks = [asyncio.create_task(loop()) for _ in range(3)]
        await asyncio.sleep(60)
        await member.close()
        await asyncio.gather(*tasks)
        assert sorted(found) == sorted(sent)
        assert offsets(broker)[0] == 30

    run(work())


def test_a_loop_that_is_cancelled_while_it_waits_loses_nothing(broker: FakeBroker) -> None:
    async def work() -> None:
        async with consumer() as member:
            await member.subscribe("T")
            messages = aiter(member)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(messages), 5)
            put(broker, 1)
            assert (await asyncio.wait_for(anext(messages), 5)).body == b"0"

    run(work())


# ---- limits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limits",
    [
        HeldLimits(messages=8),
        HeldLimits(messages_of_queue=8),
        HeldLimits(size=800),
        HeldLimits(size_of_queue=800),
    ],
    ids=["messages", "messages_of_queue", "size", "size_of_queue"],
)
def test_no_more_is_held_than_the_limits_allow(broker: FakeBroker, limits: HeldLimits) -> None:
    sent = put(broker, 200)

    async def work() -> None:
        async with consumer(limits=limits, pull_batch_size=4) as member:
            await member.subscribe("T")
            await asyncio.sleep(60)
            pulls = [one.ext_fields for one in broker.asked if one.code == PULL]
            assert max(int(one["queueOffset"]) for one in pulls if one["topic"] == "T") <= 12
            handler = Handler()
            await running(member, handler, 200)
        assert sorted(handler.bodies) == sorted(sent)
        assert offsets(broker)[0] == 200

    run(work())


def test_a_message_that_does_not_end_bounds_what_comes_again_after_a_crash(
    broker: FakeBroker,
) -> None:
    put(broker, 500)

    async def work() -> None:
        stuck = asyncio.Event()
        handler = Handler(_0=stuck)
        limits = HeldLimits(span_of_queue=100)
        async with consumer(limits=limits) as member:
            await member.subscribe("T")
            task = asyncio.create_task(member.run(handler))
            await asyncio.sleep(60)
            assert 100 <= len(handler.finished) < 200
            assert offsets(broker)[0] == 0
            stuck.set()
            await asyncio.sleep(60)
            member.stop()
            await task
        assert len(handler.finished) == 500

    run(work())
