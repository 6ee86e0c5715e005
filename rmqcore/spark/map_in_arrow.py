"""The tables without a data source: for PySpark 3.5, which has none, by `mapInArrow` over the parts of a read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rmqcore.spark.options import SourceOptions, texts_of
from rmqcore.spark.registration import Paths, path_text
from rmqcore.spark.schema import columns_of, spark_schema
from rmqcore.spark.versions import MAP_IN_ARROW, check_versions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_with_map(
    spark: SparkSession,
    path: Paths,
    *,
    columns: Iterable[str] | None = None,
    **options: object,
) -> DataFrame:
    """Read stores as a DataFrame with any PySpark from 3.5 on.

    The same as `rmqcore.spark.read`, but the read is planned when this is called, and filters of Spark are not handed down: give
    them as options (``topics``, ``startingTimestamp``...). Not for Spark Connect.

    Parameters
    ----------
    spark : SparkSession
    path, columns, **options
        As in `rmqcore.spark.read`.

    Raises
    ------
    ValueError, TypeError, StoreError, OSError
        As in `rmqcore.spark.read`.
    """
    check_versions(MAP_IN_ARROW)
    from rmqcore.spark.jobs import task_frame
    from rmqcore.spark.tables import open_table

    texts = texts_of({**options, "columns": columns, "path": path_text(path)})
    parsed = SourceOptions.parse(texts)
    chosen = columns_of(parsed)
    table = open_table(parsed, chosen)
    return task_frame(spark, table.read, table.parts(), spark_schema(chosen))
