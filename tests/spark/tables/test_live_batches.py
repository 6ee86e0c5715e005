"""Batches over a store that is written to: a frame reads what was there when it was loaded, whenever its tasks run.

Two counts over one RDD gave 4,200 and 8,065 rows, and a self-join left 1,800 rows without a partner: each task read on to where
the store ended just then, and Spark runs a task again whenever it likes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions
from support.stores.live_log import LiveLog

import rmqcore.spark
from rmqcore.spark.runtime.versions import PUSH_FILTERS, pyspark_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 300


@pytest.fixture
def log(tmp_path: Path) -> LiveLog:
    """A store of two files, the next one allocated."""
    log = LiveLog(tmp_path / "store", file_size=16384)
    for _ in range(COUNT):
        log.append()
    log.allocate(log.end + log.file_size)
    return log


def grow(log: LiveLog, count: int = 400) -> None:
    """So much that the newest file is filled, and others begin."""
    for _ in range(count):
        log.append()


def test_a_store_that_grows_between_load_and_action(spark: SparkSession, log: LiveLog) -> None:
    plain = spark.read.format("rmqstore").load(str(log.root))
    named = rmqcore.spark.read(spark, log.root, columns=["phy_offset"])
    mapped = rmqcore.spark.read_with_map(spark, log.root, columns=["phy_offset"])
    grow(log)
    assert [frame.count() for frame in (plain, named, mapped)] == [COUNT] * 3
    grow(log)
    assert plain.select("phy_offset").distinct().count() == COUNT
    assert rmqcore.spark.read(spark, log.root).count() == log.count


def test_a_frame_is_planned_again_for_what_it_was(spark: SparkSession, log: LiveLog) -> None:
    """`optimize` planned what was there by then, so that a frame and the same frame made fast had different rows."""
    frame = spark.read.format("rmqstore").load(str(log.root))
    grow(log)
    found = rmqcore.spark.optimize(frame.groupBy("topic").count())
    assert [tuple(row) for row in found.collect()] == [("Orders", COUNT)]
    grow(log)
    again = rmqcore.spark.optimize(
        rmqcore.spark.optimize(frame.select("topic", "body")).select("topic")
    )
    assert again.columns == ["topic"]
    assert again.count() == frame.count() == COUNT


def test_two_counts_over_one_rdd(spark: SparkSession, log: LiveLog) -> None:
    rows = rmqcore.spark.read(spark, log.root, columns=["phy_offset"]).rdd
    assert rows.count() == COUNT
    grow(log)
    assert rows.count() == COUNT


def test_both_sides_of_a_self_join(spark: SparkSession, log: LiveLog, tmp_path: Path) -> None:
    """One side is read to its end, then the store grows, then the other side is read."""
    shutil.copytree(log.root, tmp_path / "grown")
    later = LiveLog(tmp_path / "grown", file_size=log.file_size)
    later.end, later.count = log.end, log.count
    grow(later)
    grown = {file.name: file.read_bytes() for file in later.path(0).parent.iterdir()}
    folder = str(log.path(0).parent)

    def grow_behind(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches
        for name, data in grown.items():
            with open(f"{folder}/{name}", "wb") as file:
                file.write(data)

    frame = rmqcore.spark.read(spark, log.root, columns=["phy_offset"])
    # What is broadcast is read before the rest of the query begins.
    small = functions.broadcast(frame.mapInArrow(grow_behind, frame.schema))
    small = small.withColumn("partner", functions.lit(1))
    joined = frame.join(small, "phy_offset", "left_outer").collect()
    assert len(joined) == COUNT
    assert all(row.partner == 1 for row in joined)
    assert rmqcore.spark.read(spark, log.root).count() == later.count


def test_the_other_tables(spark: SparkSession, log: LiveLog) -> None:
    log.write(log.end, log.record()[:30])
    frames = [rmqcore.spark.read(spark, log.root, table=name) for name in ("corrupt", "segments")]
    before = [frame.collect() for frame in frames]
    assert [row.kind for row in before[0]] == ["torn_tail"]
    assert [row.first_store_timestamp is None for row in before[1]] == [False, False, True]
    grow(log)
    assert [frame.collect() for frame in frames] == before
    loaded = [rmqcore.spark.read(spark, log.root, table=name) for name in ("corrupt", "segments")]
    assert [frame.count() for frame in loaded] == [0, len(list((log.root / "commitlog").iterdir()))]


def test_a_job_reads_what_was_there_when_it_was_called(spark: SparkSession, log: LiveLog) -> None:
    stats = rmqcore.spark.topic_stats(spark, log.root)
    grow(log)
    assert sum(row.messages for row in stats.collect()) == COUNT


@pytest.mark.skipif(
    pyspark_version() < PUSH_FILTERS, reason="PySpark makes the source anew for each plan"
)
def test_a_schema_of_the_user(spark: SparkSession, log: LiveLog) -> None:
    """Spark then asks nothing when it loads: the first plan of the frame says what it reads."""
    frame = spark.read.format("rmqstore").schema("phy_offset bigint").load(str(log.root))
    assert frame.count() == COUNT
    grow(log)
    assert frame.count() == frame.rdd.count() == COUNT
    assert rmqcore.spark.optimize(frame.select("phy_offset")).count() == COUNT


RETRIED = """
import json, sys
from pyspark import TaskContext
import rmqcore.spark
from support.stores.live_log import LiveLog

def fail_once(rows):
    found = [row.phy_offset for row in rows]
    task = TaskContext.get()
    if task.attemptNumber() == 0:
        log = LiveLog(root, file_size=16384)
        log.end, log.count = end, 300
        for _ in range(400):
            log.append()
        raise RuntimeError("the first attempt of each task fails")
    yield from found

master, root, end = sys.argv[1], sys.argv[2], int(sys.argv[3])
spark = rmqcore.spark.session(master, conf={"spark.task.maxFailures": 4, "spark.driver.memory": "1g"})
frame = rmqcore.spark.read(spark, root, columns=["phy_offset"], maxPartitionBytes="16k")
print("##", json.dumps(sorted(frame.rdd.mapPartitions(fail_once).collect())))
spark.stop()
"""


@pytest.mark.slow
def test_a_task_that_runs_again_after_the_store_has_grown(
    spark: SparkSession, log: LiveLog, tmp_path: Path
) -> None:
    """Local masters run a task once, unless the master says more: `local[2,4]`."""
    places = [
        row.phy_offset
        for row in spark.read.format("rmqstore").load(str(log.root)).select("phy_offset").collect()
    ]
    end = log.end
    done = subprocess.run(
        [sys.executable, "-c", RETRIED, "local[2,4]", str(log.root), str(end)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join(sys.path), "SPARK_LOCAL_DIRS": str(tmp_path / "local")},
    )
    answers = [line[3:] for line in done.stdout.splitlines() if line.startswith("## ")]
    assert len(answers) == 1, done.stderr[-3000:]
    assert json.loads(answers[0]) == sorted(places)
    assert len(places) == COUNT
