"""An administrator's calls: over a broker with sockets, and over a cluster without, whose answers a test chooses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from support.eventually import eventually
from support.fake_cluster import NAMESRV, FakeCluster, run

from rmqcore.client import Admin, AsyncAdmin, MessageQueue, Producer, PullConsumer
from rmqcore.errors import (
    AnswerTimeoutError,
    ClientClosedError,
    ClientError,
    GroupNotFoundError,
    NoRouteError,
    RefusedError,
)
from rmqcore.remoting.bodies.json_object import encode_json
from rmqcore.remoting.bodies.queue_locks import MessageQueue as StoredQueue
from rmqcore.remoting.bodies.queue_tables import (
    ConsumeStats,
    OffsetWrapper,
    encode_reset_offsets,
    parse_consume_stats,
    parse_queue_numbers,
)
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.testing.served_broker import ServedBroker

POLL_SECONDS = 60.0
NUMBERS = count(1)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    with ServedBroker(tmp_path_factory.mktemp("admin")) as served:
        yield served


@pytest.fixture(scope="module")
def admin(broker: ServedBroker) -> Iterator[Admin]:
    with Admin(broker.namesrv, timeout=30) as made:
        yield made


@pytest.fixture
def topic(admin: Admin) -> str:
    name = f"Topic{next(NUMBERS)}"
    admin.create_topic(name, 2)
    return name


def consume(namesrv: str, group: str, topic: str, number: int) -> None:
    """Let a group consume some messages, and commit them."""
    with PullConsumer(
        namesrv, group, consume_from="CONSUME_FROM_FIRST_OFFSET", pull_batch_size=1
    ) as consumer:
        consumer.subscribe(topic)
        found = 0
        while found < number:
            found += len(consumer.poll(POLL_SECONDS))
        consumer.commit()


def test_a_cluster_that_is_unknown(admin: Admin) -> None:
    expected = "no master of cluster Other is registered at the name server; clusters there: DefaultCluster"
    with pytest.raises(ClientError, match=f"^{expected}$"):
        admin.create_topic("New", cluster="Other")


# ---- topics -----------------------------------------------------------------------------------------


def test_a_topic_is_made_changed_listed_and_deleted(broker: ServedBroker, admin: Admin) -> None:
    admin.create_topic("Made", 3)
    queues = [MessageQueue("Made", "broker-a", number) for number in range(3)]
    assert admin.topic_queues("Made") == queues
    admin.create_topic("Made", 4, perm=4)
    (of_broker,) = admin.topic_route("Made").queues
    assert (of_broker.read_queue_nums, of_broker.write_queue_nums, of_broker.perm) == (4, 4, 4)
    (one,) = admin.topic_route("Made").brokers
    assert one.addresses == {0: broker.address}
    assert "Made" in admin.list_topics()
    admin.delete_topic("Made")
    assert "Made" not in admin.list_topics()
    with pytest.raises(NoRouteError, match="no broker has topic Made"):
        admin.topic_route("Made")


def test_topics_of_rocketmq_itself_are_listed_where_they_are_wanted(
    broker: ServedBroker, admin: Admin, topic: str
) -> None:
    with Producer(broker.namesrv) as producer:
        producer.send(topic, b"x")
    consume(broker.namesrv, "listed", topic, 1)
    plain = admin.list_topics()
    assert topic in plain
    assert not {"%RETRY%listed", "SCHEDULE_TOPIC_XXXX"} & set(plain)
    everything = admin.list_topics(internal=True)
    assert {"TBW102", "DefaultCluster", "broker-a", "%RETRY%listed"} < set(everything)
    assert set(plain) < set(everything)


def test_a_topic_that_a_broker_refuses(admin: Admin) -> None:
    with pytest.raises(RefusedError, match="conflict with system topic"):
        admin.create_topic("TBW102")
    with pytest.raises(RefusedError, match="readQueueNums is 2000"):
        admin.create_topic("Wide", 2000)
    with pytest.raises(ValueError, match="queues is 0"):
        admin.create_topic("None", 0)
    with pytest.raises(ValueError, match="is not a valid name"):
        admin.create_topic("a b")


def test_an_unknown_topic_is_named(admin: Admin) -> None:
    for call in (
        lambda: admin.delete_topic("Unknown"),
        lambda: admin.topic_queues("Unknown"),
        lambda: admin.reset_offsets("g", "Unknown", "first"),
        lambda: admin.lag("g", "Unknown"),
        lambda: admin.message_by_id("Unknown", "00" * 16),
        lambda: admin.messages_by_key("Unknown", "k"),
    ):
        with pytest.raises(NoRouteError, match="Unknown"):
            call()


def test_an_unknown_group_is_named(admin: Admin, topic: str) -> None:
    for call in (
        lambda: admin.delete_group("unknown"),
        lambda: admin.reset_offsets("unknown", topic, "first"),
        lambda: admin.lag("unknown"),
        lambda: admin.lag("unknown", topic),
    ):
        with pytest.raises(GroupNotFoundError, match="no broker has consumer group unknown"):
            call()


def test_arguments_of_another_type_are_named(
    broker: ServedBroker, admin: Admin, topic: str
) -> None:
    """A topic given as bytes ended in 'cannot use a string pattern on a bytes-like object'."""
    calls: dict[str, Callable[[Any, Any], object]] = {
        "topic: expected str, got bytes": lambda producer, _: producer.send(b"T", b"x"),
        "group: expected str, got bytes": lambda *_: Producer(broker.namesrv, b"g"),  # type: ignore[arg-type]
        "namesrv: expected str or an iterable of str, got bytes": lambda *_: Admin(b"a:1"),  # type: ignore[arg-type]
        "namesrv: expected str or an iterable of str, got NoneType": lambda *_: Admin(None),  # type: ignore[arg-type]
        "namesrv: expected str, got bytes": lambda *_: Admin([b"a:1"]),  # type: ignore[list-item]
        "tags: expected str, got bytes": lambda _, consumer: consumer.subscribe(topic, b"A"),
        "queue_id: expected int, got str": lambda _, consumer: consumer.seek(topic, "0", 0),
        "key: expected str, got bytes": lambda *_: admin.messages_by_key(topic, b"k"),  # type: ignore[arg-type]
        "msg_id: expected str, got bytes": lambda *_: admin.message_by_id(topic, b"AB"),  # type: ignore[arg-type]
        "queues: expected int, got str": lambda *_: admin.create_topic("New", "4"),  # type: ignore[arg-type]
    }
    with Producer(broker.namesrv) as producer, PullConsumer(broker.namesrv, "types") as consumer:
        for message, call in calls.items():
            with pytest.raises(TypeError, match=message):
                call(producer, consumer)
        for wrong in (
            lambda: producer.send_many(b"T", [b"x"]),  # type: ignore[arg-type]
            lambda: producer.send_oneway(b"T", b"x"),  # type: ignore[arg-type]
            lambda: consumer.subscribe(b"T"),  # type: ignore[arg-type]
            lambda: consumer.unsubscribe(b"T"),  # type: ignore[arg-type]
            lambda: consumer.seek(b"T", 0, 0),  # type: ignore[arg-type]
            lambda: admin.create_topic(b"T"),  # type: ignore[arg-type]
            lambda: admin.topic_queues(b"T"),  # type: ignore[arg-type]
            lambda: admin.lag("g", b"T"),  # type: ignore[arg-type]
        ):
            with pytest.raises(TypeError, match="topic: expected str, got bytes"):
                wrong()


# ---- groups -----------------------------------------------------------------------------------------


def test_the_lag_of_a_group(broker: ServedBroker, admin: Admin, topic: str) -> None:
    with Producer(broker.namesrv) as producer:
        for number in range(6):
            producer.send(topic, b"%d" % number)
    group = f"lag-{topic}"
    consume(broker.namesrv, group, topic, 4)
    found = admin.lag(group, topic)
    assert [one.queue for one in found.queues] == admin.topic_queues(topic)
    assert [one.broker_offset for one in found.queues] == [3, 3]
    assert sum(one.consumer_offset for one in found.queues) == 4
    assert found.lag == 2
    assert found.topics == {topic: 2}
    assert admin.lag(group).topics[topic] == 2
    assert group in admin.list_groups()
    assert "CID_RMQ_SYS_TRANS" in admin.list_groups(internal=True)
    assert "CID_RMQ_SYS_TRANS" not in admin.list_groups()
    admin.delete_group(group)
    assert group not in admin.list_groups()


def test_a_group_reads_again_from_another_place(
    broker: ServedBroker, admin: Admin, topic: str
) -> None:
    with Producer(broker.namesrv) as producer:
        for number in range(4):
            producer.send(topic, b"%d" % number)
    group = f"reset-{topic}"
    consume(broker.namesrv, group, topic, 4)
    queues = admin.topic_queues(topic)
    assert admin.lag(group, topic).lag == 0
    assert admin.reset_offsets(group, topic, "first") == dict.fromkeys(queues, 0)
    assert admin.lag(group, topic).lag == 4
    assert admin.reset_offsets(group, topic, "last") == dict.fromkeys(queues, 2)
    assert admin.lag(group, topic).lag == 0
    times = sorted(message.store_timestamp_ms for message in broker.messages(topic))
    assert sum(admin.reset_offsets(group, topic, times[0]).values()) == 0
    assert admin.lag(group, topic).lag == 4
    for wrong in ("middle", -5, True, 1.5, None):
        with pytest.raises(ValueError, match="expected milliseconds since 1970, 'first' or 'last'"):
            admin.reset_offsets(group, topic, wrong)  # type: ignore[arg-type]


# ---- messages ---------------------------------------------------------------------------------------


def test_messages_by_id_and_by_key(broker: ServedBroker, admin: Admin, topic: str) -> None:
    with Producer(broker.namesrv) as producer:
        sent = producer.send(topic, b"x" * 10_000, tags="A", keys=("k1", "k2"))
        producer.send(topic, b"second", keys="k1")
    eventually(lambda: len(admin.messages_by_key(topic, "k1")) == 2)  # the index is late
    assert [one.body for one in admin.messages_by_key(topic, "k1")] == [b"x" * 10_000, b"second"]
    assert admin.messages_by_key(topic, "k") == []
    assert admin.messages_by_key(topic, "k1", end_ms=1) == []
    by_id = admin.message_by_id(topic, sent.msg_id)
    assert by_id is not None
    assert (by_id.msg_id, by_id.tags, by_id.keys) == (sent.msg_id, "A", ("k1", "k2"))
    assert (by_id.queue, by_id.queue_offset) == (sent.queue, sent.queue_offset)
    at_place = admin.message_by_id(topic, by_id.offset_msg_id)
    assert at_place is not None
    assert at_place.view.raw == by_id.view.raw
    changed = by_id.offset_msg_id[:-2] + "ff"
    for unknown in ("no id", sent.msg_id[::-1], changed, ""):
        assert admin.message_by_id(topic, unknown) is None


def test_a_message_of_another_topic_is_not_found(
    broker: ServedBroker, admin: Admin, topic: str
) -> None:
    with Producer(broker.namesrv) as producer:
        producer.send("Elsewhere", b"x", keys="k")
    (found,) = eventually(lambda: admin.messages_by_key("Elsewhere", "k"))
    assert admin.message_by_id(topic, found.offset_msg_id) is None
    assert admin.messages_by_key(topic, "k") == []


# ---- over a cluster without sockets -----------------------------------------------------------------


GROUPS = encode_json({"subscriptionGroupTable": {"g": {"groupName": "g"}}})


def with_group(request: RemotingCommand) -> RemotingCommand:
    return request.response(body=GROUPS)


def without_group(request: RemotingCommand) -> RemotingCommand:
    return request.response(body=b"{}")


def test_all_brokers_count(cluster: FakeCluster) -> None:
    group_code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
    for number, groups in enumerate([with_group, with_group, without_group]):
        name = f"b{number}"
        one = cluster.broker(name, f"192.0.2.{number + 1}:10911", T=1)
        one.hooks[group_code] = groups
        stats = ConsumeStats({StoredQueue("T", name, 0): OffsetWrapper(10, number, number)})
        one.hooks[RequestCode.GET_CONSUME_STATS] = lambda request, stats=stats: (  # type: ignore[misc]
            request.response(body=stats.encode())
        )

    async def work() -> None:
        async with AsyncAdmin(NAMESRV) as admin:
            found = await admin.lag("g")
            assert [(one.queue.broker_name, one.lag) for one in found.queues] == [
                ("b0", 10),
                ("b1", 9),
            ]
            assert found.lag == 19
            assert await admin.list_groups() == ["g"]

    run(work())


def test_java_refuses_to_reset_a_group_without_members(cluster: FakeCluster) -> None:
    broker = cluster.broker("b", "192.0.2.1:10911", T=2)
    broker.hooks[RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG] = with_group
    broker.hooks[RequestCode.INVOKE_BROKER_TO_RESET_OFFSET] = lambda request: request.response(
        ResponseCode.CONSUMER_NOT_ONLINE, "Consumer not online"
    )
    broker.hooks[RequestCode.SEARCH_OFFSET_BY_TIMESTAMP] = lambda request: request.response(
        ext_fields={"offset": str(3 + int(request.ext_fields["queueId"]))}
    )
    broker.put("T", 1, b"x")

    async def work() -> None:
        first, second = (MessageQueue("T", "b", number) for number in (0, 1))
        async with AsyncAdmin(NAMESRV) as admin:
            assert await admin.reset_offsets("g", "T", 5) == {first: 3, second: 4}
            assert broker.offsets == {("g", "T", 0): 3, ("g", "T", 1): 4}
            assert await admin.reset_offsets("g", "T", "last") == {first: 0, second: 1}
            assert broker.offsets == {("g", "T", 0): 0, ("g", "T", 1): 1}

    run(work())


def test_one_timeout_for_a_whole_call(cluster: FakeCluster) -> None:
    """Each request had a limit of its own in other clients: a call took their sum."""
    silent = {
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        RequestCode.QUERY_MESSAGE,
    }
    for number in range(3):
        cluster.broker(f"b{number}", f"192.0.2.{number + 1}:10911", T=1).silent |= silent

    async def work() -> None:
        loop = asyncio.get_running_loop()
        async with AsyncAdmin(NAMESRV, timeout=2.0) as admin:
            for call in (
                lambda: admin.lag("g"),
                admin.list_groups,
                lambda: admin.create_topic("New"),
                lambda: admin.messages_by_key("T", "k"),
                lambda: admin.reset_offsets("g", "T", "first"),
            ):
                begin = loop.time()
                with pytest.raises(AnswerTimeoutError):
                    await call()
                assert loop.time() - begin <= 2.0

    run(work())


def test_a_closed_one_says_so(cluster: FakeCluster) -> None:
    cluster.broker("b", "192.0.2.1:10911", T=1)
    admin = Admin(NAMESRV)
    assert admin.list_topics() == ["T", "other"]
    admin.close()
    admin.close()
    with pytest.raises(ClientClosedError):
        admin.list_topics()


# ---- bodies -----------------------------------------------------------------------------------------


def test_tables_whose_keys_are_queues() -> None:
    queues = [StoredQueue('{"odd",{}:\\', "b", 0), StoredQueue("U", "b", 3)]
    stats = ConsumeStats({queue: OffsetWrapper(7, 5, 6, 9) for queue in queues}, 1.5)
    assert parse_consume_stats("X", stats.encode()).offsets == stats.offsets
    offsets = dict.fromkeys(queues, 4)
    assert parse_queue_numbers("X", "offsetTable", encode_reset_offsets(offsets)) == offsets


def test_a_hostile_table_is_read_in_linear_time() -> None:
    begin = time.perf_counter()
    for body in (b"{" * 200_000, b',{"a"' * 100_000, b'{"' * 200_000, b"{{}" * 100_000):
        with pytest.raises(Exception, match="body"):
            parse_consume_stats("X", body)
    assert time.perf_counter() - begin < 20
