"""The reader that Spark talks to, without a Spark that talks to it."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from support.stores.live_log import LiveLog

import rmqcore
from rmqcore import Message
from rmqcore.errors import DamagedStreamError, DataLossError
from rmqcore.spark.options.source_options import SourceOptions, texts_of
from rmqcore.spark.rows.schema import arrow_schema, columns_of, spark_schema
from rmqcore.spark.splits.written import written_part
from rmqcore.spark.stream import cursor, planning
from rmqcore.spark.stream.shipped import ShippedStreamReader, stream_reader
from rmqcore.spark.stream.stream_options import check_stream_options

limits = pytest.importorskip(
    "pyspark.sql.streaming.datasource", reason="PySpark before 4.2 gives a stream no limits"
)
ReadAllAvailable, ReadMaxBytes, ReadMaxRows = (
    limits.ReadAllAvailable,
    limits.ReadMaxBytes,
    limits.ReadMaxRows,
)


@pytest.fixture
def log(tmp_path: Path) -> LiveLog:
    log = LiveLog(tmp_path / "broker-a")
    for _ in range(30):
        log.append(tags="TagA")
    return log


def reader(path: Path, **given: Any) -> ShippedStreamReader:
    options = SourceOptions.parse(texts_of({"path": str(path), **given}))
    return stream_reader(spark_schema(columns_of(options)), options)


def through_json(offset: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(offset))
    return found


def rows_of(stream: ShippedStreamReader, start: Any, end: Any, column: str = "queue_offset") -> Any:
    """Rows as tasks read them: each task has a copy of the reader, which knows no follower."""
    found = []
    for partition in stream.partitions(through_json(start), through_json(end)):
        task = pickle.loads(pickle.dumps(stream))
        for batch in task.read(pickle.loads(pickle.dumps(partition))):
            found += batch.column(column).to_pylist()
    return found


def test_batches_in_order(log: LiveLog) -> None:
    stream = reader(log.root, maxRecordsPerTrigger=12)
    start, found, sizes = stream.initialOffset(), [], []
    assert stream.reportLatestOffset() is None
    while True:
        end = stream.latestOffset(start, stream.getDefaultReadLimit())
        if end == start:
            break
        rows = rows_of(stream, start, end)
        sizes.append(len(rows))
        found += rows
        start = end
    assert sizes == [12, 12, 6]
    assert found == list(range(30))
    assert stream.reportLatestOffset() == {"v": 1, "stores": {"broker-a": log.end}}
    assert rows_of(stream, start, start) == []


def test_a_batch_is_cut_where_it_was_walked(log: LiveLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch was walked to find its end, and then once more to be cut.

    Where the cuts of its file decided instead, a task had only the few bytes by which the batch reached over the last of them.
    """
    starts = [log.append(tags="TagA") for _ in range(80)]
    for damaged in (starts[20], starts[70]):  # in a full file, and in the newest one
        log.write(damaged + 4, b"\xff" * 4)
    given = {"maxBytesPerTrigger": 1500, "maxPartitionBytes": 800, "onDamage": "skip"}
    stream, anew = reader(log.root, **given), reader(log.root, **given)
    monkeypatch.setattr(cursor, "STEP", 1)

    def walked_once(*given: Any, stop: int, **more: Any) -> Any:
        assert stop % log.file_size == 0  # a full file's rest, which was passed without being read
        return written_part(*given, stop=stop, **more)

    start, found, cut = stream.initialOffset(), [], 0
    while (end := stream.latestOffset(start, stream.getDefaultReadLimit())) != start:
        with monkeypatch.context() as patch:
            patch.setattr(planning, "written_part", walked_once)
            parts, rows = len(stream.partitions(start, end)), rows_of(stream, start, end)
        assert parts <= 3
        cut += parts > 1
        assert rows == rows_of(anew, start, end)
        found += rows
        start = end
    assert cut > 3
    assert found == [number for number in range(110) if number not in (50, 100)]


def test_batches_have_exactly_the_columns_asked_for(log: LiveLog) -> None:
    stream = reader(log.root, columns="tags,phy_offset")
    columns = columns_of(SourceOptions.parse({"columns": "tags,phy_offset"}))
    start = stream.initialOffset()
    (partition,) = stream.partitions(start, stream.latestOffset(start, ReadAllAvailable()))
    (batch,) = pickle.loads(pickle.dumps(stream)).read(partition)
    assert batch.schema.equals(arrow_schema(columns))
    assert batch.column("tags").to_pylist() == ["TagA"] * 30


def test_limits_as_spark_takes_them(log: LiveLog) -> None:
    # Not ReadAllAvailable, which stands for Trigger.Once.
    assert reader(log.root).getDefaultReadLimit() == ReadMaxBytes((1 << 63) - 1)
    assert reader(log.root, maxOffsetsPerTrigger=5).getDefaultReadLimit() == ReadMaxRows(5)
    assert reader(log.root, maxBytesPerTrigger="1k").getDefaultReadLimit() == ReadMaxBytes(1024)
    both = reader(log.root, maxRecordsPerTrigger=20, maxBytesPerTrigger=500)
    assert both.getDefaultReadLimit() == ReadMaxRows(20)
    start = both.initialOffset()
    assert 1 <= len(rows_of(both, start, both.latestOffset(start, ReadMaxRows(20)))) < 20
    assert len(rows_of(both, start, both.latestOffset(start, ReadMaxRows(2)))) == 2
    # As of Trigger.Once: the options count no more.
    assert len(rows_of(both, start, both.latestOffset(start, ReadAllAvailable()))) == 30


def test_without_limits_a_batch_takes_all(log: LiveLog) -> None:
    stream = reader(log.root)
    start = stream.initialOffset()
    end = stream.latestOffset(start, stream.getDefaultReadLimit())
    assert end.pop("seals").keys() == {"broker-a"}
    assert end == {"v": 1, "stores": {"broker-a": log.end}, "paths": {"broker-a": str(log.root)}}


def test_once_fails_where_a_query_stands_before_damage(log: LiveLog) -> None:
    """Spark does not say that it asks once but by the limit, and a query that stood before damage ended well each night."""
    damaged = [view.phy_offset for view in rmqcore.read(log.root).messages()][7]
    log.write(damaged + 4, b"\xff" * 4)
    stream = reader(log.root)
    end = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    assert end["stores"] == {"broker-a": damaged}
    seen = stream.reportLatestOffset()
    assert seen is not None and seen["stores"]["broker-a"] > damaged
    assert seen["damage"]["broker-a"]["ranges"] == 1
    assert stream.latestOffset(end, stream.getDefaultReadLimit()) == end
    for query in (stream, reader(log.root)):
        with pytest.raises(DamagedStreamError, match=f"@{damaged}: MAGIC"):
            query.latestOffset(end, ReadAllAvailable())
    skips = reader(log.root, onDamage="skip")
    assert len(rows_of(skips, end, skips.latestOffset(end, ReadAllAvailable()))) == 22


def test_damage_as_spark_before_4_2_meets_it(log: LiveLog) -> None:
    damaged = [view.phy_offset for view in rmqcore.read(log.root).messages()][7]
    log.write(damaged, bytes(50))
    assert reader(log.root).latestOffset()["stores"] == {"broker-a": damaged}
    assert reader(log.root, onDamage="skip").latestOffset()["stores"] == {"broker-a": log.end}
    with pytest.raises(DamagedStreamError, match=f"@{damaged}"):
        reader(log.root, onDamage="fail").latestOffset()


def test_available_now_ends_though_the_log_goes_on(log: LiveLog) -> None:
    stream = reader(log.root)
    start = stream.initialOffset()
    stream.prepareForTriggerAvailableNow()
    log.append()
    end = stream.latestOffset(start, ReadMaxRows(29))
    log.append()
    last = stream.latestOffset(end, ReadMaxRows(29))
    log.append()
    assert stream.latestOffset(last, ReadMaxRows(29)) == last
    assert rows_of(stream, start, end) + rows_of(stream, end, last) == list(range(30))


def test_as_spark_before_4_2_calls_it(log: LiveLog) -> None:
    stream = reader(log.root)
    start = stream.initialOffset()
    end = stream.latestOffset()
    assert rows_of(stream, start, end) == list(range(30))


def test_filters_and_starts_of_the_options(log: LiveLog) -> None:
    for n in range(30, 40):
        log.append("Payments" if n % 2 else "Orders", tags="TagB")
    stream = reader(log.root, topics="Payments")
    start = stream.initialOffset()
    rows = rows_of(stream, start, stream.latestOffset(start, ReadAllAvailable()))
    assert rows == [31, 33, 35, 37, 39]
    # Where it began is in the offset; what lies before startingPhyOffset is a row of a stream that went on from there.
    late = reader(log.root, startingPhyOffset=log.end)
    assert rows_of(late, start, late.latestOffset(start, ReadAllAvailable())) == list(range(40))


def test_queue_offsets_to_begin_with(tmp_path: Path) -> None:
    root = tmp_path / "broker-a"
    with rmqcore.open(root, services=False) as store:
        for n in range(20):
            store.put(Message("Orders", b"x", queue_id=n % 2))
        store.wait_dispatched()
        begin = {"Orders": {"broker-a": {"0": 7, "1": -1}}}
        stream = reader(root, startingOffsets=json.dumps(begin))
        start = through_json(stream.initialOffset())
        assert start["queues"] == {"Orders": {"broker-a": {"0": 7, "1": 10}}}
        store.put(Message("Orders", b"new", queue_id=1))
        end = stream.latestOffset(start, ReadAllAvailable())
        assert rows_of(stream, start, end) == [7, 8, 9, 10]
        assert end["queues"] == start["queues"]


def test_a_queue_that_begins_behind_its_starting_offset(golden: Path) -> None:
    """A new stream from queue offset 5 of a queue of which 0 to 18 were cleaned away began with 19, and said nothing."""
    root = golden / "crash_expired" / "input"
    given = {"startingOffsets": {"TopicCrashA": {"input": {"0": 5}}}}
    with pytest.raises(
        DataLossError,
        match="queue TopicCrashA/0, queue offset 5 cannot be read, the first one available is offset 19",
    ):
        reader(root, **given).initialOffset()
    start = reader(root, **given, failOnDataLoss=False).initialOffset()
    assert start["queues"] == given["startingOffsets"]


@pytest.mark.parametrize(
    "given",
    [
        {"startingPhyOffset": {"broker-b": 5}},
        {"startingOffsets": {"Orders": {"broker-b": {"0": 5}}}},
    ],
)
def test_a_start_of_a_store_that_is_not_there(log: LiveLog, given: dict[str, Any]) -> None:
    """With a schema of the user's own nobody looked at the names: a misspelt name began the stream at its first record."""
    with pytest.raises(ValueError, match="names the store broker-b, but path has broker-a"):
        reader(log.root, **given).initialOffset()


@pytest.mark.parametrize("given", [{"maxRecordsPerTrigger": "5"}, {"maxBytesPerTrigger": "5"}])
def test_limits_before_pyspark_4_2_are_refused(given: dict[str, str]) -> None:
    options = SourceOptions.parse(given)
    check_stream_options(options)
    with pytest.raises(ValueError, match=r"needs PySpark 4\.2 or later in a stream"):
        check_stream_options(options, has_limits=False)


@pytest.mark.parametrize(
    "given",
    [
        {"endingTimestamp": "5"},
        {"endingPhyOffset": "5"},
        {"endingOffsets": '{"t": {"a": {"0": 1}}}'},
    ],
)
def test_a_stream_has_no_end(given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=f"option {next(iter(given))} does not apply to a stream"):
        check_stream_options(SourceOptions.parse(given))
