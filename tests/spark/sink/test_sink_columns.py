"""Which column is which field, which queue a row goes to, and what is said of rows and columns that make no message."""

from __future__ import annotations

import pickle
import random
import time
from collections import Counter
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import DateType, MapType, StringType, StructType, TimestampType
from support.spark.sink_writes import bodies, numbers, write

import rmqcore
from rmqcore import codec
from rmqcore.errors import RowRefusedError
from rmqcore.spark.options.sink_options import SINK_OPTIONS, SinkOptions
from rmqcore.spark.options.source_options import parse_value
from rmqcore.spark.sink.columns import write_columns
from rmqcore.spark.sink.message_rows import _property
from rmqcore.spark.sink.row_batches import BATCH_ROWS
from rmqcore.spark.source.datasource import RmqStoreDataSource
from rmqcore.spark.storage.locations import find_stores

MAP = pa.map_(pa.string(), pa.string())
TYPES = {
    "string": pa.string(),
    "int": pa.int32(),
    "map<string,int>": pa.map_(pa.string(), pa.int32()),
    "array<int>": pa.list_(pa.int32()),
    "array<string>": pa.list_(pa.string()),
}
TIME = pa.timestamp("us", tz="UTC")


def messages(out: Path) -> list[Any]:
    return [
        message for store in find_stores(out) for message in rmqcore.read(store.root).messages()
    ]


def frame(**columns: Any) -> pa.Table:
    """One message, with other columns."""
    return pa.table({"topic": ["Orders"], "body": [b"b"], **columns})


def test_every_field_is_written(tmp_path: Path) -> None:
    rows = frame(
        queue_id=pa.array([3], pa.int32()),
        tags=["TagA"],
        keys=["K1  K2 "],
        uniq_key=["U"],
        flag=pa.array([7], pa.int32()),
        born_timestamp=pa.array([1_700_000_000_123_456], TIME),
        born_host=["10.0.0.1:5"],
        store_host=["10.0.0.2:6"],
        reconsume_times=pa.array([2], pa.int32()),
        sys_flag=pa.array([1], pa.int32()),
        prepared_transaction_offset=[9],
    )
    write(tmp_path / "out", rows)
    (message,) = messages(tmp_path / "out")
    assert (message.topic, message.queue_id, message.tags) == ("Orders", 3, "TagA")
    assert message.keys == ("K1", "K2")
    assert message.properties == {"UNIQ_KEY": "U", "KEYS": "K1 K2", "TAGS": "TagA"}
    assert (message.born_timestamp_ms, message.born_host, message.store_host) == (
        1_700_000_000_123,
        "10.0.0.1:5",
        "10.0.0.2:6",
    )
    assert (message.flag, message.reconsume_times, message.sys_flag) == (7, 2, 1)
    assert message.prepared_transaction_offset == 9


def test_columns_by_option_and_a_fixed_topic(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "id": ["a b", "", None],
            "line": ["x", "y", "z"],
            "at": [5, 6, 7],
            "topic": ["T", "T", "T"],
        }
    )
    given: dict[str, Any] = {
        "topic": "Orders",
        "column.body": "line",
        "column.keys": "ID",
        "column.born_timestamp": "at",
    }
    write(tmp_path / "out", rows, **given)
    found = messages(tmp_path / "out")
    assert [message.topic for message in found] == ["Orders"] * 3
    assert [message.keys for message in found] == [("a", "b"), (), ()]
    assert [message.born_timestamp_ms for message in found] == [5, 6, 7]
    assert bodies(tmp_path / "out") == ["x", "y", "z"]


def test_columns_that_say_where_a_message_lay_are_decided_anew(tmp_path: Path) -> None:
    write(
        tmp_path / "out",
        frame(
            phy_offset=[77],
            queue_offset=[5],
            store_timestamp=pa.array([1], TIME),
            msg_size=[3],
            broker=["b"],
        ),
    )
    (message,) = messages(tmp_path / "out")
    assert (message.phy_offset, message.queue_offset) == (0, 0)
    assert message.store_timestamp_ms > 1_700_000_000_000


def test_round_robin_goes_by_topic_over_batches(tmp_path: Path) -> None:
    """One counter for all topics would put each of two topics that alternate into half of its queues."""
    topics = ["A", "B"] * 20
    rows = pa.table({"topic": topics, "body": [b"b"] * 40})
    write(tmp_path / "out", rows, queues="2")
    found = Counter((message.topic, message.queue_id) for message in messages(tmp_path / "out"))
    assert found == {(topic, queue): 10 for topic in "AB" for queue in (0, 1)}
    in_turn = [message.queue_id for message in messages(tmp_path / "out") if message.topic == "A"]
    assert in_turn == [0, 1] * 10


def java_queue(key: str | int | None, queues: int, bits: int = 64) -> int:
    if key is None:
        return 0
    if isinstance(key, str):
        hashed = codec.java_hash(key)
    elif bits == 32:
        hashed = key
    else:
        unsigned = key & (1 << 64) - 1
        hashed = (unsigned ^ unsigned >> 32) & 0xFFFFFFFF
        hashed -= (hashed >> 31) << 32
    return abs(hashed) % queues


@pytest.mark.parametrize(
    ("values", "kind", "bits"),
    [
        (["K1", "Bestellung-ä", "", None, "\U0001f600x", "polygenelubricants"], pa.string(), 0),
        ([0, -1, 1 << 31, -(1 << 63), (1 << 63) - 1, None], pa.int64(), 64),
        ([0, -1, -(1 << 31), (1 << 31) - 1, 12345, None], pa.int32(), 32),
    ],
)
def test_hash_is_that_of_java_producers(
    tmp_path: Path, values: list[Any], kind: pa.DataType, bits: int
) -> None:
    """The text polygenelubricants has the hash -2**31, whose amount no int of Java holds."""
    rows = pa.table({"topic": ["T"] * 6, "body": [b"b"] * 6, "order": pa.array(values, kind)})
    write(tmp_path / "out", rows, queueSelector="hash", hashColumn="order", queues="7")
    found = [message.queue_id for message in messages(tmp_path / "out")]
    assert found == [java_queue(value, 7, bits) for value in values]


def test_a_queue_id_is_taken_unless_another_selector_is_asked_for(tmp_path: Path) -> None:
    rows = pa.table({"topic": ["T"] * 3, "body": [b"b"] * 3, "queue_id": [9, 9, 9]})
    write(tmp_path / "out", rows)
    assert [message.queue_id for message in messages(tmp_path / "out")] == [9, 9, 9]
    write(tmp_path / "out", rows, overwrite=True, queueSelector="roundRobin", queues="2")
    assert [message.queue_id for message in messages(tmp_path / "out")] == [0, 1, 0]


def test_properties_with_tags_keys_and_unique_key_twice(tmp_path: Path) -> None:
    properties = pa.array(
        [[("TAGS", "t"), ("KEYS", "a b"), ("UNIQ_KEY", "U"), ("color", "red")]], MAP
    )
    write(tmp_path / "out", frame(properties=properties, tags=["t"], keys=["a b"], uniq_key=["U"]))
    (message,) = messages(tmp_path / "out")
    assert message.properties == {"TAGS": "t", "KEYS": "a b", "UNIQ_KEY": "U", "color": "red"}
    for other, told in (
        ({"tags": ["x"]}, "'TAGS' is given twice"),
        ({"uniq_key": ["x"]}, "column uniq_key: expected 'U'"),
    ):
        with pytest.raises((RowRefusedError, ValueError), match=told):
            write(tmp_path / "out", frame(properties=properties, **other))
    assert len(messages(tmp_path / "out")) == 1


def test_keys_stay_as_properties_have_them(tmp_path: Path) -> None:
    """RocketMQ's clients put two spaces between keys: a topic's export could not be written, KEYS was given twice."""
    raw = ["a  b", " a b ", "a b", None, "c", "tab\tbed"]
    shown = ["a b", "a b", "a b", None, "c", "tab\tbed"]
    properties = pa.array([[] if text is None else [("KEYS", text)] for text in raw], MAP)
    rows = pa.table(
        {"topic": ["T"] * 6, "body": [b"b"] * 6, "properties": properties, "keys": shown}
    )
    write(tmp_path / "out", rows)
    assert [message.properties.get("KEYS") for message in messages(tmp_path / "out")] == raw
    with pytest.raises(RowRefusedError, match=r"row 2: column properties: .*'KEYS' is given twice"):
        write(tmp_path / "out", rows.set_column(3, "keys", [["a b", "a b", "c", None, None, None]]))


def test_a_unique_key_among_properties_of_slices_nulls_and_repeats() -> None:
    """The values that pyarrow's own `map_lookup` finds, which takes ten times as long."""
    rng = random.Random(1)
    names = ["UNIQ_KEY", "KEYS", "UNIQ_KEY2"]
    rows = [
        None
        if rng.random() < 0.2
        else [(rng.choice(names), f"{row}.{n}") for n in range(rng.randrange(4))]
        for row in range(500)
    ]
    properties = pa.array(rows, MAP)
    for start, count in ((0, 500), (7, 300), (499, 1), (20, 0)):
        part = properties.slice(start, count)
        assert _property(part, "UNIQ_KEY") == pc.map_lookup(part, "UNIQ_KEY", "first")


@pytest.mark.parametrize(
    ("columns", "options", "told"),
    [
        ({"topic": pa.array([None], pa.string())}, {}, "row 0: column topic: expected a value, found null; the row: topic=None"),
        ({"body": [b"x" * 200]}, {"maxMessageSize": "100"}, r"expected at most 100 bytes \(option maxMessageSize\), found 200"),
        ({"topic": ["t" * 128]}, {"forVersion": "4.9"}, "topic: expected at most 127 bytes, as RocketMQ .* found 128 bytes"),
        ({"born_host": ["[::1]:7"]}, {"forVersion": "4.5"}, r"born_host: expected an IPv4 host, .* found \[::1\]:7"),
        ({"topic": ["a/b"]}, {}, "column topic: expected a name .* found 'a/b'"),
        ({"topic": [""]}, {}, "column topic: expected a name .* found ''"),
        ({"queue_id": [-1]}, {}, "column queue_id: expected 0 to 2147483647, found -1"),
        ({"properties": pa.array([[("A", "x" * 40000)]], MAP)}, {}, "properties: expected at most 32767 bytes, found 40003"),
        ({"flag": [1 << 40]}, {}, "column flag: expected .* 1099511627776 has no room"),
        ({"born_host": ["nowhere"]}, {}, "column born_host: expected"),
        ({"line": pa.array([None], pa.binary())}, {"column.body": "line"}, "column line: expected a value, found null"),
        ({"topic": ["\x1b[31m"], "queue_id": [-1]}, {}, r"topic='\\x1b\[31m'"),
    ],
)  # fmt: skip
def test_a_row_that_makes_no_message(
    tmp_path: Path, columns: dict[str, Any], options: dict[str, Any], told: str
) -> None:
    rows = frame(**columns)
    with pytest.raises(RowRefusedError, match=told):
        write(tmp_path / "out", rows, **options)
    assert bodies(tmp_path / "out") == []


@pytest.mark.parametrize(
    ("schema", "options", "told"),
    [
        ("body string", {}, "expected a column topic, an option column.topic, or the option topic; found body"),
        ("topic string", {}, "column body is missing"),
        ("topic string, body string, amount int", {}, r"not a field of a message\. Drop it, or .* column\.FIELD=amount\."),
        ("topic string, body string, tag string", {}, r"column tag is not a field of a message; did you mean tags\? Drop it"),
        ("topic string, body int", {}, "column body: expected binary or string, found int"),
        ("topic string, body string, tags int", {}, "column tags: expected string, found int"),
        ("topic string, body string, properties map<string,int>", {}, "column properties: expected map<string,string>"),
        ("topic string, body string, keys array<int>", {}, "column keys: expected string or array<string>"),
        ("topic string, body string", {"column.key": "topic"}, "option column.key: expected one of topic"),
        ("topic string, body string", {"column.keys": "id"}, "option column.keys: unknown column id; known are topic, body"),
        ("topic string, body string", {"queueSelector": "hash"}, "hashColumn: unknown column keys"),
        ("topic string, body string", {"queueSelector": "column"}, "queueSelector=column: expected a column queue_id"),
        ("topic string, body string, k array<string>", {"queueSelector": "hash", "hashColumn": "k"}, "column k: expected"),
        ("topic string, body string", {"column.tags": "body"}, r"the option column\.tags writes the column of this name as tags"),
        ("topic string, body string, BODY string", {}, "two columns have the same name"),
    ],
)  # fmt: skip
def test_a_schema_that_does_not_fit(schema: str, options: dict[str, str], told: str) -> None:
    given = SinkOptions.parse({"path": "out", **options})
    fields = [(name, TYPES[kind]) for name, kind in map(str.split, schema.split(", "))]
    of_frame = from_arrow_schema(pa.schema(fields))
    with pytest.raises((ValueError, TypeError), match=told):
        write_columns(of_frame, given)


def test_a_column_of_nothing_but_null_counts_as_missing(tmp_path: Path) -> None:
    rows = frame(tags=pa.nulls(1), keys=pa.nulls(1), born_timestamp=pa.nulls(1))
    write(tmp_path / "out", rows)
    assert [message.tags for message in messages(tmp_path / "out")] == [None]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"path": "out", "queue": "3"}, "unknown option queue of a write; did you mean queues"),
        ({"path": "out", "topics": "a"}, "did you mean topic"),
        (
            {"path": "out", "zzz": "a"},
            "unknown option zzz of a write; docs/spark.md#writing-stores lists all options",
        ),
        ({"path": "out", "queues": "0"}, "option queues: '0' is invalid"),
        ({"path": "out", "queueSelector": "random"}, "expected one of column, hash, roundRobin"),
        ({"path": "out", "forVersion": "old"}, "option forVersion: expected a RocketMQ release"),
        (
            {"path": "out", "maxHashSlotNum": "2000000000"},
            "option maxHashSlotNum, option maxIndexNum: a file of",
        ),
        ({}, "path is missing"),
    ],
)
def test_options_that_are_wrong(options: dict[str, str], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        SinkOptions.parse(options)


def test_defaults_are_those_of_the_table() -> None:
    parsed = SinkOptions.parse({"path": "out", "checkpointLocation": "somewhere"})
    for option in SINK_OPTIONS:
        if option.name != "path":
            default = parse_value(option, option.default) if option.default else None
            assert getattr(parsed, option.field) == default
    config = rmqcore.MessageStoreConfig()
    assert parsed.config() == config


def test_rows_of_a_stream_before_arrow_writers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PySpark 4.0 gives a stream's writer rows, whose times are those of the worker's zone."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    born = datetime.fromtimestamp(1_700_000_000.5)  # noqa: DTZ006 - as Spark makes it
    count = BATCH_ROWS + 5
    rows = (("Orders", str(n), {"n": str(n)}, born, date(2026, 1, 1)) for n in range(count))
    schema = StructType()
    for name, kind in (
        ("topic", StringType()),
        ("body", StringType()),
        ("properties", MapType(StringType(), StringType())),
        ("born_timestamp", TimestampType()),
        ("day", DateType()),
    ):
        schema.add(name, kind)
    source = RmqStoreDataSource({"path": str(tmp_path / "out")})
    writer = source.streamWriter(schema, overwrite=False)
    write = pickle.loads(writer.sent)
    staged = write.write_rows(rows, schema)
    write.folder.commit([staged], overwrite=False)
    monkeypatch.undo()
    time.tzset()
    assert bodies(tmp_path / "out") == numbers(count)
    last = messages(tmp_path / "out")[-1]
    assert last.properties == {"n": str(count - 1)}
    assert last.born_timestamp_ms == 1_700_000_000_500
