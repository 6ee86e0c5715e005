"""The producer over a cluster without sockets: routes, turns, retries, heartbeats, the end."""

from __future__ import annotations

import asyncio
import pickle

import pytest
from support.fake_cluster import NAMESRV, NOW_MS, FakeBroker, FakeCluster, run

from rmqcore.client import AsyncProducer, SendStatus
from rmqcore.codec import decode
from rmqcore.codec.message import Message
from rmqcore.errors import (
    AnswerTimeoutError,
    BadAnswerError,
    ClientClosedError,
    ClientError,
    NoRouteError,
    NotReachedError,
    PartlySentError,
    RefusedError,
    SendFailedError,
)
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.request_fields import parse_fields

SEND, ROUTE, BEAT = 310, 105, 34


def producer(namesrv: str = NAMESRV, **settings: float) -> AsyncProducer:
    return AsyncProducer(namesrv, "pg", now_ms=lambda: NOW_MS, **settings)  # type: ignore[arg-type]


def refuse(code: ResponseCode) -> object:
    return lambda request: request.response(code, "because")


def bodies(broker: FakeBroker) -> list[tuple[int, int]]:
    """How many messages each queue has."""
    return sorted((key[1], len(queue)) for key, queue in broker.queues.items() if queue)


def test_a_message_goes_where_the_name_server_says(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", "192.0.2.1:10911", T=1)

    async def work() -> None:
        async with producer() as sender:
            result = await sender.send("T", b"hello", "A", "k", {"x": "1"})
            assert (result.status, result.queue_id, result.queue_offset) == ("SEND_OK", 0, 0)
            assert result.status is SendStatus.SEND_OK

    run(work())
    assert cluster.names.codes() == [ROUTE]
    assert broker.codes() == [BEAT, SEND, 35]
    assert broker.beats[0].producer_groups == ("pg",)
    assert broker.asked[-1].ext_fields == {
        "clientID": broker.beats[0].client_id,
        "producerGroup": "pg",
    }
    assert broker.beats[0].client_id.startswith("192.0.2.7@")
    assert broker.pipes == []


def test_queues_take_turns(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", "192.0.2.1:10911", T=4)

    async def work() -> None:
        async with producer() as sender:
            for _ in range(40):
                await sender.send("T", b"x")

    run(work())
    assert bodies(broker) == [(0, 10), (1, 10), (2, 10), (3, 10)]
    assert cluster.names.codes() == [ROUTE]


def test_a_topic_that_nobody_has_goes_to_the_brokers_that_would_create_it(
    cluster: FakeCluster,
) -> None:
    broker = cluster.broker("b-a", "192.0.2.1:10911")

    async def work() -> None:
        async with producer() as sender:
            for _ in range(8):
                await sender.send("New", b"x")

    run(work())
    assert [request.ext_fields["topic"] for request in cluster.names.asked] == ["New", "TBW102"]
    assert bodies(broker) == [(0, 2), (1, 2), (2, 2), (3, 2)]


def test_a_topic_that_nobody_has_nor_creates(cluster: FakeCluster) -> None:
    async def work() -> None:
        async with producer() as sender:
            with pytest.raises(NoRouteError, match="no broker has a writable queue of topic New"):
                await sender.send("New", b"x")
            with pytest.raises(NoRouteError):
                await sender.send_oneway("New", b"x")

    run(work())


def test_a_route_is_asked_for_again_every_half_minute(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", "192.0.2.1:10911", T=1)

    async def work() -> None:
        async with producer() as sender:
            await sender.send("T", b"x")
            cluster.register(broker, T=2, TBW102=8)
            await asyncio.sleep(31)
            for _ in range(4):
                await sender.send("T", b"x")

    run(work())
    assert cluster.names.codes() == [ROUTE, ROUTE]
    assert bodies(broker)[1][1] == 2


def test_heartbeats_every_half_minute(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", "192.0.2.1:10911", T=1)

    async def work() -> None:
        async with producer() as sender:
            await sender.send("T", b"x")
            await asyncio.sleep(95)

    run(work())
    assert broker.codes().count(BEAT) == 4


@pytest.mark.parametrize("code", [1, 2, 14, 16, 17, 204, 205, 1500])
def test_a_refusal_that_another_broker_may_not_have_is_retried_there(
    cluster: FakeCluster, code: int
) -> None:
    sick = cluster.broker("b-a", "192.0.2.1:10911", T=4)
    well = cluster.broker("b-b", "192.0.2.2:10911", T=1)
    sick.hooks[SEND] = lambda request: request.response(code, "because")

    async def work() -> None:
        async with producer() as sender:
            for _ in range(10):
                assert (await sender.send("T", b"x")).queue.broker_name == "b-b"

    run(work())
    assert len(well.queues["T", 0]) == 10
    assert 0 < sick.codes().count(SEND) <= 10


def test_a_refusal_that_is_for_good_is_raised(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", "192.0.2.1:10911", T=1)
    broker.hooks[SEND] = lambda request: request.response(13, "too long")

    async def work() -> None:
        async with producer() as sender:
            with pytest.raises(RefusedError) as found:
                await sender.send("T", b"x")
        error = found.value
        assert (error.address, error.request) == ("192.0.2.1:10911", "SEND_MESSAGE_V2")
        assert (error.response_code, error.response) == (13, "MESSAGE_ILLEGAL")
        assert str(error) == "192.0.2.1:10911: SEND_MESSAGE_V2: 13 MESSAGE_ILLEGAL: too long"

    run(work())
    assert broker.codes().count(SEND) == 1


def test_where_all_tries_fail_each_reason_is_told(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", "192.0.2.1:10911", T=3)
    broker.hooks[SEND] = lambda request: request.response(14, f"queue {request.ext_fields['e']}")

    async def work() -> None:
        async with producer() as sender:
            with pytest.raises(SendFailedError) as found:
                await sender.send("T", b"x")
            assert len(found.value.reasons) == 3
            assert {f"queue {n}" for n in range(3)} == {
                reason.rpartition(": ")[2] for reason in found.value.reasons
            }
            assert isinstance(found.value.__cause__, RefusedError)
            assert "3 attempts failed" in str(found.value)

    run(work())


def test_a_code_without_a_name_is_told_by_its_number(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", "192.0.2.1:10911", T=1)
    broker.hooks[SEND] = lambda request: request.response(4711)

    async def work() -> None:
        async with producer() as sender:
            with pytest.raises(RefusedError, match="4711 4711: no remark"):
                await sender.send("T", b"x")

    run(work())


def test_a_broker_that_is_gone_is_passed_over(cluster: FakeCluster) -> None:
    gone = cluster.broker("b-a", "192.0.2.1:10911", T=2)
    well = cluster.broker("b-b", "192.0.2.2:10911", T=2)

    async def work() -> None:
        async with producer() as sender:
            await sender.send("T", b"x")
            await sender.send("T", b"x")
            cluster.stop(gone)
            for _ in range(10):
                await sender.send("T", b"x")

    run(work())
    assert sum(count for _, count in bodies(well) + bodies(gone)) == 12


def test_a_broker_that_comes_back_elsewhere_is_found_at_once(cluster: FakeCluster) -> None:
    """A broker was started anew on another port; sends failed until the next refresh, half a minute later."""
    broker = cluster.broker("b-a", "192.0.2.1:10911", T=1)

    async def work() -> None:
        async with producer() as sender:
            await sender.send("T", b"x")
            cluster.stop(broker)
            again = cluster.broker("b-a", "192.0.2.1:20911", T=1)
            await sender.send("T", b"y")
            assert again.codes()[:2] == [BEAT, SEND]

    run(work())


def test_a_connection_that_was_lost_is_made_anew_with_a_heartbeat_first(
    cluster: FakeCluster,
) -> None:
    broker = cluster.broker("b-a", "192.0.2.1:10911", T=1)

    async def work() -> None:
        async with producer() as sender:
            await sender.send("T", b"x")
            broker.close_all()
            await asyncio.sleep(0.1)
            await sender.send("T", b"x")

    run(work())
    assert broker.codes() == [BEAT, SEND, BEAT, SEND, 35]


def test_a_connection_that_is_lost_while_an_answer_is_awaited(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", "192.0.2.1:10911", T=1)

    def hang_up(request: RemotingCommand) -> None:
        broker.close_all()

    broker.hooks[SEND] = hang_up

    async def work() -> None:
        async with producer(retry_times=0) as sender:
            with pytest.raises(NotReachedError, match=r"SEND_MESSAGE_V2: .*closed"):
                await sender.send("T", b"x")

    run(work())


def test_no_answer_in_time(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", "192.0.2.1:10911", T=1)
    broker.silent.add(SEND)

    async def work() -> None:
        loop = asyncio.get_running_loop()
        async with producer(timeout=2.0) as sender:
            started = loop.time()
            with pytest.raises(AnswerTimeoutError, match="no answer in 2 s") as found:
                await sender.send("T", b"x")
            assert loop.time() - started == pytest.approx(2.0)
            assert found.value.request == "SEND_MESSAGE_V2"
            broker.silent.clear()
            await sender.send("T", b"y")  # over a new connection

    run(work())
    assert broker.codes() == [BEAT, SEND, BEAT, SEND, 35]


def test_an_answer_that_is_none(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", "192.0.2.1:10911", T=1)
    broker.hooks[SEND] = lambda request: request.response(0, ext_fields={"queueId": "0"})

    async def work() -> None:
        async with producer(retry_times=0) as sender:
            with pytest.raises(
                BadAnswerError,
                match=r"192\.0\.2\.1:10911: response to SEND_MESSAGE_V2: queueOffset",
            ):
                await sender.send("T", b"x")

    run(work())


def test_bytes_that_are_no_frame_end_their_connection_alone(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    broker = cluster.broker("b-a", "192.0.2.1:10911", T=1)

    def garble(request: RemotingCommand) -> None:
        broker.pipes[0].send_bytes(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    broker.hooks[SEND] = garble

    async def work() -> None:
        async with producer(retry_times=0) as sender:
            with pytest.raises(NotReachedError, match="invalid frame"):
                await sender.send("T", b"x")
            del broker.hooks[SEND]
            await sender.send("T", b"x")

    run(work())
    assert "192.0.2.1:10911: frame@0" in caplog.text


def test_answers_in_another_order_go_to_whom_they_belong(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", "192.0.2.1:10911", T=1)
    held: list[RemotingCommand] = []

    def hold(request: RemotingCommand) -> None:
        held.append(request)
        if len(held) == 3:
            for number, one in enumerate(reversed(held)):
                fields = {"msgId": "I", "queueId": "0", "queueOffset": one.body.decode()}
                broker.pipes[0].send(one.response(0, f"{number}", ext_fields=fields))

    broker.hooks[SEND] = hold

    async def work() -> None:
        async with producer() as sender:
            results = await asyncio.gather(*(sender.send("T", b"%d" % n) for n in range(3)))
            assert [result.queue_offset for result in results] == [0, 1, 2]

    run(work())
    assert broker.codes().count(BEAT) == 1  # one connection, however many waited for it


def test_one_way_messages_want_no_answer(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", "192.0.2.1:10911", T=1)

    async def work() -> None:
        async with producer() as sender:
            await sender.send_oneway("T", b"x")
            await asyncio.sleep(0)

    run(work())
    sent = next(request for request in broker.asked if request.code == SEND)
    assert sent.is_oneway
    assert len(broker.queues["T", 0]) == 1


def test_messages_of_several_topics(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", "192.0.2.1:10911", T=1, U=1)
    messages = [
        Message("T", b"t0", tags="A"),
        Message("U", b"u0"),
        Message("T", b"t1", keys=("k",)),
        Message("T", b"late", properties={"DELAY": "1"}),
        Message("T", b"t2"),
        Message("U", b"u1"),
    ]

    async def work() -> None:
        async with AsyncProducer(NAMESRV, timeout=60) as producer:
            done = await producer.send_messages(iter(messages))
            assert [(one.queue.topic, one.queue_offset) for one in done] == [
                ("T", 0),
                ("U", 0),
                ("T", 1),
                ("T", 2),
                ("T", 3),
                ("U", 1),
            ]
            stored = {
                view.uniq_key: view.body
                for topic in "TU"
                for view in map(decode, broker.queues[topic, 0])
            }
            assert [stored[one.msg_id] for one in done] == [one.body for one in messages]
            assert await producer.send_messages([]) == []
            with pytest.raises(TypeError, match="Message objects"):
                await producer.send_messages([messages[0], b"x"])  # type: ignore[list-item]
            sizes = [1_000_000, 1_500_000, 1_500_000, 900_000, 4_000_000]
            before = broker.codes().count(RequestCode.SEND_BATCH_MESSAGE)
            await producer.send_messages(Message("T", bytes(size)) for size in sizes)
            assert broker.codes().count(RequestCode.SEND_BATCH_MESSAGE) == before + 1
        assert [len(decode(one).decompress()) for one in broker.queues["T", 0][4:]] == sizes

    run(work())


def three_parts() -> list[Message]:
    """Two messages in a batch, two in another one, and one that is sent alone."""
    late = Message("V", b"late", properties={"DELAY": "1"})
    return [
        Message("T", b"t0"),
        Message("U", b"u0"),
        Message("T", b"t1"),
        late,
        Message("U", b"u1"),
    ]


@pytest.mark.parametrize("hangs", [False, True])
def test_what_is_stored_is_named_where_a_later_part_fails(
    cluster: FakeCluster, hangs: bool
) -> None:
    """Nothing said which messages were stored: a program sent all of them again, or none."""
    broker = cluster.broker("b-a", "192.0.2.1:10911", T=1, U=1, V=1)

    def refuse_u(request: RemotingCommand) -> RemotingCommand | None:
        if parse_fields(RequestCode.SEND_BATCH_MESSAGE, request.ext_fields).text("topic") != "U":
            return broker._send(request)
        return None if hangs else request.response(13, "too long")

    broker.hooks[RequestCode.SEND_BATCH_MESSAGE] = refuse_u

    async def work() -> None:
        async with producer() as sender:
            with pytest.raises(PartlySentError, match=r"^2 of 5 messages are stored: ") as found:
                await sender.send_messages(three_parts())
        error = found.value
        assert error.failed == (1, 4)
        assert isinstance(error.__cause__, AnswerTimeoutError if hangs else RefusedError)
        assert str(error.__cause__) in str(error)
        first, *none, last = (error.results[at] for at in (0, 1, 3, 4, 2))
        assert (first.queue_offset, last.queue_offset) == (0, 1)
        assert none == [None, None, None]
        again = pickle.loads(pickle.dumps(error))
        assert (again.results, again.failed, str(again)) == (
            error.results,
            error.failed,
            str(error),
        )

    run(work())
    assert not broker.queues["V", 0], "nothing is sent behind a failure"


def test_the_first_part_that_fails_is_an_error_as_of_send(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", "192.0.2.1:10911", T=1, U=1, V=1)
    broker.hooks[RequestCode.SEND_BATCH_MESSAGE] = lambda request: request.response(13, "too long")

    async def work() -> None:
        async with producer() as sender:
            with pytest.raises(RefusedError):
                await sender.send_messages(three_parts())

    run(work())


@pytest.mark.parametrize(
    "bad",
    [
        Message("V", b""),
        Message("V", bytes((4 << 20) + 1)),
        Message("V", b"x", properties={"TRAN_MSG": "true"}),
    ],
)
def test_nothing_is_sent_where_no_broker_would_accept_one_of_them(
    cluster: FakeCluster, bad: Message
) -> None:
    broker = cluster.broker("b-a", "192.0.2.1:10911", T=1, U=1, V=1)

    async def work() -> None:
        async with producer() as sender:
            with pytest.raises(ValueError, match=r"expected 1 to|transactions"):
                await sender.send_messages([*three_parts(), bad])

    run(work())
    assert not broker.queues["T", 0]


def test_messages_for_a_retry_topic_go_alone(cluster: FakeCluster) -> None:
    """Two of them were made a batch, which was refused."""
    broker = cluster.broker("b-a", "192.0.2.1:10911", **{"%RETRY%g": 1})

    async def work() -> None:
        async with producer() as sender:
            done = await sender.send_messages(
                [Message("%RETRY%g", b"1"), Message("%RETRY%g", b"2")]
            )
            assert [one.queue_offset for one in done] == [0, 1]

    run(work())
    assert len(broker.queues["%RETRY%g", 0]) == 2


def test_a_batch_goes_to_one_queue(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", "192.0.2.1:10911", T=4)

    async def work() -> None:
        async with producer() as sender:
            result = await sender.send_many("T", [b"1", b"2", b"3"], "A")
            assert len(result.msg_id.split(",")) == 3
            with pytest.raises(ValueError, match="without messages"):
                await sender.send_many("T", [])
            with pytest.raises(ValueError, match="topic"):
                await sender.send_many("a b", [b"1"])

    run(work())
    ((_, count),) = bodies(broker)
    assert count == 3


def test_the_second_name_server_is_asked_where_the_first_is_not_there(
    cluster: FakeCluster,
) -> None:
    cluster.broker("b-a", "192.0.2.1:10911", T=1)

    async def work() -> None:
        for namesrv in (f"127.0.0.1:1; {NAMESRV};", f"{NAMESRV};127.0.0.1:1"):
            async with producer(namesrv) as sender:
                await sender.send("T", b"x")

    run(work())


def test_no_name_server_at_all(cluster: FakeCluster) -> None:
    async def work() -> None:
        async with producer("127.0.0.1:1;127.0.0.1:2") as sender:
            with pytest.raises(NotReachedError, match=r"127\.0\.0\.1:[12]: GET_ROUTEINFO_BY_TOPIC"):
                await sender.send("T", b"x")

    run(work())
    with pytest.raises(ValueError, match="host:port"):
        producer(" ; ")
    with pytest.raises(ValueError, match="group"):
        AsyncProducer(NAMESRV, "a b")


@pytest.mark.parametrize("address", ["nohost", ":1", "h:", "h:0", "h:65536", "h:\u0661", "x" * 999])
def test_an_address_that_is_none(cluster: FakeCluster, address: str) -> None:
    """A route may hold anything."""
    broker = cluster.broker("b-a", address, T=1)
    del cluster.peers[broker.address]

    async def work() -> None:
        async with producer() as sender:
            with pytest.raises(ClientError):
                await sender.send("T", b"x")

    run(work())


def test_a_route_with_more_queues_than_there_can_be(cluster: FakeCluster) -> None:
    """A name server said two thousand million queues; a list of them was more than the machine has."""
    cluster.broker("b-a", "192.0.2.1:10911", T=(1 << 31) - 1)

    async def work() -> None:
        async with producer() as sender:
            with pytest.raises(BadAnswerError, match="QueueNums is 2147483647"):
                await sender.send("T", b"x")

    run(work())


def test_after_close_nothing_is_sent(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", "192.0.2.1:10911", T=1)

    async def work() -> None:
        sender = producer()
        await sender.send("T", b"x")
        await sender.close()
        await sender.close()
        for call in (sender.send, sender.send_oneway):
            with pytest.raises(ClientClosedError):
                await call("T", b"x")
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(work())
    assert broker.codes().count(35) == 1


def test_sends_that_a_close_overtakes_are_told(cluster: FakeCluster) -> None:
    """They were cancelled, which looked as if their own task had been."""
    broker = cluster.broker("b-a", "192.0.2.1:10911", T=1)
    broker.silent.add(SEND)

    async def work() -> None:
        sender = producer()
        sends = [asyncio.create_task(sender.send("T", b"x")) for _ in range(3)]
        await asyncio.sleep(0.1)
        await sender.close()
        for ended in await asyncio.gather(*sends, return_exceptions=True):
            assert isinstance(ended, SendFailedError)
            assert "this client was closed" in str(ended)

    run(work())


def test_many_that_meet_a_broker_which_is_gone_ask_for_its_route_once(
    cluster: FakeCluster,
) -> None:
    broker = cluster.broker("b-a", "192.0.2.1:10911", T=1)

    async def work() -> None:
        async with producer() as sender:
            await sender.send("T", b"x")
            cluster.stop(broker)
            again = cluster.broker("b-a", "192.0.2.1:20911", T=1)
            before = len(cluster.names.asked)
            await asyncio.gather(*(sender.send("T", b"y") for _ in range(50)))
            assert len(cluster.names.asked) == before + 1
            assert len(again.queues["T", 0]) == 50

    run(work())


def test_a_broker_that_does_not_say_goodbye_is_not_waited_for(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", "192.0.2.1:10911", T=1)
    broker.silent.add(RequestCode.UNREGISTER_CLIENT)

    async def work() -> None:
        loop = asyncio.get_running_loop()
        sender = producer()
        await sender.send("T", b"x")
        started = loop.time()
        await sender.close()
        assert loop.time() - started == pytest.approx(1.0)

    run(work())


def test_requests_of_a_broker_that_a_producer_does_not_serve(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", "192.0.2.1:10911", T=1)

    async def work() -> None:
        async with producer() as sender:
            await sender.send("T", b"x")
            broker.pipes[0].send(RemotingCommand(RequestCode.GET_CONSUMER_RUNNING_INFO, opaque=77))
            broker.pipes[0].send(RemotingCommand(RequestCode.CHECK_TRANSACTION_STATE, flag=2))
            await asyncio.sleep(0.1)

    run(work())
    answers = [command for command in broker.asked if command.is_response]
    assert [(answer.code, answer.opaque) for answer in answers] == [(3, 77)]


def test_a_peer_that_reads_nothing_is_not_written_to_without_end(cluster: FakeCluster) -> None:
    broker = cluster.broker("b-a", "192.0.2.1:10911", T=1)

    async def work() -> None:
        async with producer(timeout=2.0, retry_times=0) as sender:
            await sender.send("T", b"x")
            broker.pipes[0].connection.pause_writing()
            with pytest.raises(AnswerTimeoutError):
                await sender.send_oneway("T", b"x")
            await sender.send("T", b"x")
            broker.pipes[0].connection.pause_writing()
            broker.pipes[0].send(RemotingCommand(RequestCode.GET_CONSUMER_RUNNING_INFO))
            await asyncio.sleep(0.1)
            assert broker.pipes == []

    run(work())
