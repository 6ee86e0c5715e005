"""A program on a cluster of processes that finds the source by its name: tells JSON. Argument: a store."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def where(batches: Iterator[Any]) -> Iterator[Any]:
    """Say where a task runs."""
    import os

    import pyarrow as pa

    for _ in batches:
        yield pa.record_batch({"folder": [os.getcwd()]})


def main(store: str) -> dict[str, Any]:
    """Read a store by name, in two executors."""
    spark = SparkSession.builder.master("local-cluster[2,1,1024]").getOrCreate()
    frame = spark.read.format("rmqstore").option("maxPartitionBytes", "100k").load(store)
    found: dict[str, Any] = {"partitions": frame.rdd.getNumPartitions(), "rows": frame.count()}
    spark.sql(f"CREATE TABLE t USING rmqstore OPTIONS (path '{store}', topics 'TopicBasicA')")
    found["table"] = spark.table("t").count()
    import rmqcore.spark

    rmqcore.spark.register(spark)  # it is there already
    found["read"] = rmqcore.spark.read(spark, store, columns=["topic"]).count()
    tasks = spark.range(0, 8, 1, 8).mapInArrow(where, "folder string").distinct().collect()
    found["executors"] = sorted(Path(row.folder).name for row in tasks)
    spark.stop()
    return found


if __name__ == "__main__":
    sys.stdout.write("told " + json.dumps(main(sys.argv[1])))
