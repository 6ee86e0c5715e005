"""Splits read as Arrow batches: exactly the rows of `rmqcore.read`, in exactly the types that Spark takes."""

from __future__ import annotations

import os
import random
import re
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pytest
from support.oracle.log import is_queued
from support.spark.spark_rows import (
    Row,
    damage_of,
    golden_rows,
    message_rows,
    only,
    store_of,
    time_of,
)
from support.stores.built_store import BuiltStore
from support.stores.golden_stores import CLEAN

import rmqcore
from rmqcore import Message, codec
from rmqcore.errors import (
    CompressionError,
    CompressionLibraryError,
    CorruptMessageError,
    DataLossError,
)
from rmqcore.offline.log.conditions import Conditions
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.reading.read_split import read_split
from rmqcore.spark.rows.schema import arrow_schema, columns_of
from rmqcore.spark.splits.planning import plan_store
from rmqcore.spark.storage.locations import find_stores


class StoreCopy(Protocol):
    def __call__(self, case: str, part: str = "store") -> Path: ...


EVERY = (
    "topic,queue_id,queue_offset,phy_offset,msg_size,store_timestamp,born_timestamp,tags,keys,uniq_key,body,properties,"
    "sys_flag,flag,body_crc,reconsume_times,prepared_transaction_offset,store_host,born_host,broker,msg_id,tags_code,magic,raw,"
    "crc_ok,resynced,corrupt_reason,_file"
)


def read(root: Path, conditions: Conditions | None = None, **options: str) -> list[Row]:
    return read_options(root, options, conditions)


def read_options(
    root: Path, options: dict[str, str], conditions: Conditions | None = None
) -> list[Row]:
    """All splits one after the other."""
    parsed = SourceOptions.parse(options)
    columns = columns_of(parsed)
    (location,) = find_stores(str(root))
    rows: list[Row] = []
    for split in plan_store(location, parsed.sizing(), parsed.span(location.broker)).splits:
        for batch in read_split(split, columns, parsed, conditions):
            assert batch.schema.equals(arrow_schema(columns))
            assert 0 < batch.num_rows <= parsed.batch_rows
            batch.validate(full=True)
            rows += batch.to_pylist()
    return [
        {**row, "properties": dict(row["properties"])}
        if isinstance(row.get("properties"), list)
        else row
        for row in rows
    ]


@pytest.mark.parametrize("case", CLEAN)
def test_every_column_of_every_message(golden: Path, case: str) -> None:
    root = store_of(golden, case)
    assert read(root, columns=EVERY) == golden_rows(golden, case)


@pytest.mark.parametrize("part_bytes", ["1m", "64k", "16k", "3000"])
def test_any_number_of_splits_gives_the_same_rows(golden: Path, part_bytes: str) -> None:
    root = store_of(golden, "basic")
    rows = read(root, columns=EVERY, splitMode="walk", maxPartitionBytes=part_bytes, batchRows="7")
    assert rows == golden_rows(golden, "basic")


@pytest.mark.parametrize("name", EVERY.split(","))
def test_each_column_alone(golden: Path, name: str) -> None:
    root = store_of(golden, "transaction")
    assert read(root, columns=name) == only(golden_rows(golden, "transaction"), name)


def test_columns_come_in_the_order_asked_for(golden: Path) -> None:
    names = EVERY.split(",")
    random.Random(7).shuffle(names)
    rows = read(store_of(golden, "delay"), columns=",".join(names))
    assert list(rows[0]) == names


def test_default_columns(golden: Path) -> None:
    rows = read(store_of(golden, "basic"))
    assert list(rows[0]) == EVERY.split(",")[:20]
    assert list(read(store_of(golden, "basic"), verifyCrc="column")[0])[-1] == "crc_ok"
    assert "properties" not in read(store_of(golden, "basic"), properties="none")[0]


def test_properties_as_stored(golden: Path) -> None:
    root = store_of(golden, "basic")
    texts = [row["properties"] for row in read(root, columns="properties", properties="string")]
    assert texts == [
        "\x02".join(f"{name}\x01{value}" for name, value in row["properties"].items())
        for row in golden_rows(golden, "basic")
    ]


HALF = ("RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC")

CONDITIONS: list[tuple[str, dict[str, str], Callable[[Row], bool]]] = [
    ("basic", {"topics": "TopicBasicA,Other"}, lambda row: row["topic"] == "TopicBasicA"),
    ("basic", {"topicsPattern": ".*[AB]"}, lambda row: row["topic"][-1] in "AB"),
    ("basic", {"topicsPattern": "Basic"}, lambda row: False),
    ("basic", {"queueIds": "1,3"}, lambda row: row["queue_id"] in (1, 3)),
    ("basic", {"tags": "TagA,TagE"}, lambda row: row["tags"] in ("TagA", "TagE")),
    ("basic", {"keys": "hot9"}, lambda row: "hot9" in (row["keys"] or "").split()),
    (
        "basic",
        {"startingTimestamp": "1700086400500"},
        lambda row: row["store_timestamp"] >= time_of(1700086400500),
    ),
    (
        "basic",
        {"endingTimestamp": "1700086400500"},
        lambda row: row["store_timestamp"] < time_of(1700086400500),
    ),
    ("basic", {"startingPhyOffset": "200001"}, lambda row: row["phy_offset"] >= 200001),
    ("basic", {"endingPhyOffset": '{"basic": 200001}'}, lambda row: row["phy_offset"] < 200001),
    (
        "basic",
        {
            "startingOffsets": '{"TopicBasicA": {"basic": {"0": 7, "1": -1}, "x": {"2": 9}}, "TopicBasicB": {"basic": {"1": -2}}}'
        },
        lambda row: (
            row["topic"] != "TopicBasicA"
            or row["queue_id"] > 1
            or (row["queue_id"] == 0 and row["queue_offset"] >= 7)
        ),
    ),
    (
        "basic",
        {"endingOffsets": '{"TopicBasicA": {"basic": {"0": 7, "1": -1}}}'},
        lambda row: (
            row["topic"] != "TopicBasicA" or row["queue_id"] != 0 or row["queue_offset"] < 7
        ),
    ),
    (  # a time beats offsets
        "basic",
        {"startingOffsets": '{"TopicBasicA": {"basic": {"0": 7}}}', "startingTimestamp": "0"},
        lambda row: True,
    ),
    (
        "transaction",
        {"includeTransactionHalf": "false"},
        lambda row: row["topic"] not in HALF and row["sys_flag"] & 12 not in (4, 12),
    ),
]


@pytest.mark.parametrize(
    ("case", "options", "holds"),
    CONDITIONS,
    # Not the text of `holds`: its address differs in each of the processes that share the tests.
    ids=[f"{case}-{options}" for case, options, _ in CONDITIONS],
)
@pytest.mark.parametrize("names", [EVERY, "phy_offset", "broker"], ids=["every", "one", "constant"])
def test_conditions(
    golden: Path, case: str, options: dict[str, str], holds: Callable[[Row], bool], names: str
) -> None:
    root = store_of(golden, case)
    expected = [row for row in golden_rows(golden, case) if holds(row)]
    assert read_options(root, {"columns": names, "batchRows": "37", **options}) == only(
        expected, *names.split(",")
    )


def test_a_half_message_is_what_has_no_queue_entry(tmp_path: Path) -> None:
    store = BuiltStore(tmp_path, log_file_size=1 << 16).fill_with_sys_flags()
    rows = read_options(store.write(), {"columns": "sys_flag", "includeTransactionHalf": "false"})
    expected = [record.sys_flag for record in store.records if is_queued(record)]
    assert [row["sys_flag"] for row in rows] == expected


def test_conditions_of_a_filter_hold_beside_those_of_the_options(golden: Path) -> None:
    root = store_of(golden, "basic")
    pushed = Conditions(topics=frozenset({"TopicBasicA", "TopicBasicC"}), start_phy_offset=100_000)
    rows = read(root, pushed, topics="TopicBasicA,TopicBasicB", startingPhyOffset="50000")
    expected = message_rows(root, topics=["TopicBasicA"], start_phy_offset=100_000)
    assert [row["phy_offset"] for row in rows] == [row["phy_offset"] for row in expected]


# ---- damage -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "case", ["crash_flipped", "crash_torn", "crash_garbage_tail", "crash_stale_tail"]
)
@pytest.mark.parametrize("part_bytes", ["1m", "10000"])
def test_a_damaged_store_gives_the_rows_that_a_reader_gives(
    golden: Path, case: str, part_bytes: str
) -> None:
    root = golden / case / "input"
    rows = read(
        root, columns="phy_offset,body,crc_ok", splitMode="walk", maxPartitionBytes=part_bytes
    )
    assert rows == only(golden_rows(golden, case, "input"), "phy_offset", "body", "crc_ok")


def damaged_body(store_copy: StoreCopy) -> tuple[Path, int]:
    """A store with one byte of a body changed, and where that message begins."""
    root = store_copy("basic")
    row = message_rows(root)[100]
    damage_at(root, row["phy_offset"] + 91)
    return root, row["phy_offset"]


def damage_at(root: Path, phy_offset: int) -> None:
    with rmqcore.read(root) as reader:
        file = next(
            f for f in reader.log_files() if f.file_from_offset <= phy_offset < f.end_offset
        )
    with open(file.path, "r+b") as log:
        log.seek(phy_offset - file.file_from_offset)
        byte = log.read(1)[0]
        log.seek(-1, os.SEEK_CUR)
        log.write(bytes([byte ^ 0xFF]))


def test_a_wrong_crc_is_a_row_that_says_so(store_copy: StoreCopy) -> None:
    root, at = damaged_body(store_copy)
    rows = read(root, columns="phy_offset,crc_ok,corrupt_reason")
    assert [row["phy_offset"] for row in rows if not row["crc_ok"]] == [at]
    (reason,) = [row["corrupt_reason"] for row in rows if row["corrupt_reason"]]
    assert re.fullmatch(r"BODYCRC is -?\d+, expected -?\d+", reason)
    assert len(rows) == 2000


def test_modes_and_verify_crc(store_copy: StoreCopy) -> None:
    root, at = damaged_body(store_copy)
    dropped = read(root, columns="phy_offset", mode="DROPMALFORMED")
    assert len(dropped) == 1999
    assert {"phy_offset": at} not in dropped
    for options in ({"mode": "FAILFAST"}, {"verifyCrc": "fail"}):
        with pytest.raises(CorruptMessageError, match=rf"store: commitlog/0{{20}}@{at}: BODYCRC"):
            read_options(root, {"columns": "broker", **options})


def test_a_damaged_header_fails_only_failfast(store_copy: StoreCopy) -> None:
    root = store_copy("basic")
    first, second = message_rows(root)[100:102]
    damage_at(root, first["phy_offset"] + 4)
    rows = read(root, columns="phy_offset,resynced", verifyCrc="fail")
    assert [row["phy_offset"] for row in rows if row["resynced"]] == [second["phy_offset"]]
    assert len(rows) == 1999
    with pytest.raises(CorruptMessageError, match=rf"@{first['phy_offset']}: MAGIC is"):
        read(root, mode="FAILFAST")


def test_a_torn_tail_fails_no_mode(golden: Path) -> None:
    root = golden / "crash_torn" / "input"
    assert [found.kind for found in damage_of(root)] == ["torn_tail"]
    assert len(read(root, mode="FAILFAST")) == len(message_rows(root))


def test_a_file_deleted_since_the_plan(store_copy: StoreCopy) -> None:
    root = store_copy("basic")
    options = SourceOptions.parse({"columns": "phy_offset"})
    columns = columns_of(options)
    (location,) = find_stores(str(root))
    first = plan_store(location).splits[0]
    os.unlink(first.file.path)
    with pytest.raises(DataLossError, match=r"commitlog/0{20} was deleted"):
        list(read_split(first, columns, options))
    tolerant = SourceOptions.parse({"columns": "phy_offset", "failOnDataLoss": "false"})
    assert list(read_split(first, columns, tolerant)) == []


# ---- bodies -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_bytes", ["8m", "2000"])
def test_decompressed_bodies(golden: Path, batch_bytes: str) -> None:
    root = store_of(golden, "compressed")
    with rmqcore.read(root) as reader:
        plain = [message.decompress() for message in reader.messages()]
        stored = [message.body for message in reader.messages()]
    assert plain != stored
    rows = read(root, columns="body", decompressBody="true", batchBytes=batch_bytes)
    assert [row["body"] for row in rows] == plain
    assert [row["body"] for row in read(root, columns="body")] == stored


def broken_compression(tmp_path: Path) -> Path:
    """A store whose second message says that its body is ZLIB, and it is not."""
    with rmqcore.open(tmp_path / "store", mapped_file_size_commit_log=65536) as store:
        store.put(Message("t", zlib.compress(b"good"), sys_flag=1))
        store.put(Message("t", b"not zlib", sys_flag=1))
        store.put(Message("t", b"plain"))
    return tmp_path / "store"


def test_a_body_that_cannot_be_decompressed(tmp_path: Path) -> None:
    root = broken_compression(tmp_path)
    rows = read(root, columns="body,corrupt_reason", decompressBody="true")
    assert [row["body"] for row in rows] == [b"good", None, b"plain"]
    assert [bool(row["corrupt_reason"]) for row in rows] == [False, True, False]
    dropped = read(root, columns="body", decompressBody="true", mode="DROPMALFORMED")
    assert [row["body"] for row in dropped] == [b"good", b"plain"]
    with pytest.raises(
        CompressionError, match=r"commitlog/0{20}@\d+: the body of 8 bytes is not ZLIB"
    ):
        read(root, columns="body", decompressBody="true", mode="FAILFAST")
    # What is not asked for is not decompressed.
    assert len(read(root, columns="topic", decompressBody="true", mode="FAILFAST")) == 3


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
def test_a_missing_library_fails_the_query(
    golden: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """On executors without rmqcore[compress] every LZ4 message had a null body, or was left out, in silence."""
    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    lacks = r"commitlog/.*@\d+: LZ4 bodies need an extra"
    with pytest.raises(CompressionLibraryError, match=lacks):
        read(store_of(golden, "compressed"), columns="body", decompressBody="true", mode=mode)


def test_most_rows_of_a_batch_cost_no_memory(golden: Path) -> None:
    """With batchRows=16777216 a column such as broker was filled for as many rows, 1.6 GB, to read 2,000."""
    options = SourceOptions.parse({"columns": "broker,_file,crc_ok", "batchRows": str(1 << 24)})
    (location,) = find_stores(str(store_of(golden, "basic")))
    for split in plan_store(location).splits:
        for batch in read_split(split, columns_of(options), options):
            assert batch.get_total_buffer_size() < 100 * batch.num_rows


def test_offsets_that_only_damage_makes(tmp_path: Path) -> None:
    """No CRC covers a queue offset. An offset below 0 was left out of a queue that was to be read from its beginning."""
    data = b""
    wanted = [-5, 0, 3, (1 << 63) - 1]
    for queue_offset in wanted:
        data += codec.encode(
            Message("t", b"x"),
            phy_offset=len(data),
            queue_offset=queue_offset,
            store_timestamp_ms=1,
        )
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    (tmp_path / "store" / "commitlog" / f"{0:020}").write_bytes(data + bytes(4096 - len(data)))
    for begin, end, expected in ((-2, -1, wanted), (-2, 3, wanted[:2]), (0, -1, wanted[1:])):
        rows = read(
            tmp_path / "store",
            columns="queue_offset",
            startingOffsets=f'{{"t": {{"{tmp_path.name}": {{"0": {begin}}}}}}}',
            endingOffsets=f'{{"t": {{"{tmp_path.name}": {{"0": {end}}}}}}}',
        )
        assert [row["queue_offset"] for row in rows] == expected


# ---- values at their edges ----------------------------------------------------------------------------


def test_times_that_microseconds_cannot_hold_are_null(tmp_path: Path) -> None:
    last = ((1 << 63) - 1) // 1000
    times = [0, -1, last, last + 1, (1 << 63) - 1, -last, -last - 1, 1_700_000_000_123]
    with rmqcore.open(tmp_path / "store", mapped_file_size_commit_log=65536) as store:
        for ms in times:
            store.put(Message("t", b"", born_timestamp_ms=ms))
    options = SourceOptions.parse({"columns": "born_timestamp"})
    (location,) = find_stores(str(tmp_path / "store"))
    (split,) = plan_store(location).splits
    (batch,) = read_split(split, columns_of(options), options)
    found = batch.column(0).view(pa.int64()).to_pylist()
    assert found == [None if abs(ms) > last else ms * 1000 for ms in times]


def test_messages_without_keys_tags_and_properties(tmp_path: Path) -> None:
    with rmqcore.open(tmp_path / "store", mapped_file_size_commit_log=65536) as store:
        store.put(Message("t", b""))
        store.put(Message("t", b"", keys=["k1", "k2"], tags="g"))
    first, second = read(tmp_path / "store", columns="keys,tags,body,uniq_key")
    assert first == {"keys": None, "tags": None, "body": b"", "uniq_key": None}
    assert second["keys"] == "k1 k2"
