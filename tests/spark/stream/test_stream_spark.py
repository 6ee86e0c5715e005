"""Streams in a real session: triggers, limits, schemas, errors."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.stores.live_log import LiveLog

import rmqcore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip(
    "pyspark.sql.streaming.datasource", reason="PySpark before 4.2 gives a stream no limits"
)

Run = Callable[..., list[int]]
"""Runs a stream to its end: answers the rows of its batches."""


@pytest.fixture
def log(tmp_path: Path) -> LiveLog:
    log = LiveLog(tmp_path / "broker-a")
    for _ in range(60):
        log.append(tags="TagA")
    return log


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path) -> Run:
    from rmqcore.spark import register

    register(spark)

    def run(path: Path, *, name: str = "one", once: bool = False, **options: Any) -> list[int]:
        stream = spark.readStream.format("rmqstore").options(**options).load(str(path))
        writer = stream.writeStream.format("parquet").option(
            "checkpointLocation", str(tmp_path / name / "checkpoint")
        )
        writer = writer.trigger(once=True) if once else writer.trigger(availableNow=True)
        query = writer.start(str(tmp_path / name / "table"))
        query.awaitTermination()
        return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]

    return run


def stored(spark: SparkSession, tmp_path: Path, name: str = "one") -> list[int]:
    table = spark.read.parquet(str(tmp_path / name / "table"))
    return sorted(row[0] for row in table.select("queue_offset").collect())


@pytest.mark.smoke
def test_available_now_goes_on_where_it_ended(
    spark: SparkSession, tmp_path: Path, log: LiveLog, run: Run
) -> None:
    assert run(log.root, maxRecordsPerTrigger=25) == [25, 25, 10]
    for _ in range(7):
        log.append()
    assert run(log.root, maxOffsetsPerTrigger=5, startingOffsets="latest") == [5, 2]
    assert stored(spark, tmp_path) == list(range(67))


def test_once_takes_everything_whatever_the_limits(log: LiveLog, run: Run) -> None:
    assert run(log.root, once=True, maxRecordsPerTrigger=25) == [60]


def test_both_limits(log: LiveLog, run: Run) -> None:
    batches = run(
        log.root, maxRecordsPerTrigger=25, maxBytesPerTrigger="1k", columns="queue_offset"
    )
    assert sum(batches) == 60
    assert max(batches) < 15


def test_queue_offsets_to_begin_with_outlive_a_restart(
    spark: SparkSession, tmp_path: Path, log: LiveLog, run: Run
) -> None:
    """Another process goes on after a restart, with other options: it must leave out what the first process left out."""
    begin = '{"Orders": {"broker-a": {"0": 40}}}'
    assert sum(run(log.root, startingOffsets=begin, maxRecordsPerTrigger=60)) == 20
    log.append()
    assert run(log.root, startingTimestamp=1 << 50) == [1]
    assert stored(spark, tmp_path) == list(range(40, 61))


def test_several_stores_at_once(
    spark: SparkSession, tmp_path: Path, log: LiveLog, run: Run
) -> None:
    other = LiveLog(tmp_path / "broker-b")
    other.append()
    assert run(tmp_path / "broker-*", maxRecordsPerTrigger=4)[0] == 4
    table = spark.read.parquet(str(tmp_path / "one" / "table"))
    counts = {row["broker"]: row["count"] for row in table.groupBy("broker").count().collect()}
    assert counts == {"broker-a": 60, "broker-b": 1}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"endingTimestamp": 5}, "option endingTimestamp does not apply to a stream"),
        ({"table": "segments"}, "a stream reads table=messages, not table=segments"),
        ({"maxRecordPerTrigger": 5}, "did you mean maxRecordsPerTrigger"),
        (
            {"startingPhyOffset": 1 << 40},
            "store broker-a: CommitLog offset 1099511627776 cannot be read",
        ),
    ],
)
def test_what_a_stream_cannot_do(
    log: LiveLog, run: Run, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(Exception, match=message) as raised:
        run(log.root, **options)
    # The last line of the error came from Spark's runner: "cannot access local variable 'reader'".
    assert "UnboundLocalError" not in str(raised.value)


def test_damage(spark: SparkSession, tmp_path: Path, log: LiveLog, run: Run) -> None:
    while log.end < 2 * log.file_size:
        log.append()
    log.write(150, b"\xff" * 30)
    with pytest.raises(Exception, match="broker-a: commitlog/00000000000000000000@"):
        run(log.root, mode="FAILFAST")
    assert sum(run(log.root, name="two")) == log.count - 1


def damage_the_newest_file(log: LiveLog) -> tuple[int, int]:
    """Damage the 46th of 60 records; answer where it and the record behind it begin."""
    starts = [view.phy_offset for view in rmqcore.read(log.root).messages()]
    assert starts[45] > starts[-1] // log.file_size * log.file_size
    log.write(starts[45] + 4, b"\xff" * 4)
    return starts[45], starts[46]


def test_available_now_at_damage_in_the_newest_file(
    spark: SparkSession, tmp_path: Path, log: LiveLog, run: Run
) -> None:
    """It ended with success and 71,492 rows where a batch gave 87,046, and latestOffset was endOffset."""
    damaged, behind = damage_the_newest_file(log)
    place = rf"store broker-a: commitlog/{log.file_size:020}@{damaged}: MAGIC is 0xFFFFFFFF, expected 0xDAA320A7"
    with pytest.raises(Exception, match=place):
        run(log.root, maxRecordsPerTrigger=20, onDamage="fail")
    with pytest.raises(Exception, match=place) as caught:
        run(log.root, maxRecordsPerTrigger=20)
    assert f"the log continues behind the damage, at CommitLog offset {behind}" in str(caught.value)  # fmt: skip
    assert "onDamage=skip" in str(caught.value)
    assert stored(spark, tmp_path) == list(range(45))
    # From the same checkpoint.
    assert run(log.root, maxRecordsPerTrigger=10, onDamage="skip") == [10, 4]
    batch = spark.read.format("rmqstore").load(str(log.root)).select("queue_offset")
    assert stored(spark, tmp_path) == sorted(row[0] for row in batch.collect())


def test_once_at_damage_in_the_newest_file(log: LiveLog, run: Run) -> None:
    """Each night's query stood before the damage, and ended with success."""
    damage_the_newest_file(log)
    assert run(log.root, once=True) == [45]
    with pytest.raises(Exception, match="the log continues behind the damage"):
        run(log.root, once=True)


@pytest.mark.parametrize("rule", ["wait", "skip", "fail"])
def test_damage_and_lag_in_the_progress_of_a_query(
    spark: SparkSession, tmp_path: Path, log: LiveLog, rule: str
) -> None:
    from pyspark.sql.functions import col, count, count_if

    from rmqcore.spark import register, stream_lag

    damaged, behind = damage_the_newest_file(log)
    register(spark)
    stream = (
        spark.readStream.format("rmqstore")
        .options(onDamage=rule, columns="phy_offset,resynced")
        .load(str(log.root))
    )
    seen = stream.observe("seen", count_if(col("resynced")).alias("gaps"), count("*").alias("rows"))
    writer = seen.writeStream.format("parquet").trigger(processingTime="0 seconds")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.start(str(tmp_path / "table"))
    try:
        if rule == "fail":
            with pytest.raises(Exception, match=f"@{damaged}: MAGIC"):
                query.processAllAvailable()
            return
        query.processAllAvailable()
        (lag,) = stream_lag(query, log.root)
        progress = next(one for one in query.recentProgress if one.numInputRows)
    finally:
        query.stop()
    lost = behind - damaged
    latest = json.loads(progress.sources[0].latestOffset)
    assert (latest["damage"]["broker-a"]["ranges"], latest["damage"]["broker-a"]["bytes"]) == (1, lost)  # fmt: skip
    observed = progress.observedMetrics["seen"]
    if rule == "wait":
        assert latest["stores"] == {"broker-a": behind}
        assert f"@{damaged}: record, {lost} bytes" in latest["damage"]["broker-a"]["waiting"]
        assert (lag.phy_offset, lag.lag_bytes) == (damaged, log.end - damaged)
        assert [found.start_phy_offset for found in lag.damage] == [damaged]
        assert (observed["gaps"], observed["rows"]) == (0, 45)
    else:
        assert latest["stores"] == {"broker-a": log.end}
        assert "waiting" not in latest["damage"]["broker-a"]
        assert (lag.phy_offset, lag.lag_bytes, lag.lag_ms) == (log.end, 0, 0)
        assert (observed["gaps"], observed["rows"]) == (1, 59)


def test_a_deleted_file(tmp_path: Path, log: LiveLog, run: Run) -> None:
    run(log.root, maxRecordsPerTrigger=10, startingPhyOffset=0)
    while log.end < 4 * log.file_size:
        log.append()
    log.path(log.file_size).unlink()
    log.path(0).unlink()
    with pytest.raises(
        Exception,
        match=r"store broker-a: CommitLog offset \d+ cannot be read, the first one available is offset 8192",
    ):
        run(log.root)
    assert sum(run(log.root, failOnDataLoss=False)) > 0


def test_a_replaced_store_whose_records_begin_at_the_same_places(log: LiveLog, run: Run) -> None:
    run(log.root)
    shutil.rmtree(log.root)
    other = LiveLog(log.root)
    for _ in range(90):
        other.append(tags="TagB")
    with pytest.raises(Exception, match=r"changed since they were read: the log was cut"):
        run(log.root)
    assert sum(run(log.root, failOnDataLoss=False)) == 30
