"""Writes by Spark itself: modes, errors, and a table that is read and replaced in one query."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.spark.sink_writes import SMALL

import rmqcore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def orders(spark: SparkSession, first: int, end: int) -> DataFrame:
    return spark.range(first, end, 1, 2).selectExpr(
        "'Orders' topic",
        "cast(id as string) body",
        "concat('K', id) keys",
        "timestamp_millis(id) born_timestamp",
    )


def save(frame: DataFrame, out: Path, mode: str, **options: Any) -> None:
    frame.write.format("rmqstore").options(**{**SMALL, **options}).mode(mode).save(str(out))


def numbers(spark: SparkSession, out: Path) -> list[int]:
    rows = (
        spark.read.format("rmqstore")
        .load(str(out))
        .selectExpr("cast(cast(body as string) as int) n")
    )
    return sorted(row.n for row in rows.collect())


@pytest.mark.smoke
def test_append_and_overwrite(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    save(orders(spark, 0, 100), out, "append")
    save(orders(spark, 100, 130), out, "append")
    assert numbers(spark, out) == [*range(130)]
    # All of a table, read while it is replaced: columns, keys and properties fit each other.
    table = spark.read.format("rmqstore").load(str(out))
    save(table.where("queue_id < 2"), out, "overwrite")
    kept = numbers(spark, out)
    assert len(kept) == 68
    for store in sorted(out.glob("part-*")):
        for message in rmqcore.read(store).messages():
            assert message.keys == (f"K{bytes(message.body).decode()}",)
    save(orders(spark, 0, 0), out, "overwrite")
    assert numbers(spark, out) == []


def test_a_bad_row_fails_the_write_and_nothing_is_seen(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    save(orders(spark, 0, 10), out, "append")
    bad = orders(spark, 10, 40).selectExpr("topic", "if(keys = 'K33', null, body) body", "keys")
    with pytest.raises(
        Exception, match=r"of partition 1: column body: expected a value, found null; .*K33"
    ):
        save(bad, out, "append")
    with pytest.raises(Exception, match="column amount is not a field of a message"):
        save(bad.selectExpr("*", "1 amount"), out, "append")
    assert numbers(spark, out) == [*range(10)]
    assert [*(out / "_rmqstore" / "staging").iterdir()] == []


def test_modes_that_spark_has_for_no_python_source(spark: SparkSession, tmp_path: Path) -> None:
    for mode in ("errorifexists", "ignore"):
        with pytest.raises(Exception, match='"Append" or "Overwrite" mode'):
            save(orders(spark, 0, 3), tmp_path / "out", mode)
    assert not (tmp_path / "out").exists()


def test_a_write_that_is_repeated_by_its_name(spark: SparkSession, tmp_path: Path) -> None:
    for _ in range(2):
        save(orders(spark, 0, 10), tmp_path / "out", "append", writeId="2026-01-01")
    assert numbers(spark, tmp_path / "out") == [*range(10)]
