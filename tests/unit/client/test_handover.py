"""At least once: what an exception takes from a caller comes again, and nothing unfinished is committed."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from support.doses import dose
from support.fake_cluster import NAMESRV, NOW_MS, FakeBroker, FakeCluster, run

from rmqcore.client import (
    Admin,
    AsyncProducer,
    AsyncPullConsumer,
    Producer,
    PullConsumer,
    ReceivedMessage,
)
from rmqcore.client.handover import Handover, Progress
from rmqcore.client.message_cache import Pulled
from rmqcore.client.messages.unique_ids import UniqueIds
from rmqcore.errors import AnswerTimeoutError, ClientClosedError, ClientError
from rmqcore.remoting.command import RemotingCommand

ADDRESS = "192.0.2.1:10911"
FIRST: dict[str, Any] = {"consume_from": "CONSUME_FROM_FIRST_OFFSET"}
CLIENT = f"{os.sep}rmqcore{os.sep}client{os.sep}"
WAY_OF_A_BATCH = {
    "poll",
    "hand_over",
    "run",
    "take",
    "give",
    "settle",
    "finish",
    "put_back",
    "all_received",
    "received",
    "_begin",
}
STEPS = dose("injected exceptions in a poll", test=40, verify=400, night=4000)
ROUNDS = dose("random handovers", test=60, verify=600, night=10_000)


# Python says it of a coroutine whose call was interrupted before it could start.
not_awaited = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
never_awaited = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


class Injected(Exception):
    """What a signal handler of the program raises."""


@pytest.fixture
def broker(cluster: FakeCluster) -> FakeBroker:
    return cluster.broker("b-a", ADDRESS, T=2)


def raising_at(step: int) -> tuple[Callable[..., Any], list[int]]:
    """A trace function that raises before the step-th bytecode on a batch's way; and how many there were.

    Not before the last one of `poll`, RETURN_VALUE: no interpreter runs a signal handler there.
    """
    seen = [0]

    def trace(frame: FrameType, event: str, _arg: object) -> Any:
        code = frame.f_code
        if CLIENT not in code.co_filename or code.co_name not in WAY_OF_A_BATCH:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            if code.co_name == "poll" and code.co_code[frame.f_lasti] == RETURN_VALUE:
                return trace
            seen[0] += 1
            if seen[0] == step:
                raise Injected
        return trace

    return trace, seen


RETURN_VALUE = __import__("dis").opmap["RETURN_VALUE"]


@not_awaited
@never_awaited
def test_an_exception_at_any_bytecode_of_a_poll_loses_nothing(broker: FakeBroker) -> None:
    step = 0
    for _ in range(STEPS):
        step += 1
        queue = broker.queues["T", 0]
        queue.clear()
        broker.offsets.clear()
        for number in range(3):
            broker.put("T", 0, b"%d" % number)
        with PullConsumer(NAMESRV, "g", pull_batch_size=1, **FIRST) as consumer:
            consumer.subscribe("T")
            found: list[ReceivedMessage] = []
            trace, seen = raising_at(step)
            while len(found) < 3:
                sys.settrace(trace)
                try:
                    batch = consumer.poll(10)
                except Injected:
                    continue
                finally:
                    sys.settrace(None)
                found += batch
                consumer.commit()
                assert broker.offsets.get(("g", "T", 0)) == len(found)
            assert [message.body for message in found] == [b"0", b"1", b"2"]
        if seen[0] < step:
            return  # all of them were tried
        step += max(0, 400 // STEPS - 1)


@not_awaited
@never_awaited
def test_an_exception_at_any_bytecode_of_an_awaited_poll(broker: FakeBroker) -> None:
    async def work(step: int) -> int:
        broker.offsets.clear()
        async with AsyncPullConsumer(NAMESRV, "g", pull_batch_size=1, **FIRST) as consumer:
            await consumer.subscribe("T")
            found: list[bytes] = []
            trace, seen = raising_at(step)
            while len(found) < 3:
                sys.settrace(trace)
                try:
                    batch = await consumer.poll(10)
                except Injected:
                    continue
                finally:
                    sys.settrace(None)
                found += [message.body for message in batch]
                await consumer.commit()
                assert broker.offsets[("g", "T", 0)] == len(found)
            assert found == [b"0", b"1", b"2"]
            return seen[0]

    for number in range(3):
        broker.put("T", 0, b"%d" % number)
    stride = max(1, 400 // STEPS)
    for step in range(1, 10_000, stride):
        if run(work(step)) < step:
            return


def test_polls_that_are_cancelled_lose_nothing(broker: FakeBroker) -> None:
    for number in range(200):
        broker.put("T", number % 2, b"%d" % number)

    async def work() -> None:
        rng = random.Random(3)
        async with AsyncPullConsumer(NAMESRV, "g", pull_batch_size=3, **FIRST) as consumer:
            await consumer.subscribe("T")
            found: list[bytes] = []
            while len(found) < 200:
                poll = asyncio.ensure_future(consumer.poll(5))
                for _ in range(rng.randrange(4)):
                    await asyncio.sleep(0)
                poll.cancel()
                try:
                    found += [message.body for message in await poll]
                except asyncio.CancelledError:
                    continue
            assert sorted(found) == sorted(b"%d" % number for number in range(200))

    run(work())


def test_a_rebalance_commits_nothing_that_is_still_worked_on(broker: FakeBroker) -> None:
    broker.put("T", 0, b"m1")
    broker.put("T", 1, b"m2")

    async def work() -> None:
        one = AsyncPullConsumer(NAMESRV, "g", auto_commit=True, now_ms=lambda: NOW_MS, **FIRST)
        other = AsyncPullConsumer(NAMESRV, "g", auto_commit=True, now_ms=lambda: NOW_MS, **FIRST)
        await one.subscribe("T")
        got = await one.poll(5) + await one.poll(5)
        assert {message.body for message in got} == {b"m1", b"m2"}
        last = got[-1]
        await other.subscribe("T")
        await asyncio.sleep(2)
        assert ("g", "T", last.queue_id) not in broker.offsets
        await one.close(commit=False)  # its work failed
        await asyncio.sleep(2)
        again = [message.body for _ in range(6) for message in await other.poll(1)]
        assert last.body in again
        await other.close()

    run(work())


@pytest.mark.parametrize("how", ["unsubscribe", "close"])
def test_what_ends_a_subscription_commits_what_is_finished(broker: FakeBroker, how: str) -> None:
    for number in range(3):
        broker.put("T", 0, b"%d" % number)

    async def work() -> None:
        consumer = AsyncPullConsumer(NAMESRV, "g", auto_commit=True, pull_batch_size=1, **FIRST)
        await consumer.subscribe("T")
        for _ in range(2):
            assert await consumer.poll(5)
        if how == "unsubscribe":
            await consumer.unsubscribe("T")
            assert broker.members["g"] == {}
        await consumer.close()
        assert broker.offsets["g", "T", 0] == 1

    run(work())


def test_random_handovers_against_a_list() -> None:
    """Batches of a queue go to several threads, and some calls fail: the position never passes a batch that is not received."""
    for seed in range(ROUNDS):
        rng = random.Random(seed)
        progress: Progress[str] = Progress()
        waiting = [Pulled("q", (), 10 * number) for number in range(1, 8)]
        callers = [threading.Thread() for _ in range(2)]
        open_calls: list[tuple[Handover, Pulled[str]]] = []
        received: set[int] = set()
        finished: set[int] = set()
        calls_of: dict[int, list[int]] = {0: [], 1: []}
        for _ in range(60):
            caller = rng.randrange(2)
            waiting[:0] = reversed(list(progress.settle()))
            waiting.sort(key=lambda one: one.next_offset)
            if (
                rng.random() < 0.4
                and waiting
                and not any(h.thread is callers[caller] for h, _ in open_calls)
            ):
                finished |= set(calls_of[caller])
                progress.finish(callers[caller])
                pulled = waiting.pop(0)
                handover = Handover(callers[caller])
                progress.give(pulled, handover)
                open_calls.append((handover, pulled))
            elif open_calls:
                handover, pulled = open_calls.pop(rng.randrange(len(open_calls)))
                if rng.random() < 0.4:
                    handover.failed = True
                else:
                    handover.received = True
                    received.add(pulled.next_offset)
                    calls_of[callers.index(handover.thread)].append(pulled.next_offset)  # type: ignore[arg-type]
            list_of = list(progress.settle())
            waiting += list_of
            waiting.sort(key=lambda one: one.next_offset)
            for position, known in ((progress.position, received),):
                assert position is None or all(n in known for n in range(10, position + 1, 10)), (
                    seed
                )
            # A thread that was never started counts as ended: all that it received may count as finished.
            assert (progress.finished or 0) <= (progress.position or 0), seed


# ---- one limit for a whole call ---------------------------------------------------------------------


def silence(_request: RemotingCommand) -> None:
    """Answer nothing."""


@pytest.mark.parametrize("call", ["commit", "poll", "close"])
def test_a_hung_broker_costs_no_more_than_the_call_was_allowed(
    cluster: FakeCluster, call: str
) -> None:
    broker = cluster.broker("b-a", ADDRESS, T=8)
    for number in range(8):
        broker.put("T", number, b"x")

    async def work() -> None:
        loop = asyncio.get_running_loop()
        consumer = AsyncPullConsumer(NAMESRV, "g", auto_commit=True, **FIRST)
        await consumer.subscribe("T")
        for _ in range(8):
            assert await consumer.poll(5)
        await asyncio.sleep(6)
        broker.hear = lambda request, pipe: None  # type: ignore[method-assign]
        start = loop.time()
        if call == "commit":
            with pytest.raises(ClientError):
                await consumer.commit(0.5)
        elif call == "poll":
            assert await consumer.poll(0.5) == []
        else:
            await consumer.close(timeout=0.5)
        assert loop.time() - start <= 0.5 + (1.1 if call == "close" else 0.1)
        consumer.abandon()

    run(work())


@pytest.mark.parametrize("who", ["name server", "broker", "both"])
def test_a_send_takes_no_longer_than_its_timeout(cluster: FakeCluster, who: str) -> None:
    broker = cluster.broker("b-a", ADDRESS, T=2)

    async def work() -> None:
        loop = asyncio.get_running_loop()
        producer = AsyncProducer(NAMESRV, timeout=0.5)
        if who == "broker":
            await producer.send("T", b"x")
        if who != "name server":
            broker.hear = lambda request, pipe: None  # type: ignore[method-assign]
        if who != "broker":
            cluster.names.hear = lambda request, pipe: None  # type: ignore[method-assign]
        start = loop.time()
        with pytest.raises(AnswerTimeoutError):
            await producer.send("T", b"x")
        assert loop.time() - start <= 0.6
        producer.abandon()

    run(work())


def test_a_late_answer_does_not_cut_off_the_others(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", ADDRESS, T=1)

    async def work() -> None:
        producer = AsyncProducer(NAMESRV, timeout=5)
        await producer.send("T", b"x")
        (pipe,) = broker.pipes
        instance = producer._instance
        broker.silent.add(34)
        with pytest.raises(AnswerTimeoutError):
            await instance.ask(ADDRESS, RemotingCommand(34), lambda _: None, seconds=0.05)
        await producer.send("T", b"y")
        assert broker.pipes == [pipe]

    run(work())


# ---- who a client belongs to ------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 8, 13])
def test_a_subscribe_that_is_cancelled_leaves_no_member(broker: FakeBroker, steps: int) -> None:
    broker.put("T", 0, b"0")
    broker.put("T", 1, b"1")

    async def work() -> None:
        consumer = AsyncPullConsumer(NAMESRV, "g", **FIRST)
        other = AsyncPullConsumer(NAMESRV, "g", now_ms=lambda: NOW_MS, **FIRST)
        await other.subscribe("T")
        call = asyncio.ensure_future(consumer.subscribe("T"))
        for _ in range(steps):
            await asyncio.sleep(0)
        call.cancel()
        (ended,) = await asyncio.gather(call, return_exceptions=True)
        await asyncio.sleep(1)
        if ended is None:
            assert len(other.assignment()) == 1
        else:
            assert len(broker.members["g"]) == 1
            assert len(other.assignment()) == 2
            with pytest.raises(ClientError, match="nothing is subscribed"):
                await consumer.poll(0)
        await consumer.close()
        await other.close()

    run(work())


def test_a_second_event_loop_is_refused_before_anything_is_sent(broker: FakeBroker) -> None:
    producer = AsyncProducer(NAMESRV)
    consumer = AsyncPullConsumer(NAMESRV, "g", **FIRST)

    async def first() -> None:
        await producer.send("T", b"one")
        await consumer.subscribe("T")

    async def second() -> None:
        with pytest.raises(ClientClosedError, match="event loop"):
            await producer.send("T", b"two")
        with pytest.raises(ClientClosedError, match="event loop"):
            await consumer.poll(0)
        await producer.close()
        await consumer.close()

    run(first())
    sent = sum(map(len, broker.queues.values()))
    run(second())
    assert sum(map(len, broker.queues.values())) == sent == 1


@pytest.mark.forks
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # from Python 3.12 on
def test_the_end_of_a_block_in_a_forked_child_is_quiet(broker: FakeBroker, tmp_path: Path) -> None:
    told = tmp_path / "told"
    with (
        Producer(NAMESRV) as producer,
        PullConsumer(NAMESRV, "g") as consumer,
        Admin(NAMESRV) as admin,
    ):
        producer.send("T", b"x")
        consumer.subscribe("T")
        child = os.fork()
        if not child:
            try:
                for client in (producer, consumer, admin):
                    client.close()
                    client.__exit__(None, None, None)
                told.write_text("closed")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert told.read_text() == "closed"
        producer.send("T", b"y")
        assert admin.topic_queues("T") == consumer.assignment()


def test_two_clients_have_two_ids_while_the_clock_stands(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 1_700_000_000_000_000_000)

    async def work() -> None:
        members = [AsyncPullConsumer(NAMESRV, "g", **FIRST) for _ in range(2)]
        for member in members:
            await member.subscribe("T")
        await asyncio.sleep(1)
        assert [len(member.assignment()) for member in members] == [1, 1]
        for member in members:
            await member.close()

    run(work())


def test_a_close_that_is_cancelled_leaves_no_member_behind(broker: FakeBroker) -> None:
    """Its heartbeats went on: the member kept its share of the queues, and read none of them."""
    broker.put("T", 0, b"x")
    broker.silent.add(15)

    async def work() -> None:
        member = AsyncPullConsumer(NAMESRV, "g", auto_commit=True, **FIRST)
        await member.subscribe("T")
        await member.poll()
        assert await member.poll(0) == []
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await member.close()
        assert broker.pipes == []

    run(work())


@pytest.mark.parametrize("step_ms", [0, -5_000])
def test_message_ids_do_not_repeat_while_the_clock_stands_or_steps_back(step_ms: int) -> None:
    now = [NOW_MS]
    ids = UniqueIds("192.0.2.1", 1, 2, lambda: now[0])
    seen = set()
    for number in range(140_000):
        if number == 70_000:
            now[0] += step_ms
        seen.add(ids.next())
    assert len(seen) == 140_000


@pytest.mark.parametrize("text", ["a:9876,b:9876", "http://h:9876", "h", "h:", ";"])
def test_a_text_that_names_no_name_server(text: str) -> None:
    with pytest.raises(ValueError, match="expected host:port"):
        AsyncProducer(text)
