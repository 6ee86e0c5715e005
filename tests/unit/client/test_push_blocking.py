"""The push consumer for code without an event loop: handlers in threads, Ctrl-C, and the end."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest
from support.eventually import eventually
from support.fake_cluster import NAMESRV, FakeBroker, FakeCluster
from support.push_broker import SEND_BACK, bodies, push_broker

from rmqcore.client import ConsumeStatus, PushConsumer, ReceivedMessage
from rmqcore.errors import ClientClosedError, ClientError

MOST_SECONDS = 60.0


@pytest.fixture
def broker(cluster: FakeCluster) -> FakeBroker:
    return push_broker(cluster, T=2)


def consumer(**settings: Any) -> PushConsumer:
    return PushConsumer(NAMESRV, "g", consume_from="CONSUME_FROM_FIRST_OFFSET", **settings)


def put(broker: FakeBroker, count: int) -> set[bytes]:
    sent = {b"%d" % number for number in range(count)}
    for body in sorted(sent):
        broker.put("T", int(body) % 2, body)
    return sent


def offsets(broker: FakeBroker) -> list[int]:
    return sorted(at for key, at in broker.offsets.items() if key[1] == "T")


def threads() -> set[str]:
    return {one.name for one in threading.enumerate() if one.name.startswith("rmqcore-")}


class InThread:
    """A run in a thread of its own."""

    def __init__(self, member: PushConsumer, handler: Any, **more: Any) -> None:
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(member, handler), kwargs=more)
        self._thread.start()

    def _run(self, member: PushConsumer, handler: Any, **more: Any) -> None:
        try:
            member.run(handler, **more)
        except BaseException as error:  # noqa: BLE001 the test looks at it
            self.error = error

    def join(self) -> None:
        self._thread.join(MOST_SECONDS)
        assert not self._thread.is_alive()


def test_handlers_run_in_threads_and_what_they_say_counts(broker: FakeBroker) -> None:
    sent = put(broker, 40)
    finished: set[bytes] = set()
    both = threading.Barrier(2, timeout=MOST_SECONDS)
    with consumer(max_reconsume_times=1) as member:
        member.subscribe("T")
        assert len(member.assignment()) == 3

        def handler(message: ReceivedMessage) -> ConsumeStatus | None:
            if message.body in {b"0", b"1"} and message.reconsume_times == 0:
                both.wait()  # two at once
            if message.body == b"5":
                raise RuntimeError("no")
            if message.body == b"6":
                return ConsumeStatus.RECONSUME_LATER
            finished.add(message.body)
            if len(bodies(broker, "%DLQ%g")) == 2 and len(finished) == 38:
                member.stop()
            return None

        run = InThread(member, handler, concurrency=2)
        eventually(lambda: len(bodies(broker, "%DLQ%g")) == 2 and len(finished) == 38)
        member.stop()
        run.join()
        assert run.error is None
    assert finished == sent - {b"5", b"6"}
    assert offsets(broker) == [20, 20]
    eventually(lambda: threads() == set())


def test_ctrl_c_waits_for_the_messages_in_work(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(broker, 2)
    begun = threading.Semaphore(0)
    may_end = threading.Event()
    finished: set[bytes] = set()

    def handler(message: ReceivedMessage) -> None:
        begun.release()
        assert may_end.wait(MOST_SECONDS)
        finished.add(message.body)

    with consumer() as member:
        member.subscribe("T")
        interrupt(monkeypatch, begun, 2, may_end)
        with pytest.raises(KeyboardInterrupt):
            member.run(handler)
        assert finished == {b"0", b"1"}
    assert offsets(broker) == [1, 1]
    assert SEND_BACK not in broker.codes()


def interrupt(
    monkeypatch: pytest.MonkeyPatch,
    begun: threading.Semaphore,
    count: int,
    may_end: threading.Event | None,
) -> None:
    """Let the next wait of this thread end as by Ctrl-C, when so many handlers have begun."""
    from concurrent.futures import Future

    result, times = Future.result, [0]
    me = threading.current_thread()

    def interrupted(self: Future[Any], timeout: float | None = None) -> Any:
        if threading.current_thread() is not me:
            return result(self, timeout)
        times[0] += 1
        if times[0] == 1:
            for _ in range(count):
                assert begun.acquire(timeout=MOST_SECONDS)
            raise KeyboardInterrupt
        if may_end is not None:
            may_end.set()
        elif times[0] == 2:
            raise KeyboardInterrupt
        return result(self, timeout)

    monkeypatch.setattr(Future, "result", interrupted)


def test_a_second_ctrl_c_does_not_wait_and_the_messages_come_again(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(broker, 2)
    begun = threading.Semaphore(0)
    may_end = threading.Event()

    def handler(_: ReceivedMessage) -> None:
        begun.release()
        assert may_end.wait(MOST_SECONDS)

    with consumer() as member:
        member.subscribe("T")
        interrupt(monkeypatch, begun, 2, None)
        with pytest.raises(KeyboardInterrupt):
            member.run(handler)
    assert not may_end.is_set()
    assert offsets(broker) == [0, 0]
    may_end.set()
    monkeypatch.undo()
    found: set[bytes] = set()
    with consumer() as member:
        member.subscribe("T")
        run = InThread(member, lambda message: found.add(message.body))
        eventually(lambda: len(found) == 2)
        member.close()
        run.join()
        assert run.error is None
    assert offsets(broker) == [1, 1]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
def test_a_handler_ends_the_program(broker: FakeBroker, error: BaseException) -> None:
    put(broker, 1)

    def handler(_: ReceivedMessage) -> None:
        raise error

    with consumer() as member:
        member.subscribe("T")
        with pytest.raises(type(error)) as raised:
            member.run(handler)
        assert raised.value is error
        found: list[bytes] = []

        def second(message: ReceivedMessage) -> None:
            found.append(message.body)
            member.stop()

        member.run(second)
        assert found == [b"0"]
    assert offsets(broker) == [0, 1]


def test_a_handler_that_raises_stop_iteration_has_failed(broker: FakeBroker) -> None:
    """A future of asyncio does not take a StopIteration: its worker waited for ever, and so did `run` and the end of `close`."""
    put(broker, 2)
    with consumer(max_reconsume_times=0) as member:
        member.subscribe("T")

        def handler(message: ReceivedMessage) -> None:
            if message.body == b"0":
                next(iter(()))

        run = InThread(member, handler, concurrency=1)
        eventually(lambda: bodies(broker, "%DLQ%g") == [b"0"])
        member.stop()
        run.join()
        assert run.error is None


def test_close_in_another_thread_ends_a_run(broker: FakeBroker) -> None:
    put(broker, 2)
    seen = threading.Semaphore(0)
    member = consumer()
    member.subscribe("T")
    run = InThread(member, lambda _: seen.release())
    for _ in range(2):
        assert seen.acquire(timeout=MOST_SECONDS)
    member.close()
    run.join()
    assert run.error is None
    assert offsets(broker) == [1, 1]
    member.close()
    with pytest.raises(ClientClosedError):
        member.run(print)
    eventually(lambda: threads() == set())


def test_close_leaves_a_handler_that_hangs(broker: FakeBroker) -> None:
    put(broker, 1)
    begun, may_end = threading.Event(), threading.Event()

    def handler(_: ReceivedMessage) -> None:
        begun.set()
        assert may_end.wait(MOST_SECONDS)

    member = consumer()
    member.subscribe("T")
    run = InThread(member, handler)
    assert begun.wait(MOST_SECONDS)
    member.close(timeout=0)
    run.join()
    assert run.error is None
    may_end.set()
    assert offsets(broker) == [0, 0]


def test_a_handler_may_not_close(broker: FakeBroker) -> None:
    put(broker, 1)

    def handler(_: ReceivedMessage) -> None:
        with pytest.raises(ClientError, match=r"stop\(\)"):
            member.close()
        member.unsubscribe("T")
        member.stop()

    with consumer() as member:
        member.subscribe("T")
        member.run(handler)


def test_mistakes_are_raised(broker: FakeBroker) -> None:
    put(broker, 1)
    with consumer() as member:
        with pytest.raises(ClientError, match="nothing is subscribed"):
            member.run(print)
        member.subscribe("T")
        with pytest.raises(TypeError, match="returned 'done', expected None"):
            member.run(lambda _: "done")  # type: ignore[arg-type, return-value]
        with pytest.raises(ValueError, match="concurrency is 0"):
            member.run(print, 0)
    assert offsets(broker) == [0, 0]


def test_a_consumer_without_references_ends_its_thread(broker: FakeBroker) -> None:
    member = consumer()
    member.subscribe("T")
    del member
    gc.collect()
    assert threads() == set()
    assert broker.pipes == []
