"""Registration of the data source in a Spark session, and the short way to read with it."""

from __future__ import annotations

import logging
import os
import re
import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from rmqcore.spark.options.source_options import SourceOptions, texts_of
from rmqcore.spark.options.table import CUT_TABLES, SMALL_TABLES
from rmqcore.spark.rows.schema import columns_of, known_columns
from rmqcore.spark.runtime.connect import is_connect
from rmqcore.spark.runtime.failures import short_errors
from rmqcore.spark.runtime.versions import PUSH_FILTERS, check_versions
from rmqcore.spark.runtime.worker_check import check_workers
from rmqcore.spark.storage.locations import absolute_paths
from rmqcore.spark.storage.store_pin import pins_text

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

LOG = logging.getLogger(__name__)
FORMAT = "rmqstore"
PUSHDOWN_SETTING = "spark.sql.python.filterPushdown.enabled"
SOCKET_SETTING = "spark.python.unix.domain.socket.enabled"

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def register(spark: SparkSession) -> None:
    """Add the data source ``rmqstore`` to a session, unless it has it: ``spark.read.format("rmqstore").load(path)``.

    PySpark finds the source by itself if rmqcore is installed, except as an editable install or in a zip file.

    Raises
    ------
    SparkMissingError
        PySpark is older than 4.0, which lacks Python data sources, or pyarrow or pandas is too old for it.
    SparkJobError
        Spark's workers lack a package.
    """
    version = check_versions()
    from pyspark.errors import AnalysisException

    from rmqcore.spark.source.datasource import RmqStoreDataSource

    check_workers(spark)
    try:
        spark.dataSource.register(RmqStoreDataSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
        # PySpark has found the source by itself, as `pyspark_rmqstore`, and does not allow a second registration.
        _warn_of_another_python(spark)
    if version >= PUSH_FILTERS and spark.conf.get(SOCKET_SETTING, "false") != "true":
        LOG.info(
            "%s is off: each task takes about 40 ms longer. Set it before Spark starts, as "
            "rmqcore.spark.session() does",
            SOCKET_SETTING,
        )


def _warn_of_another_python(spark: SparkSession) -> None:
    """Warn if the workers will not run the configured Python: the Python that found the source runs it everywhere."""
    if is_connect(spark):
        return
    found_by = _python_that_looks(spark._jvm.java.lang.System.getenv)  # type: ignore[union-attr] # noqa: SLF001
    asked_for = spark.sparkContext.pythonExec
    if found_by != asked_for:
        warnings.warn(
            f"Spark found the data source rmqstore with {found_by}, and will also run {found_by} "
            f"in the workers, not {asked_for}: set PYSPARK_PYTHON before Spark starts, without "
            "PYSPARK_DRIVER_PYTHON",
            stacklevel=3,
        )


def _python_that_looks(environment: Callable[[str], str | None]) -> str:
    """Return the Python with which Spark looks for sources, by the JVM's environment: PySpark 4.0 does not expose it."""
    return environment("PYSPARK_DRIVER_PYTHON") or environment("PYSPARK_PYTHON") or "python3"


def read(
    spark: SparkSession,
    path: Paths,
    *,
    columns: Iterable[str] | None = None,
    where: str | Column | None = None,
    **options: object,
) -> DataFrame:
    """Read stores as a DataFrame: only the requested columns are decoded.

    A wrong path, option or column raises an error here, before Spark runs, and the ends of the stores are found here. A
    frame of a small table (``segments``, ``queues``, ``corrupt``) has the hint ``broadcast``: Spark assumes that each
    Python source is huge.

    Parameters
    ----------
    spark : SparkSession
    path : str, path-like or an iterable of them
        Stores; see `rmqcore.spark.storage.locations.find_stores`.
    columns : iterable of str, optional
        In the order wanted; None stands for the default columns of the table.
    where : str or Column, optional
        A condition, which may name other columns too. Spark tests it.
    **options
        Options of the source by name, as texts or as Python values: ``table="corrupt"``, ``topics=["TopicA"]``,
        ``maxPartitionBytes="64m"``, ``startingTimestamp=datetime.date(2026, 11, 24)``.

    Raises
    ------
    ValueError, TypeError
        An option or a column is unknown, or a value is wrong.
    NotAStoreError, FileNotFoundError, NotADirectoryError, PermissionError
        The path names no store.
    SparkMissingError
        As `register`.
    """
    check_versions()
    from rmqcore.spark.tables.tables import open_table

    texts = texts_of({**options, "columns": columns, "path": path_text(path)})
    parsed = SourceOptions.parse(texts)
    if parsed.table in CUT_TABLES and parsed.parallelism is None:
        parsed = parsed.in_session(spark)
        texts |= texts_of({"parallelism": parsed.parallelism})
    chosen = [column.name for column in columns_of(parsed)]
    wanted = chosen + _named_in(where, parsed, chosen)
    texts["columns"] = texts_of({"columns": wanted})["columns"]
    table = open_table(parsed, columns_of(SourceOptions.parse(texts)))
    if not is_connect(spark):
        # In this process, which knows the ends found by earlier reads: Spark starts a new process for each frame.
        texts["pins"] = pins_text(dict(table.pin()))

    register(spark)
    if texts.get("pushdown") == "true":
        spark.conf.set(PUSHDOWN_SETTING, "true")
    with short_errors():
        frame = spark.read.format(FORMAT).options(**texts).load()
    if where is not None:
        frame = frame.where(where)
    if wanted != chosen:
        frame = frame.select(*chosen)
    return frame.hint("broadcast") if parsed.table in SMALL_TABLES else frame


def path_text(path: Paths) -> list[str]:
    """Return paths for the option: absolute, since Spark's planner and its workers run in other directories."""
    return absolute_paths(path)


def _named_in(where: Any, options: SourceOptions, chosen: list[str]) -> list[str]:
    """Return the further columns that a condition names; upper and lower case are the same, as in Spark.

    A word inside a quoted text may be mistaken for a column's name. Then the column is read in vain, and the rows are
    the same.
    """
    if where is None:
        return []
    words = set(re.findall(r"\w+", str(where).lower()))
    return [name for name in known_columns(options) if name in words and name not in chosen]
