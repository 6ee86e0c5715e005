"""What people type, in a real session: globs, times, names, and the errors of what is wrong with them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.spark.spark_rows import EPOCH, golden_rows, store_of

import rmqcore.spark
from rmqcore.errors import SparkJobError
from rmqcore.spark.storage.locations import NoStoreWarning

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def counts(frame: Any) -> dict[str, int]:
    return {row["broker"]: row["count"] for row in frame.groupBy("broker").count().collect()}


def test_a_glob_with_braces(spark: SparkSession, golden: Path) -> None:
    glob = f"{golden}/{{basic,delay,nowhere}}/store"
    expected = {case: len(golden_rows(golden, case)) for case in ("basic", "delay")}
    assert counts(spark.read.format("rmqstore").load(glob).select("broker")) == expected
    with pytest.warns(NoStoreWarning, match=f"{golden}/nowhere/store does not exist"):
        frame = rmqcore.spark.read(spark, glob, columns=["broker"])
    assert counts(frame) == expected
    with pytest.warns(NoStoreWarning, match="nowhere/store does not exist"):
        assert rmqcore.spark.audit(spark, glob).collect() == []


def test_times(spark: SparkSession, golden: Path) -> None:
    store = store_of(golden, "basic")
    times = [row["store_timestamp"] for row in golden_rows(golden, "basic")]
    begin, end = sorted(times)[500], sorted(times)[1500]
    expected = sum(begin <= time < end for time in times)
    assert 0 < expected < len(times)
    shanghai = f"{(end + timedelta(hours=8)).replace(tzinfo=None)}+08:00"
    source = spark.read.format("rmqstore").options(
        startingTimestamp=begin.isoformat(), endingTimestamp=shanghai
    )
    assert source.load(str(store)).count() == expected
    frame = rmqcore.spark.read(spark, store, startingTimestamp=begin, endingTimestamp=end)
    assert frame.count() == expected
    stats = rmqcore.spark.topic_stats(spark, store, startingTimestamp=begin, endingTimestamp=end)
    assert sum(row["messages"] for row in stats.collect()) == expected
    day = (begin - timedelta(days=1)).date()
    assert day < datetime.now(UTC).date() and begin > EPOCH
    assert rmqcore.spark.read(spark, store, endingTimestamp=day).count() == 0


def test_short_errors(spark: SparkSession, golden: Path) -> None:
    """What is wrong stood in the last line of pages."""
    store = golden / "crash_flipped" / "input"
    with pytest.raises(Exception, match="Traceback") as caught:
        spark.read.format("rmqstore").option("verifyCrc", "fail").load(str(store)).count()
    short = rmqcore.spark.short_error(caught.value)
    assert isinstance(short, SparkJobError) and "\n" not in str(short)
    assert "BODYCRC is" in str(short)
    with pytest.raises(Exception, match="did you mean") as caught:
        spark.read.format("rmqstore").option("topik", "a").load(str(store))
    short = rmqcore.spark.short_error(caught.value)
    assert str(short).startswith("ValueError: unknown option topik; did you mean topics")
    with pytest.raises(Exception, match="UNRESOLVED_COLUMN") as caught:
        spark.read.format("rmqstore").load(str(store)).select("nothing")
    assert rmqcore.spark.short_error(caught.value) is caught.value, "not ours"
    other = ValueError("of the program")
    assert rmqcore.spark.short_error(other) is other


def test_functions_raise_short_errors(spark: SparkSession, golden: Path) -> None:
    query = (
        "create temporary view bad using rmqstore "
        f"options (path '{store_of(golden, 'basic')}', queueIds 'x')"
    )
    told = r"^ValueError: option queueIds: 'x' is invalid, expected queue ids separated by commas, such as 0,1,7$"
    with pytest.raises(SparkJobError, match=told) as caught:
        rmqcore.spark.sql(spark, query)
    assert caught.value.__suppress_context__, "Spark's page would be printed before it"
