"""The tables by `mapInArrow` over the parts of a read: for PySpark 3.5, which has no Python data sources."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rmqcore.spark.options.source_options import SourceOptions, texts_of
from rmqcore.spark.rows.schema import columns_of, spark_schema
from rmqcore.spark.runtime.versions import MAP_IN_ARROW, check_versions
from rmqcore.spark.source.registration import Paths, path_text

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

    The same as `rmqcore.spark.read`, but this call plans the read, and Spark does not push filters down: state them as
    options (``topics``, ``startingTimestamp``...). Does not work with Spark Connect.

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
    from rmqcore.spark.runtime.tasks import task_frame
    from rmqcore.spark.tables.tables import open_table

    texts = texts_of({**options, "columns": columns, "path": path_text(path)})
    parsed = SourceOptions.parse(texts).in_session(spark)
    chosen = columns_of(parsed)
    table = open_table(parsed, chosen)
    return task_frame(spark, table.read, table.parts(), spark_schema(chosen))
