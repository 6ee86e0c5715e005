"""`rmqcore.spark.optimize`: a query of any shape gives the rows that it gives without it."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.spark.query_shapes import SHAPES, queries
from support.spark.spark_rows import golden_rows

import rmqcore.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEED = int(os.environ.get("RMQCORE_QUERY_SEED", "0"))
"""Other seeds are other conditions and columns; with seed 0 every second shape is enough."""
STORES = (("basic", "store"), ("delay", "store"), ("crash_flipped", "input"))


def rows_of(frame: DataFrame) -> Counter[str]:
    """Rows in any order."""
    return Counter(map(repr, frame.toArrow().to_pylist()))


@pytest.fixture(scope="module")
def views(spark: SparkSession, golden: Path) -> dict[str, list[dict[str, Any]]]:
    """Views of stores by name, each with some rows of it."""
    found = {}
    for case, part in STORES:
        source = spark.read.format("rmqstore").option("maxPartitionBytes", "40k")
        frame = source.option("splitMode", "walk").load(str(golden / case / part))
        frame.createOrReplaceTempView(f"messages_{case}")
        found[f"messages_{case}"] = golden_rows(golden, case, part)[::37]
    return found


@pytest.mark.parametrize("shape", range(0, len(SHAPES), 1 if SEED else 2))
def test_a_query_gives_the_same_rows(
    spark: SparkSession, views: dict[str, list[dict[str, Any]]], shape: int
) -> None:
    number = (SEED + shape) % len(STORES)
    view = f"messages_{STORES[number][0]}"
    query = queries(SEED * 1000 + shape, view, views[view])[shape]
    plain = spark.sql(query)
    found = rmqcore.spark.sql(spark, query)
    assert found.schema == plain.schema, query
    assert rows_of(found) == rows_of(plain), query
