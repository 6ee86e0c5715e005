"""What a stream can do with every PySpark from 4.0 on: follow a log without limits, once and again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from support.stores.live_log import LiveLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_stream_goes_on_where_it_ended(spark: SparkSession, tmp_path: Path) -> None:
    from rmqcore.spark import register

    register(spark)
    log = LiveLog(tmp_path / "broker-a")
    for records in (30, 7, 0, 1):
        for _ in range(records):
            log.append()
        stream = spark.readStream.format("rmqstore").load(str(log.root))
        writer = stream.writeStream.format("parquet").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.start(str(tmp_path / "table")).awaitTermination()
    table = spark.read.parquet(str(tmp_path / "table"))
    assert sorted(row[0] for row in table.select("queue_offset").collect()) == list(range(38))
