"""The tables beside ``messages``, and what is planned for ``messages``: against what `rmqcore.read` says of the same store."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import fsspec
import numpy as np
import pytest
from support.spark.spark_rows import (
    Row,
    broker_of,
    damage_rows,
    golden_rows,
    only,
    store_of,
    time_of,
)
from support.spark.spark_tables import read_table, rows_of, table_of
from support.stores.golden_stores import CLEAN

import rmqcore
from rmqcore._native.format.layout import CQ_FILLER_SIZE
from rmqcore._native.index.index_reader import INDEX_ENTRY_DTYPE
from rmqcore.errors import (
    CorruptIndexError,
    CorruptMessageError,
    DataLossError,
    NotAStoreError,
)
from rmqcore.offline.index.index_files import find_index_files
from rmqcore.offline.info import log_end
from rmqcore.offline.queues.queues import find_queues, max_offset


class StoreCopy(Protocol):
    def __call__(self, case: str, part: str = "store") -> Path: ...


DAMAGED = [
    "crash_torn",
    "crash_flipped",
    "crash_garbage_tail",
    "crash_stale_tail",
    "crash_last_file_missing",
    "crash_expired",
]


def sorted_damage(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["start_phy_offset"], row["end_phy_offset"]))


# ---- corrupt ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", DAMAGED)
@pytest.mark.parametrize("part_bytes", ["128m", "30k"])
def test_corrupt_is_what_a_reader_calls_damage(golden: Path, case: str, part_bytes: str) -> None:
    root = golden / case / "input"
    rows = read_table(root, table="corrupt", splitMode="walk", maxPartitionBytes=part_bytes)
    assert sorted_damage(rows) == damage_rows(root, "input")


def test_files_that_lack_are_rows_of_corrupt(store_copy: StoreCopy) -> None:
    root = store_copy("basic")
    files = sorted((root / "commitlog").iterdir())
    files[2].unlink()
    os.truncate(files[4], 100_000)
    rows = sorted_damage(read_table(root, table="corrupt"))
    assert rows == damage_rows(root, root.name)
    assert {"missing_file", "short_file"} <= {row["kind"] for row in rows}
    # Only what overlaps the range that is asked for.
    behind = read_table(root, table="corrupt", startingPhyOffset=450_000, endingPhyOffset=640_000)
    read = damage_rows(root, root.name, start_phy_offset=450_000, end_phy_offset=640_000)
    assert behind == [row for row in read if row["end_phy_offset"] > 450_000]
    assert 0 < len(behind) < len(rows)


def test_missing_files_fail_failfast_before_a_task_starts(store_copy: StoreCopy) -> None:
    root = store_copy("basic")
    sorted((root / "commitlog").iterdir())[2].unlink()
    with pytest.raises(CorruptMessageError, match=r"file is missing, expected commitlog/0*262144"):
        table_of(root, mode="FAILFAST", failOnDataLoss=False).parts()
    assert table_of(root, mode="FAILFAST", endingPhyOffset=262_144).parts()


def test_a_file_that_is_missing_between_others_fails_a_query(
    golden: Path, store_copy: StoreCopy
) -> None:
    """A batch gave 77,397 of 96,684 rows and said nothing, where a stream raised DATA_LOSS."""
    root = store_copy("basic")
    sorted((root / "commitlog").iterdir())[2].unlink()
    lost = r"CommitLog offset 262144 cannot be read, the first one available is offset 393216 .*commitlog/0*262144 is missing"
    with pytest.raises(DataLossError, match=lost):
        table_of(root).parts()
    assert table_of(root, endingPhyOffset=262_144).parts(), "what is asked for is there"
    with pytest.warns(UserWarning, match=r"0*262144 is missing: no rows .* 262144 to 393216"):
        rows = read_table(root, failOnDataLoss=False, columns="phy_offset")
    kept = [r for r in golden_rows(golden, "basic") if not 262_144 <= r["phy_offset"] < 393_216]
    assert rows == only(kept, "phy_offset")
    assert {row["kind"] for row in read_table(root, table="corrupt")} >= {"missing_file"}


# ---- segments -----------------------------------------------------------------------------------------


def test_segments(golden: Path) -> None:
    root = store_of(golden, "basic")
    rows = read_table(root, table="segments")
    files = sorted((root / "commitlog").iterdir())
    assert [row["file"] for row in rows] == [file.name for file in files]
    assert [row["path"] for row in rows] == [str(file) for file in files]
    assert [row["file_from_offset"] for row in rows] == [int(file.name) for file in files]
    assert [row["file_size"] for row in rows] == [file.stat().st_size for file in files]
    firsts = {row["phy_offset"]: row["store_timestamp"] for row in golden_rows(golden, "basic")}
    assert [row["first_store_timestamp"] for row in rows] == [
        firsts.get(int(f.name)) for f in files
    ]
    with rmqcore.read(root) as reader:
        end = log_end(reader.log_files())
    tail = [
        row["file_from_offset"] <= end < row["file_from_offset"] + row["file_size"] for row in rows
    ]
    assert [row["is_tail"] for row in rows] == tail
    assert [row["is_sealed"] for row in rows] == [not any(tail[: i + 1]) for i in range(len(tail))]
    assert {row["missing_bytes"] for row in rows} == {0}


def test_a_short_segment(store_copy: StoreCopy) -> None:
    root = store_copy("basic")
    os.truncate(root / "commitlog" / f"{131072:020}", 100_000)
    rows = read_table(root, table="segments", columns="file_from_offset,missing_bytes")
    assert [row["file_from_offset"] for row in rows if row["missing_bytes"] == 31_072] == [131_072]


# ---- queues, consumequeue -----------------------------------------------------------------------------


@pytest.mark.parametrize("case", CLEAN)
def test_queues(golden: Path, case: str) -> None:
    root = store_of(golden, case)
    with rmqcore.read(root) as reader:
        expected = [{"broker": broker_of(root), **queue.as_dict()} for queue in reader.queues()]
    assert read_table(root, table="queues") == expected


def test_queues_by_topic_and_id(golden: Path) -> None:
    root = store_of(golden, "basic")
    every = read_table(root, table="queues")
    for options, holds in (
        ({"topics": "TopicBasicA"}, lambda row: row["topic"] == "TopicBasicA"),
        ({"topicsPattern": "Topic.*[BC]"}, lambda row: row["topic"][-1] in "BC"),
        ({"queueIds": "0,2"}, lambda row: row["queue_id"] in (0, 2)),
    ):
        expected = [row for row in every if holds(row)]
        assert 0 < len(expected) < len(every)
        assert read_table(root, table="queues", **options) == expected


def queue_entries(root: Path) -> list[Row]:
    """Entries of every queue, one at a time."""
    rows = []
    with rmqcore.read(root) as reader:
        end = log_end(reader.log_files())
        for queue in find_queues(reader.paths):
            last = max_offset(queue, end)
            for first, count in queue.spans():
                for at in range(first, min(first + count, last)):
                    (entry,) = queue.entries(at, 1)
                    if int(entry["msg_size"]) in (0, CQ_FILLER_SIZE):
                        continue
                    rows.append(
                        {
                            "broker": broker_of(root),
                            "topic": queue.topic,
                            "queue_id": queue.queue_id,
                            "queue_offset": at,
                            "phy_offset": int(entry["phy_offset"]),
                            "msg_size": int(entry["msg_size"]),
                            "tags_code": int(entry["tags_code"]),
                        }
                    )
    return rows


@pytest.mark.parametrize("case", ["basic", "lmq", "delay"])
@pytest.mark.parametrize("options", [{}, {"maxPartitionBytes": "500"}, {"batchRows": 7}], ids=str)
def test_consumequeue(golden: Path, case: str, options: dict[str, object]) -> None:
    root = store_of(golden, case)
    rows = read_table(root, table="consumequeue", **options)
    assert rows == queue_entries(root)
    assert len(rows) > 100


def test_consumequeue_agrees_with_the_messages(golden: Path) -> None:
    rows = read_table(store_of(golden, "basic"), table="consumequeue")
    names = ("topic", "queue_id", "queue_offset", "phy_offset", "msg_size", "tags_code")
    assert sorted(only(rows, *names), key=str) == sorted(
        only(golden_rows(golden, "basic"), *names), key=str
    )


@pytest.mark.parametrize("case", ["crash_expired", "crash_cq_garbage", "crash_cq_hole"])
def test_consumequeue_of_a_damaged_store(golden: Path, case: str) -> None:
    root = golden / case / "input"
    assert read_table(root, table="consumequeue", batchRows=13) == queue_entries(root)


def test_fillers_are_no_rows(store_copy: StoreCopy) -> None:
    root = store_copy("basic")
    file = root / "consumequeue" / "TopicBasicA" / "0" / f"{0:020}"
    with file.open("r+b") as queue:
        for _ in range(3):
            queue.write(bytes(8) + CQ_FILLER_SIZE.to_bytes(4, "big") + bytes(8))
    rows = read_table(root, table="consumequeue", topics="TopicBasicA", queueIds="0")
    assert rows[0]["queue_offset"] == 3


def test_a_store_without_queues(store_copy: StoreCopy) -> None:
    root = store_copy("basic")
    shutil.rmtree(root / "consumequeue")
    assert table_of(root, table="consumequeue").parts() == []
    assert read_table(root, table="queues") == []


# ---- index --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{}, {"maxPartitionBytes": "1000"}, {"batchRows": 100}], ids=str
)
def test_index(golden: Path, options: dict[str, object]) -> None:
    root = store_of(golden, "basic")
    expected = []
    with rmqcore.read(root) as reader:
        for file in find_index_files(reader.paths):
            assert file.slot_count is not None
            data = file.path.read_bytes()
            begin = 40 + 4 * file.slot_count
            for entry in range(1, file.header.index_count):
                found = np.frombuffer(data, INDEX_ENTRY_DTYPE, 1, begin + 20 * entry)[0]
                seconds = int(found["time_diff"])
                expected.append(
                    {
                        "broker": broker_of(root),
                        "file": file.path.name,
                        "entry": entry,
                        "slot": int(found["key_hash"]) % file.slot_count,
                        "key_hash": int(found["key_hash"]),
                        "phy_offset": int(found["phy_offset"]),
                        "time_diff_s": seconds,
                        "store_timestamp": time_of(file.header.begin_timestamp_ms + 1000 * seconds),
                        "previous_entry": int(found["prev_index"]),
                    }
                )
    assert read_table(root, table="index", **options) == expected
    assert len(expected) > 1000


def test_an_index_file_that_does_not_tell_its_slots(store_copy: StoreCopy) -> None:
    root = store_copy("basic")
    files = sorted((root / "index").iterdir())
    for file in files[1:]:
        file.unlink()
    os.truncate(files[0], 60)
    with pytest.raises(CorruptIndexError, match=rf"index/{files[0].name}@0: file is damaged: no"):
        table_of(root, table="index").parts()


# ---- plans of messages --------------------------------------------------------------------------------


def test_small_files_share_a_task(golden: Path) -> None:
    root = store_of(golden, "basic")
    assert len(table_of(root).parts()) == 1
    assert len(table_of(root, maxPartitionBytes="300k").parts()) == 4
    assert len(table_of(root, maxPartitionBytes="128k").parts()) == 7
    assert len(table_of(root, maxPartitionBytes="10k", splitMode="walk").parts()) > 60
    # Less than 1 MiB gets no task of its own.
    assert len(table_of(root, minPartitions=3).parts()) == 1
    assert len(table_of(root, minPartitions=3, splitMode="walk").parts()) >= 3


def test_several_stores(golden: Path) -> None:
    paths = [store_of(golden, "basic"), Path(f"other={store_of(golden, 'delay')}")]
    rows = read_table(paths, columns="broker,phy_offset,_file")
    expected = only(golden_rows(golden, "basic"), "broker", "phy_offset", "_file")
    other = only(golden_rows(golden, "delay"), "broker", "phy_offset", "_file")
    assert rows == expected + [{**row, "broker": "other"} for row in other]
    parts = table_of(paths, minPartitions=4, splitMode="walk").parts()
    assert 4 <= len(parts) <= 8


def test_max_record_size_keeps_cuts_from_the_end(golden: Path) -> None:
    """The rule cuts nothing within 16 largest records of a file's end, so files of 128 KiB not at all by the default."""
    root = store_of(golden, "basic")
    resync = {"maxPartitionBytes": "32k", "splitMode": "resync"}
    assert len(table_of(root, **resync).parts()) == 7
    assert len(table_of(root, maxPartitionBytes="32k", splitMode="walk").parts()) > 25
    finer = table_of(root, **resync, maxRecordSize="2k")
    assert len(finer.parts()) > 15
    assert only(rows_of(finer), "phy_offset") == only(golden_rows(golden, "basic"), "phy_offset")


def test_files_are_left_out_by_offset_and_by_time(golden: Path) -> None:
    root = store_of(golden, "basic")

    def files(**options: object) -> int:
        parts = table_of(root, maxPartitionBytes="128k", **options).parts()
        return len({split.file.name for part in parts for split in part.splits})

    assert files() == 7
    assert files(startingPhyOffset=400_000, endingPhyOffset=500_000) == 1
    rows = golden_rows(golden, "basic")
    since = next(row["store_timestamp"] for row in rows if row["phy_offset"] > 700_000)
    ms = int(since.timestamp() * 1000)
    assert files(startingTimestamp=ms, maxClockStepMs="off") == 7
    assert files(startingTimestamp=ms, maxClockStepMs=0) < 5
    hour = 3_600_000
    later = files(startingTimestamp=ms + 2 * hour, maxClockStepMs=hour)
    assert later < files(startingTimestamp=ms, maxClockStepMs=hour) == 7
    assert files(startingTimestamp=ms + 2 * hour) == 7, "nobody has said what the clock did"


def test_an_offset_that_was_cleaned_away(golden: Path, store_copy: StoreCopy) -> None:
    root = store_copy("basic")
    min((root / "commitlog").iterdir()).unlink()
    with pytest.raises(
        DataLossError, match="offset 5 cannot be read, the first one available is offset 131072"
    ):
        table_of(root, startingPhyOffset=5).parts()
    rows = read_table(root, startingPhyOffset=5, failOnDataLoss=False, columns="phy_offset")
    assert rows == only(
        [r for r in golden_rows(golden, "basic") if r["phy_offset"] >= 131072], "phy_offset"
    )
    assert table_of(root, startingPhyOffset=131_072).parts()


def test_names_that_are_no_utf8(golden: Path, tmp_path: Path) -> None:
    """With one such directory, of a store or in its consumequeue/, every query of the store failed with a UnicodeEncodeError."""
    root = tmp_path / os.fsdecode(b"broker-\xff") / "store"
    shutil.copytree(store_of(golden, "delay"), root)
    queue = next((root / "consumequeue").iterdir())
    queue.rename(queue.with_name(os.fsdecode(b"\xfe")))
    for table in ("messages", "queues", "consumequeue", "segments", "index"):
        rows = read_table(tmp_path / "*" / "store", table=table)
        assert {row["broker"] for row in rows} == {"broker-\N{REPLACEMENT CHARACTER}"}
    queues = read_table(tmp_path / "*" / "store", table="queues")
    assert {row["topic"] for row in queues} == {path.name for path in queue.parent.iterdir()} - {
        os.fsdecode(b"\xfe")  # no topic has this name
    }


def test_a_queue_that_begins_behind_its_starting_offset(golden: Path) -> None:
    """A read from queue offset 5 of a queue of which 0 to 18 were cleaned away began with 19, and said nothing."""
    root = golden / "crash_expired" / "input"
    given = {"TopicCrashA": {"input": {"0": 5}}}
    gone = (
        "queue TopicCrashA/0, queue offset 5 cannot be read, the first one available is offset 19"
    )
    with pytest.raises(DataLossError, match=gone) as raised:
        table_of(root, startingOffsets=given).parts()
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
    rows = read_table(
        root, startingOffsets=given, failOnDataLoss=False, queueIds=0, topics="TopicCrashA"
    )
    assert min(row["queue_offset"] for row in rows) == 19
    for begin in ({"0": 19}, {"0": -2}, {"0": -1}, {"0": 1000}, {"7": 0}):
        assert table_of(root, startingOffsets={"TopicCrashA": {"input": begin}}).parts()
    assert table_of(root, startingOffsets=given, startingTimestamp=0).parts()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingPhyOffset": '{"x": 1}'}, "option startingPhyOffset names the store x, but path has basic"),
        ({"endingPhyOffset": '{"x": 1}'}, "option endingPhyOffset names the store x"),
        ({"startingOffsets": '{"t": {"x": {"0": 1}}}'}, "option startingOffsets names the store x"),
        ({"startingOffsets": "latest"}, "option startingOffsets: 'latest' matches nothing in a batch read"),
        ({"endingOffsets": "earliest"}, "option endingOffsets: 'earliest' matches nothing in a batch read"),
        ({"columns": "topic,quue_id"}, "table messages has no column quue_id; did you mean queue_id?"),
        ({"columns": "topic,topic"}, "column topic is repeated"),
        ({"columns": ","}, "the list of columns is empty"),
        ({"columns": "properties", "properties": "none"}, "column properties was requested, but the option properties is none"),
        ({"columns": "body", "table": "queues"}, "table queues has no column body; it has broker, topic"),
    ],
    ids=str,
)  # fmt: skip
def test_wrong_options_with_a_store(golden: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        table_of(store_of(golden, "basic"), **options)


def test_wrong_paths(golden: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        table_of(tmp_path / "nowhere")
    with pytest.raises(NotAStoreError, match="has no commitlog/"):
        table_of(tmp_path)
    with pytest.raises(ValueError, match="two stores have the name a:"):
        table_of([Path(f"a={store_of(golden, case)}") for case in ("basic", "delay")])
    with pytest.raises(ValueError, match="path is missing"):
        table_of([])


# ---- other filesystems --------------------------------------------------------------------------------


@pytest.fixture
def remote(golden: Path) -> Iterator[str]:
    """The store ``basic`` on an fsspec filesystem in memory."""
    memory = fsspec.filesystem("memory")
    memory.put(str(store_of(golden, "basic")), "/remote/basic/store", recursive=True)
    yield "memory:///remote/basic/store"
    memory.rm("/remote", recursive=True)


@pytest.mark.parametrize(
    "table", ["messages", "corrupt", "segments", "queues", "consumequeue", "index"]
)
def test_a_store_on_another_filesystem(golden: Path, remote: str, table: str) -> None:
    options: dict[str, Any] = {"table": table, "batchRows": 500}
    expected = read_table(store_of(golden, "basic"), **options)
    found = read_table(remote, **options, **{"storage.filesystem": "fsspec"})
    if table == "segments":
        assert [row.pop("path") for row in found] == [
            f"memory:///remote/basic/store/commitlog/{row['file']}" for row in found
        ]
        expected = [
            {name: value for name, value in row.items() if name != "path"} for row in expected
        ]
    assert found == expected


def test_batches_end_with_their_bytes(golden: Path) -> None:
    options = {"columns": "body", "batchBytes": "3000"}
    table = table_of(store_of(golden, "basic"), **options)
    (part,) = table.parts()
    sizes = [batch.num_rows for batch in table.read(part)]
    assert max(sizes) < 30
    assert sum(sizes) == 2000
