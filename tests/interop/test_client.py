"""Our clients against the real broker and against ours: the same tests, the same outcome; and beside Java's clients."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterator

import pytest
from interop.client_manners import consume, once_each
from interop.java_process import JavaProcess
from interop.served import KINDS, Served, create_topic, fresh, serving
from support.eventually import eventually

from rmqcore.client import (
    Admin,
    AsyncProducer,
    AsyncPullConsumer,
    Producer,
    PullConsumer,
    ReceivedMessage,
    SendStatus,
)
from rmqcore.errors import (
    ClientError,
    GroupNotFoundError,
    NoRouteError,
    NotReachedError,
    RefusedError,
)

FIRST = "CONSUME_FROM_FIRST_OFFSET"
POLL_SECONDS = 120.0
# Of what Java's driver sends these reach a consumer: tests/interop/test_broker.py.
JAVA_SENDS, VISIBLE = 30, 30 + 20 + 1 + 3 + 1


@pytest.fixture(scope="module", params=KINDS)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    with serving(request.param, tmp_path_factory.mktemp("broker")) as made:
        yield made


SMOKE = pytest.mark.parametrize(
    "broker", ["java", pytest.param("rmqcore", marks=pytest.mark.smoke)], indirect=True
)


@pytest.fixture
def topic(broker: Served) -> str:
    """A topic of the test's own, with four queues."""
    return create_topic(broker)


def group() -> str:
    return fresh("group")


def poll_all(consumer: PullConsumer, wanted: int) -> list[ReceivedMessage]:
    """Poll until this many different messages have come."""
    found: dict[str, ReceivedMessage] = {}
    while len(found) < wanted:
        batch = consumer.poll(POLL_SECONDS)
        assert batch, f"{len(found)} of {wanted} messages came"
        found |= once_each(batch, lambda message: message.msg_id)
    return list(found.values())


def until(done: Callable[[], bool], consumer: PullConsumer) -> None:
    """Poll until a condition holds; no message may come before."""
    came: list[ReceivedMessage] = []

    def is_over() -> bool:
        came.extend(consumer.poll(0.1))
        return bool(came) or done()

    eventually(is_over)
    assert came == []


# ---- one client -------------------------------------------------------------------------------------


@SMOKE
def test_what_is_sent_comes_back_as_it_was(broker: Served, topic: str) -> None:
    bodies = [b"x", "\u00e9\u4e16\U0001f600".encode(), bytes(range(256)) * 100]
    with (
        Producer(broker.namesrv) as producer,
        PullConsumer(broker.namesrv, group(), consume_from=FIRST) as consumer,
    ):
        sent = [
            producer.send(topic, body, "TagA", ("k1", "k\u00e9"), {"n\u00e4me": "v\u00e4lue"})
            for body in bodies
        ]
        assert {result.status for result in sent} == {SendStatus.SEND_OK}
        consumer.subscribe(topic)
        found = {message.msg_id: message for message in poll_all(consumer, 3)}
    for result, body in zip(sent, bodies, strict=True):
        message = found[result.msg_id]
        assert (message.topic, message.body, message.tags) == (topic, body, "TagA")
        assert message.keys == ("k1", "k\u00e9")
        assert message.properties["n\u00e4me"] == "v\u00e4lue"
        assert (message.queue, message.queue_offset) == (result.queue, result.queue_offset)
        assert message.offset_msg_id == result.offset_msg_id
        assert message.store_host == broker.address
        assert message.reconsume_times == message.flag == 0


def test_a_topic_is_created_by_the_first_send(broker: Served) -> None:
    topic = fresh("Auto")
    with PullConsumer(broker.namesrv, group(), consume_from=FIRST) as consumer:
        consumer.subscribe(topic)
        assert consumer.assignment() == []
        with Producer(broker.namesrv) as producer:
            results = [producer.send(topic, b"%d" % number) for number in range(8)]
        assert {result.queue_id for result in results} == {0, 1, 2, 3}
        assert len(poll_all(consumer, 8)) == 8


def test_tags_batches_and_one_way_messages(broker: Served, topic: str) -> None:
    with (
        Producer(broker.namesrv) as producer,
        PullConsumer(broker.namesrv, group(), consume_from=FIRST) as consumer,
    ):
        consumer.subscribe(topic, "A || Aa")
        batch = producer.send_many(topic, [b"%d" % number for number in range(10)], tags="A")
        assert len(batch.msg_id.split(",")) == len(batch.offset_msg_id.split(",")) == 10
        producer.send_many(topic, [b"no"] * 5, tags="B")
        producer.send(topic, b"same hash as Aa", tags="BB")
        producer.send_oneway(topic, b"one way", tags="Aa")
        found = poll_all(consumer, 11)
        assert consumer.poll(0.5) == []
    in_batch = [message for message in found if message.tags == "A"]
    assert [message.body for message in in_batch] == [b"%d" % number for number in range(10)]
    first = batch.queue_offset
    assert [message.queue_offset for message in in_batch] == list(range(first, first + 10))
    assert {message.queue for message in in_batch} == {batch.queue}
    assert ",".join(message.msg_id for message in in_batch) == batch.msg_id
    assert [message.body for message in found if message.tags != "A"] == [b"one way"]


def test_a_group_goes_on_where_it_committed(broker: Served, topic: str) -> None:
    name = group()
    with Producer(broker.namesrv) as producer:
        for number in range(20):
            producer.send(topic, b"%d" % number)
        with PullConsumer(broker.namesrv, name, consume_from=FIRST) as consumer:
            consumer.subscribe(topic)
            poll_all(consumer, 20)
        with PullConsumer(broker.namesrv, name, consume_from=FIRST) as consumer:
            consumer.subscribe(topic)
            assert len(poll_all(consumer, 20)) == 20  # nothing was committed
            consumer.commit()
        with PullConsumer(broker.namesrv, name, consume_from=FIRST) as consumer:
            consumer.subscribe(topic)
            assert consumer.poll(0.5) == []
            late = producer.send(topic, b"late")
            assert [message.msg_id for message in poll_all(consumer, 1)] == [late.msg_id]


def test_seek(broker: Served, topic: str) -> None:
    with (
        Producer(broker.namesrv) as producer,
        PullConsumer(broker.namesrv, group(), consume_from=FIRST) as consumer,
    ):
        results = [producer.send(topic, b"%d" % number) for number in range(12)]
        consumer.subscribe(topic)
        poll_all(consumer, 12)
        consumer.seek(topic, 2, 1)
        wanted = [r.msg_id for r in results if r.queue_id == 2 and r.queue_offset >= 1]
        assert [message.msg_id for message in poll_all(consumer, 2)] == wanted
        with pytest.raises(ValueError, match="expected 0 to 3"):
            consumer.seek(topic, 2, 4)
        with pytest.raises(ClientError, match="queue 4"):
            consumer.seek(topic, 4, 0)


def test_a_delay_level(broker: Served, topic: str) -> None:
    with Producer(broker.namesrv) as producer, PullConsumer(broker.namesrv, group()) as consumer:
        consumer.subscribe(topic)
        sent = producer.send(topic, b"later", properties={"DELAY": "1"})
        (message,) = poll_all(consumer, 1)
    assert (message.body, message.msg_id) == (b"later", sent.msg_id)
    assert message.store_timestamp_ms - message.born_timestamp_ms >= 900


def test_what_a_broker_refuses(broker: Served, topic: str) -> None:
    """The properties of a message have 32,767 bytes at most: the codes and names are those of Java's own errors."""
    with Producer(broker.namesrv) as producer:
        with pytest.raises(RefusedError) as found:
            producer.send(topic, b"x", properties={"long": "x" * 33_000})
        error = found.value
        assert (error.address, error.request) == (broker.address, "SEND_MESSAGE_V2")
        assert (error.response_code, error.response) == (13, "MESSAGE_ILLEGAL")
        assert error.remark
        producer.send(topic, b"x")


def test_a_port_that_speaks_no_remoting_and_one_that_nobody_listens_on(broker: Served) -> None:
    with (
        Producer("127.0.0.1:1") as producer,
        pytest.raises(NotReachedError, match=r"127\.0\.0\.1:1: GET_ROUTEINFO_BY_TOPIC"),
    ):
        producer.send("T", b"x")
    with Producer(f"127.0.0.1:1;{broker.namesrv}") as producer:
        producer.send(create_topic(broker), b"x")


# ---- groups -----------------------------------------------------------------------------------------


def test_two_members_share_a_topic_and_one_takes_over(broker: Served, topic: str) -> None:
    name = group()
    with PullConsumer(broker.namesrv, name, consume_from=FIRST) as first:
        first.subscribe(topic)
        assert len(first.assignment()) == 4
        with PullConsumer(broker.namesrv, name, consume_from=FIRST) as second:
            second.subscribe(topic)
            until(lambda: len(first.assignment()) == 2, first)
            assert len({*first.assignment(), *second.assignment()}) == 4
            with Producer(broker.namesrv) as producer:
                for number in range(8):
                    producer.send(topic, b"%d" % number)
            assert len(poll_all(first, 4)) == len(poll_all(second, 4)) == 4
            first.commit()
            second.commit()
        until(lambda: len(first.assignment()) == 4, first)


def test_many_messages_at_once_with_asyncio(broker: Served, topic: str) -> None:
    async def work() -> None:
        async with (
            AsyncProducer(broker.namesrv) as producer,
            AsyncPullConsumer(broker.namesrv, group(), consume_from=FIRST) as consumer,
        ):
            await consumer.subscribe(topic)
            sends = [producer.send(topic, b"%d" % number) for number in range(500)]
            sent = {result.msg_id for result in await asyncio.gather(*sends)}
            assert len(sent) == 500
            found: set[str] = set()
            while len(found) < 500:
                batch = await consumer.poll(POLL_SECONDS)
                assert batch
                found |= {message.msg_id for message in batch}
            assert found == sent
            await consumer.commit()

    asyncio.run(work())


# ---- beside Java's clients --------------------------------------------------------------------------


@SMOKE
def test_what_java_sends(java: JavaProcess, broker: Served, topic: str) -> None:
    """Plain, in a batch, delayed, compressed in three ways, and of transactions the one that was committed."""
    sent = java.call("send", nameServer=broker.namesrv, topic=topic, count=JAVA_SENDS)
    with PullConsumer(broker.namesrv, group(), consume_from=FIRST) as consumer:
        consumer.subscribe(topic)
        found = {message.keys[0]: message for message in poll_all(consumer, VISIBLE)}
    assert found["plain7"].body == "body 7 \u00e9\u4e16\U0001f600".encode()
    assert [found[f"batch{number}"].body for number in range(20)] == [
        b"inner %d" % number for number in range(20)
    ]
    assert found["delay"].body == b"later"
    assert {found[f"zip{kind}"].body for kind in ("LZ4", "ZSTD", "ZLIB")} == {
        b"L" * 2048,
        b"Z" * 2048,
    }
    assert found["transactionCOMMIT_MESSAGE"].body == b"COMMIT_MESSAGE"
    ids = {message.msg_id for message in found.values()}
    assert {one["uniq_key"] for one in sent if one["kind"] == "plain"} <= ids
    for name, message in found.items():
        assert message.properties["name"] == name
        assert message.tags == f"Tag{name[0]}"


@SMOKE
def test_what_java_receives(java: JavaProcess, broker: Served, topic: str) -> None:
    long_body = b"long " * 2000
    with Producer(broker.namesrv) as producer:
        sent = {
            producer.send(topic, body, keys=f"k{number}").msg_id: body
            for number, body in enumerate([b"short", "\u00e9\U0001f600".encode(), long_body])
        }
        batch = producer.send_many(topic, [b"in", b"a", b"batch"])
    sent.update(zip(batch.msg_id.split(","), [b"in", b"a", b"batch"], strict=True))
    got = consume(java, broker.namesrv, topic, 6)
    assert {one["uniq_key"]: base64.b64decode(one["body"]) for one in got} == sent


def test_a_batch_that_the_real_broker_stores_as_one_record(broker: Served) -> None:
    """Topics of Java with queue.type=BatchCQ: a record holds a batch, and a consumer takes it apart."""
    if broker.kind != "java":
        pytest.skip("queues of batches are Java's alone")
    topic = create_topic(broker, attributes="+queue.type=BatchCQ")
    with (
        Producer(broker.namesrv) as producer,
        PullConsumer(broker.namesrv, group(), consume_from=FIRST) as consumer,
    ):
        sent = producer.send_many(topic, [b"%d" % number for number in range(5)], tags="A")
        assert "," not in sent.msg_id
        consumer.subscribe(topic)  # the record has no tag, so the broker finds it by none
        found = poll_all(consumer, 5)
    assert [message.body for message in found] == [b"%d" % number for number in range(5)]
    assert {message.tags for message in found} == {"A"}
    assert [message.queue_offset for message in found] == [
        sent.queue_offset + number for number in range(5)
    ]


# ---- administration ---------------------------------------------------------------------------------


def test_what_an_administrator_asks(broker: Served) -> None:
    name, members = fresh("Topic"), group()
    with (
        Admin(broker.namesrv, timeout=60) as admin,
        Producer(broker.namesrv, timeout=60) as producer,
    ):
        admin.create_topic(name, 2)
        assert name in admin.list_topics()
        assert "TBW102" not in admin.list_topics()
        queues = admin.topic_queues(name)
        assert [queue.queue_id for queue in queues] == [0, 1]
        (instance,) = admin.topic_route(name).brokers
        assert instance.addresses == {0: broker.address}
        sent = [producer.send(name, b"%d" % number, keys=f"key{number}") for number in range(4)]
        with PullConsumer(broker.namesrv, members, consume_from=FIRST) as consumer:
            consumer.subscribe(name)
            poll_all(consumer, 4)
            consumer.commit()
        assert members in admin.list_groups()
        assert (admin.lag(members, name).lag, len(admin.lag(members, name).queues)) == (0, 2)
        # Without members, then with one.
        assert admin.reset_offsets(members, name, "first") == dict.fromkeys(queues, 0)
        assert admin.lag(members).topics[name] == 4
        with PullConsumer(broker.namesrv, members, consume_from=FIRST) as consumer:
            consumer.subscribe(name)
            assert admin.reset_offsets(members, name, "last") == dict.fromkeys(queues, 2)
        eventually(lambda: admin.messages_by_key(name, "key3"))  # Java's index is late
        (found,) = admin.messages_by_key(name, "key3")
        assert (found.body, found.msg_id) == (b"3", sent[3].msg_id)
        for msg_id in (sent[3].msg_id, found.offset_msg_id):
            again = admin.message_by_id(name, msg_id)
            assert again is not None
            assert again.view.raw == found.view.raw
        # Behind the log: of a place inside of it Java gives whatever bytes lie there.
        nowhere = f"{found.offset_msg_id[:-16]}{1 << 40:016X}"
        assert admin.message_by_id(name, nowhere) is None
        admin.delete_group(members)
        assert members not in admin.list_groups()
        for unknown in (
            lambda: admin.lag(members),
            lambda: admin.reset_offsets(members, name, "first"),
        ):
            with pytest.raises(GroupNotFoundError):
                unknown()
        if broker.kind == "java":
            # Without timers, as the broker of these tests, Java fails when the topic is gone from its table.
            with pytest.raises(RefusedError, match="getTimerMetrics"):
                admin.delete_topic(name)
            return
        admin.delete_topic(name)
        assert name not in admin.list_topics()
        with pytest.raises(NoRouteError):
            admin.topic_route(name)
