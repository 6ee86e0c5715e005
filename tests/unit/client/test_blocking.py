"""The producer and consumer for code without an event loop, over a cluster without sockets; threads and the clock are real."""

from __future__ import annotations

import gc
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.eventually import eventually
from support.fake_cluster import NAMESRV, FakeBroker, FakeCluster

from rmqcore.client import Admin, Producer, PullConsumer, ReceivedMessage
from rmqcore.client.instance import CLOSE_SECONDS
from rmqcore.codec.message import Message
from rmqcore.errors import ClientClosedError, NoRouteError, PartlySentError
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import RemotingCommand

MOST_SECONDS = 60.0


@pytest.fixture
def broker(cluster: FakeCluster) -> FakeBroker:
    return cluster.broker("b-a", "192.0.2.1:10911", T=2)


def threads() -> set[str]:
    return {one.name for one in threading.enumerate() if one.name.startswith("rmqcore-")}


def test_send_and_poll(broker: FakeBroker) -> None:
    with Producer(NAMESRV) as producer:
        sent = producer.send("T", b"one", tags="A", keys="k", properties={"x": "1"})
        producer.send_many("T", (b"%d" % number for number in range(3)), tags="A")
        producer.send_oneway("T", b"last", tags="A")
    with PullConsumer(NAMESRV, "g", consume_from="CONSUME_FROM_FIRST_OFFSET") as consumer:
        consumer.subscribe("T", "A")
        assert len(consumer.assignment()) == 2
        found: list[ReceivedMessage] = []
        while len(found) < 5:
            found += consumer.poll(MOST_SECONDS)
        assert {message.body for message in found} == {b"one", b"0", b"1", b"2", b"last"}
        assert sent.msg_id in {message.msg_id for message in found}
        consumer.commit()
        assert sum(broker.offsets.values()) == 5
        consumer.seek("T", 0, 0)
        consumer.unsubscribe("T")
    assert threads() == set()


def test_errors_reach_the_caller(broker: FakeBroker, cluster: FakeCluster) -> None:
    cluster.names.server.routes.delete_topic("TBW102")
    with Producer(NAMESRV) as producer:
        with pytest.raises(NoRouteError):
            producer.send("New", b"x")
        with pytest.raises(ValueError, match="0 bytes"):
            producer.send("T", b"")
        producer.send("T", b"x")


def test_what_is_stored_reaches_the_caller_with_the_error(broker: FakeBroker) -> None:
    def refuse_the_late(request: RemotingCommand) -> RemotingCommand:
        return request.response(13, "because")

    broker.hooks[RequestCode.SEND_MESSAGE_V2] = refuse_the_late
    late = Message("T", b"late", properties={"DELAY": "1"})
    with Producer(NAMESRV) as producer:
        with pytest.raises(PartlySentError, match="13 MESSAGE_ILLEGAL: because") as found:
            producer.send_messages(iter([Message("T", b"a"), Message("T", b"b"), late]))
        first, second, third = found.value.results
        assert (second.queue_offset - first.queue_offset, third) == (1, None)
        assert found.value.failed == (2,)


def test_a_close_takes_no_longer_than_its_timeout(broker: FakeBroker) -> None:
    """A producer's had no argument, and a broker that hung cost it a second."""
    producer, admin = Producer(NAMESRV), Admin(NAMESRV)
    producer.send("T", b"x")
    admin.topic_queues("T")
    broker.silent.add(RequestCode.UNREGISTER_CLIENT)
    begin = time.monotonic()
    producer.close(timeout=0.0)
    admin.close(timeout=0.0)
    assert time.monotonic() - begin < CLOSE_SECONDS
    producer.close(timeout=0.0)
    assert threads() == set()


def test_several_threads_share_a_producer(broker: FakeBroker) -> None:
    with Producer(NAMESRV) as producer, ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda number: producer.send("T", b"%d" % number), range(200)))
    assert len({result.msg_id for result in results}) == 200
    assert len(broker.queues["T", 0]) == len(broker.queues["T", 1]) == 100


def test_after_close_calls_are_refused(broker: FakeBroker) -> None:
    producer, consumer = Producer(NAMESRV), PullConsumer(NAMESRV, "g")
    consumer.subscribe("T")
    for client in (producer, consumer):
        client.close()
        client.close()
    with pytest.raises(ClientClosedError):
        producer.send("T", b"x")
    with pytest.raises(ClientClosedError):
        consumer.poll(0)
    assert threads() == set()


def test_a_poll_that_another_thread_ends_by_close_is_told(broker: FakeBroker) -> None:
    """It raised an error that said it had been cancelled."""
    consumer = PullConsumer(NAMESRV, "g")
    consumer.subscribe("T")
    with ThreadPoolExecutor(1) as pool:
        polled = pool.submit(consumer.poll, MOST_SECONDS)
        eventually(lambda: broker.held)
        consumer.close()
        assert isinstance(polled.exception(MOST_SECONDS), ClientClosedError)


def test_a_client_that_nobody_has_any_more_ends_its_thread(broker: FakeBroker) -> None:
    """Threads of producers that were made and dropped without close sent heartbeats for ever."""
    producer = Producer(NAMESRV)
    producer.send("T", b"x")
    assert threads() == {"rmqcore-producer-DEFAULT_PRODUCER"}
    del producer
    gc.collect()
    assert threads() == set()
    assert broker.pipes == []


def test_a_poll_that_an_exception_interrupts_is_ended(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in a poll left it waiting, and it swallowed the next messages."""
    # From the first offset: where the group begins at the last one is asked for while the test goes on.
    with PullConsumer(NAMESRV, "g", consume_from="CONSUME_FROM_FIRST_OFFSET") as consumer:
        consumer.subscribe("T")
        with monkeypatch.context() as patch:

            def interrupted(*_: object) -> None:
                raise KeyboardInterrupt

            patch.setattr("concurrent.futures.Future.result", interrupted)
            with pytest.raises(KeyboardInterrupt):
                consumer.poll(MOST_SECONDS)
        with Producer(NAMESRV) as producer:
            producer.send("T", b"x")
        assert [message.body for message in consumer.poll(MOST_SECONDS)] == [b"x"]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # from Python 3.12 on
@pytest.mark.forks
def test_a_forked_child_is_told_that_the_client_is_not_its_own(
    broker: FakeBroker, tmp_path: Path
) -> None:
    """The thread does not live on in a child: a send waited for ever."""
    with Producer(NAMESRV) as producer:
        producer.send("T", b"x")
        told = tmp_path / "told"
        child = os.fork()
        if not child:
            try:
                producer.send("T", b"y")
            except ClientClosedError as error:
                told.write_text(str(error))
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert "after a fork" in told.read_text()
        producer.send("T", b"z")
