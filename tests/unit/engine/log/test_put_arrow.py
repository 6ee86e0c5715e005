"""put_arrow: what comes in, which schemas are refused, how nulls and dictionaries are taken, and what a full disk leaves."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.oracle import records as oracle
from support.stores.append_log import NOW_MS, AppendLog, append_log

import rmqcore
from rmqcore import Message
from rmqcore._native.put.arrow_rows import COLUMNS
from rmqcore.codec import scan
from rmqcore.errors import PutFailedError, StoreClosedError, StoreFailedError

SMALL: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 20,
    "max_hash_slot_num": 100,
    "max_index_num": 1000,
}


@pytest.fixture
def log() -> Iterator[AppendLog]:
    with append_log() as opened:
        yield opened


def records(log: AppendLog) -> list[oracle.Record]:
    return oracle.scan(log.data, 0, check_crc=True).records


def test_a_row_becomes_the_record_that_the_oracle_writes(log: AppendLog) -> None:
    pairs = [("UNIQ_KEY", "AB"), ("", "empty name"), ("no value", "")]
    table = pa.table(
        {
            "topic": ["Orders"],
            "body": [b"paid"],
            "queue_id": [7],
            "tags": ["A"],
            "keys": [["one", "two"]],
            "properties": pa.array([pairs], pa.map_(pa.string(), pa.string())),
            "flag": [-1],
            "sys_flag": [0x301],
            "born_timestamp_ms": [-5],
            "born_host": ["1.2.3.4:5"],
            "store_host": ["[::1]:10911"],
            "reconsume_times": [3],
            "prepared_transaction_offset": [2**63 - 1],
        }
    )
    assert log.put_arrow(table).statuses == ["PUT_OK"]
    assert log.data == oracle.encode_record(
        oracle.Record(
            topic=b"Orders",
            body=b"paid",
            properties=oracle.encode_properties({"TAGS": "A", "KEYS": "one two", **dict(pairs)}),
            queue_id=7,
            flag=-1,
            queue_offset=0,
            phy_offset=0,
            sys_flag=0x301,
            born_timestamp_ms=-5,
            born_host=oracle.Host(bytes([1, 2, 3, 4]), 5),
            store_timestamp_ms=NOW_MS,
            store_host=oracle.Host(bytes(15) + b"\1", 10911),
            reconsume_times=3,
            prepared_transaction_offset=2**63 - 1,
        )
    )


def test_topic_and_body_are_enough(log: AppendLog) -> None:
    log.put_arrow(pa.table({"body": [b"", b"x"], "topic": ["t", "t"]}))
    with append_log() as other:
        other.put_many([Message("t", b""), Message("t", b"x")])
        assert log.data == other.data


def test_many_rows_over_many_files_and_chunks() -> None:
    """More rows than a chunk has, more properties than its arena holds, and more bytes than a file."""
    count = 5000
    keys = [[f"key-{i}", "k" * (i * 7 % 2000)] if i % 3 else [] for i in range(count)]
    keys = [[word for word in words if word] for words in keys]
    table = pa.table(
        {
            "topic": [f"topic-{i % 17}" for i in range(count)],
            "body": [b"x" * (i % 50) for i in range(count)],
            "keys": keys,
        }
    )
    messages = [Message(row["topic"], row["body"], keys=row["keys"]) for row in table.to_pylist()]
    with append_log(1 << 20) as expected_log, append_log(1 << 20) as other:
        expected = expected_log.put_many(messages)
        assert other.put_arrow(pa.table(table).to_reader(700)) == expected
        assert other.data == expected_log.data
        assert len(other.log.file_starts()) > 3


# ---- what comes in ----------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [None, [Message("t", b"")], {"topic": ["t"]}, b"topic"])
def test_what_is_no_arrow_data_is_a_type_error(log: AppendLog, data: object) -> None:
    with pytest.raises(TypeError, match="has neither __arrow_c_stream__ nor __arrow_c_array__"):
        log.put_arrow(data)


def test_a_column_alone_is_a_type_error(log: AppendLog) -> None:
    told = "got one column of type string, expected a table"
    if not hasattr(pa.ChunkedArray, "__arrow_c_stream__"):  # pyarrow 15
        told += "|ChunkedArray has neither __arrow_c_stream__"
    for column in (pa.array(["t"]), pa.chunked_array([["t"]])):
        with pytest.raises(TypeError, match=told):
            log.put_arrow(column)


def test_nothing_is_nothing(log: AppendLog) -> None:
    empty = pa.table({"topic": pa.array([], pa.string()), "body": pa.array([], pa.binary())})
    assert log.put_arrow(empty).statuses == []
    assert log.put_arrow(empty.to_reader()).statuses == []
    assert log.put_arrow(pa.RecordBatch.from_pydict(empty.to_pydict(), empty.schema)).statuses == []
    assert log.data == b""


def test_a_reader_that_was_used_has_no_rows(log: AppendLog) -> None:
    reader = pa.table({"topic": ["t"], "body": [b""]}).to_reader()
    assert log.put_arrow(reader).statuses == ["PUT_OK"]
    assert log.put_arrow(reader).statuses == []


def test_a_capsule_is_taken_once(log: AppendLog) -> None:
    class Again:
        def __init__(self, table: pa.Table) -> None:
            self.capsule = table.__arrow_c_stream__()

        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return self.capsule

    again = Again(pa.table({"topic": ["t"], "body": [b""]}))
    log.put_arrow(again)
    with pytest.raises(ValueError, match="the stream was used before"):
        log.put_arrow(again)


def test_a_stream_that_fails_says_why_and_what_came_before_is_stored(log: AppendLog) -> None:
    batch = pa.RecordBatch.from_pydict({"topic": ["t"], "body": [b""]})

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch
        raise ValueError("the tape ended")

    with pytest.raises(OSError, match=r"the stream failed: .*the tape ended") as caught:
        log.put_arrow(pa.RecordBatchReader.from_batches(batch.schema, batches()))
    assert caught.value.errno is not None
    assert len(records(log)) == 1


def test_a_stream_may_put_into_the_same_log(log: AppendLog) -> None:
    """The producer runs between the batches, with nothing locked."""
    batch = pa.RecordBatch.from_pydict({"topic": ["t"], "body": [b"outer"]})

    def batches() -> Iterator[pa.RecordBatch]:
        for _ in range(3):
            log.put_many([Message("t", b"inner")])
            yield batch

    answer = log.put_arrow(pa.RecordBatchReader.from_batches(batch.schema, batches()))
    assert answer.queue_offsets == [1, 3, 5]
    assert [record.body for record in records(log)] == [b"inner", b"outer"] * 3


def test_duckdb(log: AppendLog) -> None:
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.sql(
        "select 'topic' || i % 3 as topic, encode('body' || i) as body, (i % 4)::utinyint as queue_id,"
        " ['key' || i, 'x'] as keys, map {'p': 'v' || i} as properties from range(3000) as r(i)"
    )
    answer = log.put_arrow(
        relation if hasattr(relation, "__arrow_c_stream__") else relation.arrow()
    )
    assert set(answer.statuses) == {"PUT_OK"} and len(answer.statuses) == 3000
    found = records(log)
    assert found[2999].body == b"body2999"
    assert found[2999].property_map == {"KEYS": "key2999 x", "p": "v2999"}


def test_what_was_scanned_can_be_put_again(log: AppendLog) -> None:
    """A batch of this package's own goes in as it is, but for the columns that only a stored message has."""
    messages = [Message(f"t{i}", b"b" * i, i, f"tag{i}", [f"k{i}"], {"p": "v"}) for i in range(20)]
    log.put_many(messages)
    names = [name for name in COLUMNS if name not in ("tags", "keys")]
    with append_log() as other:
        other.put_arrow(scan(log.data, columns=names))
        assert other.data == log.data


def test_from_several_threads(log: AppendLog) -> None:
    table = pa.table({"topic": ["t"] * 400, "body": [b"x"] * 400})
    threads = [threading.Thread(target=log.put_arrow, args=(table,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(record.queue_offset for record in records(log)) == list(range(3200))


# ---- schemas ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "error", "match"),
    [
        ({"body": [b""]}, ValueError, "no column 'topic'"),
        ({"topic": ["t"]}, ValueError, "no column 'body'"),
        ({}, ValueError, "no column 'topic'"),
        (
            {"topic": ["t"], "body": [b""], "phy_offset": [1], "Tags": ["a"]},
            ValueError,
            r"unknown columns 'phy_offset', 'Tags' \(did you mean 'tags'\?\); a message has topic, body, queue_id, tags",
        ),
        ({"topic": [b"t"], "body": [b""]}, TypeError, "'topic' is binary, expected string"),
        ({"topic": ["t"], "body": ["b"]}, TypeError, "'body' is string, expected binary"),
        ({"topic": [1], "body": [b""]}, TypeError, "'topic' is int64, expected string"),
        (
            {"topic": ["t"], "body": [b""], "keys": ["k"]},
            TypeError,
            "'keys' is string, expected list<string>",
        ),
        (
            {"topic": ["t"], "body": [b""], "keys": [[1]]},
            TypeError,
            "'keys' is list<int64>, expected list<string>",
        ),
        (
            {"topic": ["t"], "body": [b""], "properties": [{"a": "b"}]},
            TypeError,
            "'properties' is struct<string>, expected map<string, string>",
        ),
        (
            {"topic": ["t"], "body": [b""], "queue_id": [1.0]},
            TypeError,
            "'queue_id' is float64, expected integer",
        ),
        (
            {"topic": ["t"], "body": [b""], "queue_id": ["1"]},
            TypeError,
            "'queue_id' is string, expected integer",
        ),
        (
            {"topic": ["t"], "body": [b""], "born_timestamp_ms": [date(2026, 1, 1)]},
            TypeError,
            "'born_timestamp_ms' is date32, expected integer or timestamp",
        ),
        (
            {"topic": ["t"], "body": [b""], "flag": pa.array([1]).dictionary_encode()},
            TypeError,
            "'flag' is dictionary<int64>, expected integer",
        ),
        (
            {"topic": pa.array([1]).dictionary_encode(), "body": [b""]},
            TypeError,
            "'topic' is dictionary<int64>, expected string",
        ),
    ],
)
def test_a_schema_that_does_not_fit_names_the_column(
    log: AppendLog, columns: dict[str, object], error: type[Exception], match: str
) -> None:
    for data in (pa.table(columns), *pa.table(columns).to_batches()):
        with pytest.raises(error, match=match):
            log.put_arrow(data)
    assert log.data == b""


def test_map_values_of_another_type(log: AppendLog) -> None:
    kind = pa.map_(pa.string(), pa.int32())
    table = pa.table({"topic": ["t"], "body": [b""], "properties": pa.array([[("a", 1)]], kind)})
    with pytest.raises(
        TypeError, match="is map<struct<string, int32>>, expected map<string, string>"
    ):
        log.put_arrow(table)


def test_a_column_twice(log: AppendLog) -> None:
    topic, body = pa.array(["t"]), pa.array([b""])
    table = pa.Table.from_arrays([topic, body, topic], ["topic", "body", "topic"])
    with pytest.raises(ValueError, match="column 'topic' is there twice"):
        log.put_arrow(table)


# ---- values -----------------------------------------------------------------------------------------


def test_nulls_are_what_is_left_out(log: AppendLog) -> None:
    kinds = {
        "queue_id": pa.int32(),
        "tags": pa.string(),
        "keys": pa.list_(pa.string()),
        "properties": pa.map_(pa.string(), pa.string()),
        "flag": pa.int8(),
        "born_timestamp_ms": pa.timestamp("us"),
        "born_host": pa.string(),
        "store_host": pa.string(),
        "prepared_transaction_offset": pa.int64(),
    }
    table = pa.table(
        {"topic": ["t"], "body": [b""], **{name: pa.nulls(1, kind) for name, kind in kinds.items()}}
    )
    plain = pa.table({"topic": ["t"], "body": [b""], **{name: pa.nulls(1) for name in kinds}})
    with append_log() as other:
        other.put_many([Message("t", b""), Message("t", b"")])
        log.put_arrow(table)
        log.put_arrow(plain)
        assert log.data == other.data


@pytest.mark.parametrize("column", ["topic", "body"])
def test_a_row_without_topic_or_body_is_refused_and_the_others_go_on(
    log: AppendLog, column: str
) -> None:
    columns = {"topic": ["a", "b", "c"], "body": [b"a", b"b", b"c"]}
    columns[column][1] = None  # type: ignore[index]
    answer = log.put_arrow(pa.table(columns))
    assert answer.statuses == ["PUT_OK", "MESSAGE_ILLEGAL", "PUT_OK"]
    assert answer.phy_offsets[1] == answer.queue_offsets[1] == -1
    assert (log.refused_at, log.refusal) == (1, f"row 1, column '{column}': null")
    assert [record.topic for record in records(log)] == [b"a", b"c"]


def test_a_column_of_nulls_for_the_topic(log: AppendLog) -> None:
    answer = log.put_arrow(pa.table({"topic": pa.nulls(2), "body": [b"a", b"b"]}))
    assert answer.statuses == ["MESSAGE_ILLEGAL"] * 2


def test_rows_that_are_null_themselves(log: AppendLog) -> None:
    struct = pa.StructArray.from_arrays(
        [pa.array(["a", "b", "c", "d"]), pa.array([b"a", b"b", b"c", b"d"])],
        ["topic", "body"],
        mask=pa.array([False, True, False, True]),
    )
    assert log.put_arrow(struct.slice(1)).statuses == [
        "MESSAGE_ILLEGAL",
        "PUT_OK",
        "MESSAGE_ILLEGAL",
    ]
    assert [record.body for record in records(log)] == [b"c"]


def test_a_null_in_the_dictionary(log: AppendLog) -> None:
    dictionary = pa.array(["one", None])
    topic = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0], pa.int8()), dictionary)
    answer = log.put_arrow(pa.table({"topic": topic, "body": [b""] * 4}))
    assert answer.statuses == ["PUT_OK", "MESSAGE_ILLEGAL", "MESSAGE_ILLEGAL", "PUT_OK"]


QUEUE_ID = "queue_id is -1, expected 0 to 2147483647"


@pytest.mark.parametrize(
    ("column", "values", "refusal"),
    [
        ("keys", [[None]], "row 0, column 'keys': null"),
        ("keys", [["a", ""]], "row 0, column 'keys': key '': a key is a word without spaces"),
        ("keys", [["a b"]], "row 0, column 'keys': key 'a b': a key is a word without spaces"),
        ("tags", ["a\x02"], "row 0, column 'tags': 'a\\x02' holds a separator (0x01 or 0x02)"),
        ("born_host", ["here"], "row 0, column 'born_host': host 'here': expected 'ip:port' or '[v6]:port'"),
        ("flag", [2**31], "row 0, column 'flag': 2147483648 has no room in its field"),
        ("sys_flag", [-(2**31) - 1], "row 0, column 'sys_flag': -2147483649 has no room in its field"),
        ("queue_id", [-1], f"row 0: a message of topic 't' that the store does not take: {QUEUE_ID}"),
    ],
)  # fmt: skip
def test_what_makes_no_message_is_told(
    log: AppendLog, column: str, values: list[object], refusal: str
) -> None:
    answer = log.put_arrow(pa.table({"topic": ["t"], "body": [b""], column: values}))
    assert answer.statuses == ["MESSAGE_ILLEGAL"]
    assert log.refusal == refusal
    assert log.refused_column == (None if column == "queue_id" else column)
    assert log.data == b""


def test_a_uint64_above_int64(log: AppendLog) -> None:
    offset = pa.array([2**63], pa.uint64())
    for column in ("prepared_transaction_offset", "born_timestamp_ms", "queue_id"):
        answer = log.put_arrow(pa.table({"topic": ["t"], "body": [b""], column: offset}))
        assert answer.statuses == ["MESSAGE_ILLEGAL"]


def test_only_the_first_refusal_is_told_with_its_row_in_the_stream(log: AppendLog) -> None:
    table = pa.table({"topic": [*"abcd"], "body": [b""] * 4, "tags": ["1", "2", "\x02", "\x02"]})
    log.put_arrow(table.to_reader(1))
    assert log.refusal == "row 2, column 'tags': '\\x02' holds a separator (0x01 or 0x02)"


def test_strings_that_are_no_utf8(log: AppendLog) -> None:
    """Arrow's strings are UTF-8 by promise only. The neighbours of a row in the data do not make it valid."""
    data = b"ok" + b"\xed\xa0\x80" + b"\xc3" + b"\xa9" + "é".encode() + b"\xff" * 9
    offsets = pa.py_buffer(pa.array([0, 2, 5, 6, 7, 9, 18], pa.int32()).buffers()[1])
    strings = pa.Array.from_buffers(pa.string(), 6, [None, offsets, pa.py_buffer(data)])
    refused = ["PUT_OK", *["MESSAGE_ILLEGAL"] * 3, "PUT_OK", "MESSAGE_ILLEGAL"]
    body = pa.array([b""] * 6)
    for columns in (
        {"topic": strings, "body": body},
        {"topic": ["t"] * 6, "body": body, "tags": strings},
        {
            "topic": ["t"] * 6,
            "body": body,
            "keys": pa.ListArray.from_arrays(list(range(7)), strings),
        },
    ):
        assert log.put_arrow(pa.table(columns)).statuses == refused


def test_property_names_twice(log: AppendLog) -> None:
    def statuses(pairs: list[tuple[str, str]], **columns: object) -> list[str]:
        properties = pa.array([pairs], pa.map_(pa.string(), pa.string()))
        table = pa.table({"topic": ["t"], "body": [b""], "properties": properties, **columns})
        return log.put_arrow(table).statuses

    many = [(f"name{i}", "v") for i in range(3000)]
    assert statuses([("a", "1"), ("b", "2"), ("a", "1")]) == ["MESSAGE_ILLEGAL"]
    assert log.refusal == "row 0, column 'properties': property 'a' is given twice"
    assert statuses(many) == ["PUT_OK"]
    for place in (1, 8, 9, 2999):
        assert statuses([*many[:place], many[place // 2], *many[place:]]) == ["MESSAGE_ILLEGAL"]
    assert statuses([("TAGS", "x")], tags=["x"]) == ["PUT_OK"]
    assert statuses([("TAGS", "y")], tags=["x"]) == ["MESSAGE_ILLEGAL"]
    assert statuses([("KEYS", "a b")], keys=[["a", "b"]]) == ["PUT_OK"]
    assert statuses([("KEYS", "a")], keys=[["a", "b"]]) == ["MESSAGE_ILLEGAL"]


def test_a_map_with_more_names_than_the_table_of_names(log: AppendLog) -> None:
    """Pairs without a value take no room in the record, so nothing else ends the row."""
    names = [f"{i}" for i in range(40_000)]
    properties = pa.array([[(name, None) for name in names]], pa.map_(pa.string(), pa.string()))
    answer = log.put_arrow(pa.table({"topic": ["t"], "body": [b""], "properties": properties}))
    assert answer.statuses == ["PUT_OK"]
    assert records(log)[0].properties == b""


def test_properties_over_the_limit(log: AppendLog) -> None:
    """TAGS and its two separators are 6 bytes: 32,761 fill the field to its last byte."""
    table = pa.table(
        {"topic": ["t"] * 3, "body": [b""] * 3, "tags": ["x" * n for n in (32761, 32762, 10**6)]}
    )
    exceeded = ["PROPERTIES_SIZE_EXCEEDED"] * 2
    assert log.put_arrow(table).statuses == ["PUT_OK", *exceeded]
    assert log.refusal == (
        "row 1: a message of topic 't' that the store does not take: properties of 32,768 bytes, a record has room for 32,767"
    )


def test_a_property_crc_of_the_caller_is_left_out_when_the_store_writes_its_own() -> None:
    properties = {"__CRC32#": "1", "a": "b"}
    table = pa.table(
        {
            "topic": ["t"],
            "body": [b""],
            "properties": pa.array([list(properties.items())], pa.map_(pa.string(), pa.string())),
        }
    )
    for crc in (False, True):
        with append_log(append_prop_crc=crc) as log, append_log(append_prop_crc=crc) as other:
            log.put_arrow(table)
            other.put_many([Message("t", b"", properties=properties)])
            assert log.data == other.data


# ---- no room ----------------------------------------------------------------------------------------


def test_a_full_disk_ends_the_call_and_the_stream(
    log: AppendLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = pa.RecordBatch.from_pydict({"topic": ["t"] * 200, "body": [b"x" * 500] * 200})
    asked = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal asked
        while True:
            asked += 1
            yield batch

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "no space")

    log.put_many([Message("t", b"")])
    monkeypatch.setattr(log.log, "_on_failure", lambda error: None)
    monkeypatch.setattr(log.log._space, "make_room", full)
    answer = log.put_arrow(pa.RecordBatchReader.from_batches(batch.schema, batches()))
    stored = answer.statuses.count("PUT_OK")
    assert stored == len(records(log)) - 1 > 200
    assert answer.statuses[:stored] == ["PUT_OK"] * stored
    assert set(answer.statuses[stored:]) == {"CREATE_MAPPED_FILE_FAILED"}
    assert set(answer.phy_offsets[stored:]) == {-1}
    assert len(answer.statuses) == 200 * asked  # nothing was read in vain


# ---- a whole store ----------------------------------------------------------------------------------


def test_a_store_answers_what_its_rows_became(tmp_path: Path) -> None:
    table = pa.table(
        {"topic": ["t", "t", "t"], "body": [b"a", None, b"c"], "keys": [["k"], [], ["k"]]}
    )
    with rmqcore.open(tmp_path / "store", services=False, **SMALL) as store:
        result = store.put_arrow(table)
        assert [status.name for status in result.statuses] == [
            "PUT_OK",
            "MESSAGE_ILLEGAL",
            "PUT_OK",
        ]
        assert (result.count, len(result)) == (2, 3)
        assert (result.refused_at, result.refusal) == (1, "row 1, column 'body': null")
        assert (result.refused_column, result.column_reason) == ("body", "null")
        with pytest.raises(PutFailedError, match="MESSAGE_ILLEGAL") as caught:
            result.raise_for_status()
        assert caught.value.reason == "row 1, column 'body': null"
        store.wait_dispatched()
        assert [view.body for view in store.get("t", 0, 0).messages] == [b"a", b"c"]
        assert [view.body for view in store.query("t", "k").messages] == [b"a", b"c"]
        store.put_arrow(table.slice(0, 1)).raise_for_status()


def test_with_sync_flush_the_rows_are_on_disk(tmp_path: Path) -> None:
    table = pa.table({"topic": ["t"] * 1000, "body": [b"x"] * 1000})
    for services in (False, True):
        with rmqcore.open(
            tmp_path / f"store-{services}", services=services, flush_disk_type="SYNC_FLUSH", **SMALL
        ) as store:
            store.put_arrow(table).raise_for_status()
            assert store.flushed_phy_offset == store.max_phy_offset


def test_a_closed_store_and_a_failed_one(tmp_path: Path) -> None:
    table = pa.table({"topic": ["t"], "body": [b""]})
    store = rmqcore.open(tmp_path / "store", services=False, **SMALL)
    store.fail(OSError(errno.EIO, "gone"))
    with pytest.raises(StoreFailedError, match="gone"):
        store.put_arrow(table)
    store.close()
    with pytest.raises(StoreClosedError):
        store.put_arrow(table)
