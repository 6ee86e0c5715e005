"""A stream into stores: batches that Spark writes again after a restart count once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.spark.sink_writes import SMALL, bodies, numbers

import rmqcore
from rmqcore import Message
from rmqcore.spark.storage.sink_folder import MANIFEST

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip(
    "pyspark.sql.streaming.datasource", reason="PySpark before 4.2 gives a stream no limits"
)


def put(store: Path, first: int, end: int) -> None:
    with rmqcore.open(store, services=False) as opened:
        messages = [Message("Orders", str(n).encode()) for n in range(first, end)]
        opened.put_many(messages).raise_for_status()


def drain(spark: SparkSession, folder: Path) -> None:
    source = spark.readStream.format("rmqstore").option("maxRecordsPerTrigger", "40")
    sink = source.load(str(folder / "store")).writeStream.format("rmqstore").options(**SMALL)
    query = sink.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    query.start(str(folder / "out")).awaitTermination()


def test_a_batch_that_spark_writes_again_counts_once(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "store", 0, 100)
    drain(spark, tmp_path)
    out = tmp_path / "out"
    assert sorted(bodies(out), key=int) == numbers(100)
    manifest = json.loads((out / MANIFEST).read_text())
    assert [*manifest["batches"].values()] == [2]
    # The driver dies when the sink has committed a batch, and Spark has not:
    (tmp_path / "checkpoint" / "commits" / "2").unlink()
    (tmp_path / "checkpoint" / "commits" / ".2.crc").unlink(missing_ok=True)
    put(tmp_path / "store", 100, 120)
    drain(spark, tmp_path)
    assert sorted(bodies(out), key=int) == numbers(120)
    assert spark.read.format("rmqstore").load(str(out)).count() == 120
    assert [*(out / "_rmqstore" / "staging").iterdir()] == []
