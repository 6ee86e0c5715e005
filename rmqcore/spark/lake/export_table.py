"""A table that grows with the log: each run adds the records that are new, each record once."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from rmqcore.offline.export.parquet_writer import Compression
from rmqcore.spark.jobs.export import (
    ExportedSplits,
    ExportReport,
    check_compression,
    damage_with_gaps,
    job_name,
    table_columns,
    write_splits,
)
from rmqcore.spark.jobs.export_files import TARGET_FILE_BYTES, FilesTask, check_target
from rmqcore.spark.jobs.job_source import JobSource
from rmqcore.spark.lake.document import (
    TableDocument,
    TableFormat,
    check_settings,
    settings_of,
)
from rmqcore.spark.lake.increment import (
    Increment,
    Marks,
    check_table_options,
    plan_increments,
    watermark_behind,
)
from rmqcore.spark.lake.table_folder import TableFolder
from rmqcore.spark.lake.table_log import ICEBERG_TABLE, TableLog
from rmqcore.spark.lake.watermark import TableWatermark
from rmqcore.spark.runtime.versions import check_package
from rmqcore.spark.storage.locations import Paths

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class TableReport(ExportReport):
    """Files that a run added to a table: the attributes of `ExportReport` count only new messages.

    Attributes
    ----------
    format : {"parquet", "delta", "iceberg"}
    watermarks : dict of str to int
        By broker: the CommitLog offset up to which the table has the log.
    unfinished : list of str
        Brokers whose log ends in an incomplete record: a later run exports the record when it is whole.
    not_given : list of str
        Brokers that the table has, and whose stores were not passed to this run.
    """

    format: TableFormat
    watermarks: dict[str, int]
    unfinished: list[str]
    not_given: list[str]


def export_table(
    spark: SparkSession,
    path: Paths,
    out: str | os.PathLike[str],
    *,
    format: TableFormat = "parquet",  # noqa: A002 - as in Spark's own writers
    overwrite: bool = False,
    compression: Compression = "zstd",
    target_file_bytes: int = TARGET_FILE_BYTES,
    body: Literal["none"] | None = None,
    catalog: Catalog | None = None,
    identifier: str = ICEBERG_TABLE,
    **options: Any,
) -> TableReport:
    """Add the new messages of stores to a table, for example once per hour; the first run makes the table.

    The table keeps for each store the CommitLog offset up to which it has the log, and one commit adds rows and
    offsets: the table has each record once, also after killed runs. A run raises an error if another run holds the
    table. A record is exported when it is whole, as in a stream: bytes behind the last whole record of a log wait for a
    later run.

    Parameters
    ----------
    spark : SparkSession
    path : str, path-like or a list of them
        Stores. The table identifies them by their names (``name=path``), which must stay the same.
    out : str or path-like
        A folder that driver and workers share: a new or empty one, or that of the table.
    format : {"parquet", "delta", "iceberg"}
        ``parquet``: the folders of `export_parquet`. The others need the extras ``delta`` and ``iceberg``.
    overwrite : bool
        Begin anew: the rows of this run replace all rows of the table.
    compression : {"zstd", "snappy", "none"}
    target_file_bytes, body
        As in `export_parquet`.
    catalog : pyiceberg.catalog.Catalog, optional
        The catalog of an Iceberg table; by default an SQLite catalog of its own, ``out/_rmqcore/catalog.db``.
    identifier : str
        Namespace and name of an Iceberg table.
    **options
        Options of ``table=messages``, except those that set an end; options that decide on the rows must be the same in
        every run. ``maxRecordsPerTrigger`` and ``maxBytesPerTrigger`` limit a run, ``tailGuard`` decides where a log
        ends.

    Raises
    ------
    WatermarkError
        A store's log is not the one whose beginning the table has: it was cut, recovered or replaced; or the table has
        the store under another name. Or rows of the table were taken back (RESTORE, a rollback), and their watermarks
        are unknown.
    DataLossError
        The files behind a watermark were deleted, and failOnDataLoss is on.
    TargetNotEmptyError
        `out` holds files, and is not a table of this format made by `export_table`.
    StoreLockedError
        Another run, or a compaction, holds the table's lock.
    ValueError
        An option is wrong, or differs from the option that the table was made with; or a column of the table was
        renamed or dropped.
    SplitError, StoreError
        As in `export_parquet`. The table is unchanged.
    """
    began = time.monotonic()
    log = table_log(format, catalog, identifier)
    source = JobSource.open(path, options, spark=spark)
    check_table_options(source.options)
    columns = table_columns(source.options, body)
    check_compression(compression)
    check_target(target_file_bytes)
    settings = settings_of(source.options, columns)
    with TableFolder(
        out,
        job_name(source.options, columns, compression),
        stores=source.stores,
        overwrite=overwrite,
        log=log,
    ) as folder:
        before = _before(folder, format, settings, overwrite=overwrite)
        increments = plan_increments(source.stores, before.watermarks, source.options)
        work = FilesTask((), columns, compression, target_file_bytes, str(folder.job_folder), "")
        splits = [split for increment in increments for split in increment.plan.splits]
        exported = write_splits(spark, folder, splits, source.options, work)
        plans = [increment.plan for increment in increments]
        damage = damage_with_gaps(plans, exported, source.options)
        marks = _watermarks(increments, exported, before.watermarks)
        if folder.document is None or overwrite or marks != before.watermarks:
            document = replace(before, watermarks=marks)
            files = folder.commit_table(exported.files, document, replaces=overwrite)
        else:
            files = []
            folder.discard()
        given = {store.broker for store in source.stores}
        return TableReport(
            stores=[store.root for store in source.stores],
            out=str(folder.out),
            rows=exported.rows,
            stored_bytes=exported.stored_bytes,
            files=len(files),
            file_bytes=sum(file.byte_count for file in files),
            partitions=len({(file.topic, file.day) for file in files}),
            splits=len(splits),
            kept_splits=exported.kept_splits,
            damage=damage,
            seconds=time.monotonic() - began,
            format=format,
            watermarks={broker: mark.phy_offset for broker, mark in sorted(marks.items())},
            unfinished=[one.location.broker for one in increments if one.unfinished],
            not_given=sorted(marks.keys() - given),
        )


def table_log(
    format: TableFormat,  # noqa: A002
    catalog: Catalog | None = None,
    identifier: str = ICEBERG_TABLE,
) -> TableLog | None:
    """Return the log for a format; None for Parquet, whose tables have a manifest instead.

    Raises
    ------
    ValueError
        The format is unknown, or a catalog is given for a format other than Iceberg.
    SparkMissingError
        The package for the format is not installed.
    """
    if format not in get_args(TableFormat):
        raise ValueError(f"format {format!r}: expected one of {', '.join(get_args(TableFormat))}")
    if format != "iceberg" and (catalog is not None or identifier != ICEBERG_TABLE):
        raise ValueError(
            f"catalog and identifier are only for Iceberg tables, but format is {format}"
        )
    if format == "delta":
        check_package("deltalake", "delta")
        from rmqcore.spark.lake.delta_table import DeltaLog

        return DeltaLog()
    if format == "iceberg":
        check_package("pyiceberg", "iceberg")
        from rmqcore.spark.lake.iceberg_table import IcebergLog

        if not all(identifier.partition(".")):
            raise ValueError(f"identifier {identifier!r}: expected NAMESPACE.NAME")
        return IcebergLog(catalog, identifier)
    return None


def _before(
    folder: TableFolder,
    format: TableFormat,  # noqa: A002
    settings: dict[str, Any],
    *,
    overwrite: bool,
) -> TableDocument:
    """Return the document from which a run continues."""
    found = folder.document
    if found is None:
        return TableDocument(format, settings)
    if not overwrite:
        check_settings(found.settings, settings, str(folder.out))
        return found
    if format != "parquet" and found.settings["columns"] != settings["columns"]:
        raise ValueError(
            f"columns differ from those of the table at {folder.out}: choose a new directory"
        )
    return replace(found, settings=settings, watermarks={})


def _watermarks(
    increments: Sequence[Increment], exported: ExportedSplits, before: Marks
) -> dict[str, TableWatermark]:
    marks = dict(before)
    reports = iter(exported.divided)
    for increment in increments:
        own = [next(reports).report for _ in increment.plan.splits]
        broker = increment.location.broker
        marks[broker] = watermark_behind(increment, own, before.get(broker))
    return marks
