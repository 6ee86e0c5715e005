"""What a type checker makes of the public interface: mypy --strict reads this file, pytest runs it.

`assert_type` compares exactly, so an Any that creeps in fails as well; each `type: ignore` marks an error that must stay
an error, since unused ignores are errors.
"""

from __future__ import annotations

import inspect
import mmap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import assert_type

import numpy as np
import numpy.typing as npt
import pytest

import rmqcore
from rmqcore import Message, MessageView, StoreReader, codec
from rmqcore.client import (
    Admin,
    AsyncAdmin,
    AsyncProducer,
    AsyncPullConsumer,
    AsyncPushConsumer,
    ConsumeStatus,
    GroupLag,
    HeldLimits,
    MessageQueue,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    SendResult,
)
from rmqcore.client.settings import ProducerSettings, PullConsumerSettings
from rmqcore.disk.checkpoint import StoreCheckpoint
from rmqcore.errors import ClientError, CorruptionError, CorruptMessageError, StoreError
from rmqcore.offline.index.index_files import IndexFileInfo
from rmqcore.offline.info import StoreInfo
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.walk import Blank
from rmqcore.offline.lookup import OfflineGetResult
from rmqcore.queries.query_answer import QueryAnswer
from rmqcore.queries.queue_info import QueueInfo
from rmqcore.vocabulary.status import GetMessageStatus


def encoded() -> bytes:
    message = Message("Topic", b"body", tags="TagA", keys=["k1", "k2"])
    return codec.encode(message, phy_offset=0, queue_offset=0, store_timestamp_ms=1)


def test_codec(tmp_path: Path) -> None:
    record = encoded()
    assert_type(record, bytes)
    view = codec.decode(record)
    assert_type(view, MessageView)
    assert_type(view.phy_offset, int)
    assert_type(view.topic, str)
    assert_type(view.body, bytes)
    assert_type(view.tags, str | None)
    assert_type(view.keys, tuple[str, ...])
    assert_type(view.properties, dict[str, str])
    assert_type(view.born_host, str)
    assert_type(view.decompress(), bytes)
    assert_type(view.crc_ok(), bool)
    assert_type(codec.check(record), int)
    assert_type(codec.body_crc(b""), int)
    assert_type(codec.java_hash("TagA"), int)
    assert_type(codec.encode_properties({"a": "b"}), bytes)
    assert_type(codec.decode_properties(b"a\1b\2"), dict[str, str])
    assert_type(codec.pack_cq(0, 91, 0), bytes)
    assert_type(codec.unpack_cq(codec.pack_cq(0, 91, 0)).msg_size, int)

    buffer = bytearray(len(record))
    size = codec.encode_into(
        buffer, 0, Message("T", b""), phy_offset=0, queue_offset=0, store_timestamp_ms=1
    )
    assert_type(size, int)
    many = codec.encode_many([Message("T", b"")], phy_offset=0, store_timestamp_ms=1)
    assert_type(many, bytes)
    assert_type(codec.decode_all(many), list[MessageView])
    assert_type(codec.decode_all(many, 0, check_crc=True, copy=True), list[MessageView])
    batch = codec.encode_batch(iter([Message("T", b"")]))
    assert_type(batch, bytes)
    (inner,) = codec.decode_batch(batch, check_size=False)
    assert_type(inner, codec.BatchMessage)
    assert_type(inner.flag, int)
    assert_type(inner.body, bytes)
    assert_type(inner.properties, dict[str, str])
    assert_type(codec.unwrap(view), list[MessageView])
    lazy = codec.properties(view)
    assert_type(lazy["TAGS"], str)
    assert_type(lazy.get("none"), str | None)
    assert_type(list(lazy), list[str])
    as_mapping: Mapping[str, str] = codec.properties(b"a\1b\2")
    assert_type(codec.encode_properties(as_mapping), bytes)
    assert_type(codec.pack_cq([0], [91], [0]), bytes)
    assert_type(codec.unpack_cq(codec.pack_cq(0, 91, 0)), codec.CqEntry)
    assert_type(codec.unpack_host(codec.pack_host("127.0.0.1:10911")), str)
    assert_type(codec.msg_id("127.0.0.1:10911", 0), str)
    found = codec.parse_msg_id(view.msg_id)
    assert_type(found, codec.MsgId)
    assert_type(found.store_host, str)
    assert_type(found.phy_offset, int)
    assert_type(codec.index_key_hash("Topic", "k1"), int)

    # Everything with a buffer is taken.
    path = tmp_path / "record"
    path.write_bytes(record)
    array: npt.NDArray[np.uint8] = np.frombuffer(record, np.uint8)
    assert codec.decode(bytearray(record)).raw == codec.decode(memoryview(record)).raw == record
    # NumPy's stubs know that an array has a buffer only from Python 3.12 on.
    assert codec.decode(array).raw == record  # type: ignore[arg-type]
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert codec.decode(mapped).raw == record


def test_what_a_type_checker_must_refuse() -> None:
    with pytest.raises(TypeError):
        codec.decode("text")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        Message(b"Topic", b"")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        codec.encode_batch(["Topic"])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        codec.decode_all(encoded(), "0")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        codec.index_key_hash("Topic", 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        codec.encode(Message("Topic", b""))  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        codec.decode(encoded()).topic = "other"  # type: ignore[misc]


def test_reader(golden: Path) -> None:
    with rmqcore.read(golden / "basic" / "store") as reader:
        assert_type(reader, StoreReader)
        assert_type(reader.messages(), Iterator[MessageView])
        assert_type(reader.messages(blanks=False, topics=["a"], since_ms=1), Iterator[MessageView])
        assert_type(reader.messages(blanks=True), Iterator[MessageView | Blank])
        assert_type(reader.damage, list[DamageRange])
        assert_type(reader.queues(), list[QueueInfo])
        assert_type(reader.index_files(), list[IndexFileInfo])
        assert_type(reader.checkpoint(), StoreCheckpoint | None)
        assert_type(reader.info(), StoreInfo)
        assert_type(reader.info().max_phy_offset, int)
        assert_type(reader.query("TopicBasicA", "key"), QueryAnswer)
        assert_type(reader.lookup(0), MessageView | None)
        result = reader.get("TopicBasicA", 0, 0)
        assert_type(result, OfflineGetResult)
        assert_type(result.status, GetMessageStatus)
        assert_type(result.next_begin_offset, int)
        for batch in reader.batches(["topic", "body"], batch_rows=100):
            assert_type(batch.num_rows, int)


def test_frames(golden: Path) -> None:
    pytest.importorskip("polars")
    pytest.importorskip("duckdb")
    import duckdb
    import polars as pl

    store = golden / "basic" / "store"
    reader = rmqcore.read(store)
    assert_type(reader.to_polars(["topic"], topics=["TopicBasicA"], verify_crc=True), pl.DataFrame)
    assert_type(rmqcore.scan(store, ["topic"], queue_ids=[1], on_damage=print), pl.LazyFrame)
    assert_type(rmqcore.scan(reader).select("topic").collect(), pl.DataFrame)
    connection = duckdb.connect()
    view = rmqcore.duckdb_view(connection, "store", store, since_ms=1)
    assert_type(view, duckdb.DuckDBPyRelation)
    assert_type(rmqcore.duckdb_view(duckdb, "store", reader), duckdb.DuckDBPyRelation)
    with pytest.raises(TypeError):
        rmqcore.scan(store, topic=["T"])  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        reader.to_arrow(since="1h")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        rmqcore.scan(store, since_ms="1h")  # type: ignore[arg-type]


NAMESRV = "127.0.0.1:1"


def test_clients() -> None:
    with Producer(NAMESRV, timeout=1.0, retry_times=0, max_message_size=10) as producer:
        assert_type(producer, Producer)
        with pytest.raises(ClientError):
            assert_type(producer.send("T", b"x", keys=("a", "b")), SendResult)
    with PullConsumer(
        NAMESRV, "g", auto_commit=True, consume_from="CONSUME_FROM_FIRST_OFFSET"
    ) as c:
        assert_type(c, PullConsumer)
        assert_type(c.assignment(), list[MessageQueue])
        with pytest.raises(ClientError):
            assert_type(c.poll(0), list[ReceivedMessage])
    with Admin(NAMESRV, timeout=1.0) as admin:
        assert_type(admin, Admin)
        with pytest.raises(ClientError):
            assert_type(admin.lag("g"), GroupLag)
        with pytest.raises(ClientError):
            assert_type(admin.reset_offsets("g", "T", "last"), dict[MessageQueue, int])
        with pytest.raises(ClientError):
            assert_type(admin.message_by_id("T", "AB"), ReceivedMessage | None)
        with pytest.raises(ClientError):
            assert_type(admin.list_topics(), list[str])


def test_what_a_type_checker_must_refuse_of_clients() -> None:
    with pytest.raises(TypeError, match="time_out"):
        Producer(NAMESRV, time_out=1.0)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="autocommit"):
        PullConsumer(NAMESRV, "g", autocommit=True)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        PullConsumer(NAMESRV, "g", pull_batch_size="32")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="group: expected str, got bytes"):
        Producer(NAMESRV, b"g")  # type: ignore[arg-type]
    with (
        Producer(NAMESRV) as producer,
        pytest.raises(TypeError, match="topic: expected str, got bytes"),
    ):
        producer.send(b"T", b"x")  # type: ignore[arg-type]
    with Admin(NAMESRV) as admin, pytest.raises(ValueError, match="middle"):
        admin.reset_offsets("g", "T", "middle")  # type: ignore[arg-type]


def _parameters_of(client: Callable[..., object]) -> set[str]:
    return set(inspect.signature(client).parameters) - {"namesrv", "group"}


def test_the_settings_of_ordinary_clients_are_those_of_asyncio() -> None:
    assert set(ProducerSettings.__annotations__) == _parameters_of(AsyncProducer)
    assert set(PullConsumerSettings.__annotations__) == _parameters_of(AsyncPullConsumer)
    assert _parameters_of(Admin) == _parameters_of(AsyncAdmin)
    for name in ("create_topic", "list_topics", "lag", "messages_by_key", "reset_offsets"):
        ordinary, of_asyncio = (
            inspect.signature(getattr(one, name)) for one in (Admin, AsyncAdmin)
        )
        assert str(ordinary) == str(of_asyncio), name


def test_errors() -> None:
    error = CorruptMessageError("commitlog/00000000000000000000", 0, "MAGIC", 1, 2)
    assert_type(error.phy_offset, int)
    assert_type(error.expected, object)
    assert_type(StoreError.code, str)
    assert_type(StoreError.exit_code, int)
    as_parent: CorruptionError = error
    assert as_parent.exit_code == 2


def test_push_consumers() -> None:
    async def handler(message: ReceivedMessage) -> None:
        assert_type(message.body, bytes)

    def blocking(_: ReceivedMessage) -> ConsumeStatus:
        return ConsumeStatus.RECONSUME_LATER

    async def work(member: AsyncPushConsumer) -> None:
        assert_type(await member.subscribe("T", "A || B"), None)
        assert_type(await member.run(handler, concurrency=2), None)
        async for message in member:
            assert_type(message, ReceivedMessage)
        await member.run(blocking)  # type: ignore[arg-type]

    with PushConsumer("127.0.0.1:1", "g", orderly=True, limits=HeldLimits(messages=5)) as consumer:
        assert_type(consumer, PushConsumer)
        assert_type(consumer.assignment(), list[MessageQueue])
        with pytest.raises(ClientError):
            consumer.run(blocking, concurrency=4)
        with pytest.raises(ClientError):
            consumer.run(handler)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        PushConsumer("127.0.0.1:1", "g", order=True)  # type: ignore[call-arg]
    assert work is not None
