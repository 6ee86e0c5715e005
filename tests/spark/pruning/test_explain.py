"""`rmqcore.spark.explain`: what is read of which stores; Spark shows a Python source by its name alone."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from support.spark.spark_rows import store_of

import rmqcore.spark
from rmqcore.offline.log.log_files import LogShape
from rmqcore.spark.pruning.explained import MOST_STORES, _lines, sources_text
from rmqcore.spark.reading.store_end import pin_stores
from rmqcore.spark.storage.locations import find_stores
from rmqcore.spark.storage.store_pin import StorePin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_path_options_columns_and_pins(
    spark: SparkSession, golden: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = store_of(golden, "basic")
    (store,) = pin_stores(find_stores(f"b={path}"))
    assert store.pin is not None
    messages = rmqcore.spark.read(
        spark, f"b={path}", columns=["topic", "queue_id"], topics=["TopicBasicA"]
    )
    segments = spark.read.format("rmqstore").option("table", "segments").load(str(path))
    rmqcore.spark.explain(messages.join(segments, messages.topic == segments.file))
    shown = capsys.readouterr().out
    assert "BatchScan rmqstore" in shown
    lines = shown[shown.index("rmqstore[topic, queue_id]") :].splitlines()
    assert lines[1].startswith("  path: ") and f"b={path}" in lines[1]
    assert lines[2].startswith("  options: parallelism=") and "TopicBasicA" in lines[2]
    assert (
        lines[3]
        == f"  pin of b: CommitLog offsets {store.pin.first_phy_offset} to {store.pin.log_end}"
    )
    assert lines[4].startswith("rmqstore[broker, file, ")
    assert lines[6] == "  options: table=segments"


def test_a_frame_of_no_store(spark: SparkSession) -> None:
    assert sources_text(spark.range(1)) == "no source rmqstore"


def test_secrets_are_not_shown() -> None:
    options = {
        "path": "s3://me:word@bucket/a",
        "storage.secret_key": "word",
        "storage.region": "eu",
        "pins": "{}",
    }
    relation: Any = SimpleNamespace(names=["topic"], options=options)
    assert list(_lines(relation, {})) == [
        "rmqstore[topic]",
        "  path: s3://***@bucket/a",
        "  options: storage.region=eu, storage.secret_key=***",
        "  pins: none; the stores are read as they are when the query is planned",
    ]


def test_many_stores_are_counted() -> None:
    relation: Any = SimpleNamespace(names=["topic"], options={"path": "/data/*"})
    pin = StorePin(0, LogShape(1 << 30, 0), 512, ())
    lines = list(_lines(relation, {f"b-{number}": pin for number in range(1000)}))
    assert len(lines) == 3 + MOST_STORES + 1
    assert lines[3] == "  pin of b-0: CommitLog offsets 0 to 512"
    assert lines[-1] == "  pins of 980 other stores"


@pytest.mark.parametrize(
    ("table", "broadcast"),
    [("segments", True), ("queues", True), ("corrupt", True), ("index", False)],
)
def test_small_tables_are_broadcast(
    table: str, broadcast: bool, spark: SparkSession, golden: Path
) -> None:
    """Spark takes each table for endless, also one of four rows, and sorted both sides of a join."""
    path = store_of(golden, "basic")
    small = rmqcore.spark.read(spark, path, table=table)
    messages = rmqcore.spark.read(spark, path, columns=["broker", "phy_offset"])
    joined = messages.join(small, "broker")
    plan = joined._jdf.queryExecution().executedPlan().toString()
    assert ("BroadcastHashJoin" in plan) == broadcast
    assert (
        small.count()
        == spark.read.format("rmqstore").option("table", table).load(str(path)).count()
    )
    assert rmqcore.spark.optimize(joined).count() == joined.count()
