"""Export of whole stores to Parquet; the workers write the files, so no row is sent to Spark."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from rmqcore.errors.exit_codes import DAMAGED, OK
from rmqcore.offline.export.parquet_writer import Compression
from rmqcore.offline.export.partitions import partition_folder
from rmqcore.offline.log.damage import DamageRange
from rmqcore.shown.report import Report
from rmqcore.spark.jobs.export_files import (
    TARGET_FILE_BYTES,
    FilesTask,
    PartFile,
    WaitingRows,
    WrittenFiles,
    check_target,
    share_name,
    shares,
    write_files,
)
from rmqcore.spark.jobs.export_task import ROWS, ExportTask, SplitRows, export_split
from rmqcore.spark.jobs.job_source import JobSource, with_gaps
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.output.export_folder import ExportFolder
from rmqcore.spark.reading.read_split import check_damage
from rmqcore.spark.rows.columns import Column
from rmqcore.spark.rows.schema import columns_of
from rmqcore.spark.runtime.tasks import run_tasks
from rmqcore.spark.splits.planning import SplitPlan
from rmqcore.spark.splits.split import Split
from rmqcore.spark.splits.split_report import check_chain
from rmqcore.spark.storage.locations import Paths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONED_BY = ("topic", "store_timestamp")
_VERSION = 2


@dataclass(frozen=True)
class ExportReport(Report):
    """Files that an export wrote, and the damage that it met.

    Attributes
    ----------
    stores : list of str
        Where the stores lie.
    out : str
    rows, stored_bytes : int
        Messages written, and the bytes of their records in the store (0 without the column ``msg_size``).
    files, file_bytes, partitions : int
        Number of part files, their bytes, and the number of folders that hold them.
    splits, kept_splits : int
        Number of splits, and how many of them an earlier, interrupted run of the same export had finished.
    damage : list of (str, DamageRange)
        Broker and damaged range of the stores.
    seconds : float
        Wall time.
    """

    stores: list[str]
    out: str
    rows: int
    stored_bytes: int
    files: int
    file_bytes: int
    partitions: int
    splits: int
    kept_splits: int
    damage: list[tuple[str, DamageRange]]
    seconds: float

    @property
    def exit_code(self) -> int:
        """0, or 2 when a store is damaged."""
        return DAMAGED if self.damage else OK

    def as_dict(self) -> dict[str, Any]:
        """The attributes as plain JSON values, with a rate."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        damage = [{"broker": broker, **found.as_dict()} for broker, found in self.damage]
        rate = round(self.rows / max(self.seconds, 1e-9))
        return {
            **fields,
            "damage": damage,
            "seconds": round(self.seconds, 3),
            "rows_per_second": rate,
            "exit_code": self.exit_code,
        }


def export_parquet(
    spark: SparkSession,
    path: Paths,
    out: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    compression: Compression = "zstd",
    target_file_bytes: int = TARGET_FILE_BYTES,
    body: Literal["none"] | None = None,
    **options: Any,
) -> ExportReport:
    """Write the messages of stores into ``out/topic_dir=NAME/day=YYYY-MM-DD/part-NNNNN.parquet``.

    ``spark.read.parquet(out)`` reads it back: the columns of ``table=messages``, then ``topic_dir`` and ``day`` (UTC,
    of the store time) of the folders. The column ``topic`` has the true name, also where the folder's name had to be
    escaped. A small topic has one file per day. The files appear under these names when all are written; ``_SUCCESS``
    and ``_manifest.json`` follow. A killed export leaves its finished work below ``out/_temporary``; an export of the
    same stores with the same options continues from there.

    Parameters
    ----------
    spark : SparkSession
    path : str, path-like or a list of them
        Stores.
    out : str or path-like
        A new or empty folder that driver and workers share, or with `overwrite` the folder of an earlier export.
    overwrite : bool
    compression : {"zstd", "snappy", "none"}
    target_file_bytes : int
        A file ends when it reaches this size; further rows of its topic and day go to the next file. In a small export
        a quarter of this size is enough, so that more cores write.
    body : "none", optional
        Leave bodies out.
    **options
        Options of ``table=messages``: ``topics``, ``startingTimestamp``, ``columns``, ``maxPartitionBytes``, ...

    Raises
    ------
    TargetNotEmptyError
        `out` is not empty and `overwrite` is off.
    ValueError
        An option, `body` or `compression` is unknown or wrong, the columns lack topic or store_timestamp, or the target
        is below 64 KiB.
    NotAStoreError, FileNotFoundError
        A path does not lead to a store.
    SplitError
        The splits that were read do not fit together. Nothing was written to `out`.
    StoreError
        A task failed: a file cannot be read or written, the disk is full.
    """
    began = time.monotonic()
    source = JobSource.open(path, options, spark=spark)
    columns = table_columns(source.options, body)
    check_compression(compression)
    check_target(target_file_bytes)
    plans = source.plans()
    splits = [split for plan in plans for split in plan.splits]
    with ExportFolder(
        out,
        job_name(source.options, columns, compression),
        stores=source.stores,
        overwrite=overwrite,
    ) as folder:
        work = FilesTask((), columns, compression, target_file_bytes, str(folder.job_folder), "")
        exported = write_splits(spark, folder, splits, source.options, work)
        places = places_of(exported.files)
        report = ExportReport(
            stores=[plan.location.root for plan in plans],
            out=str(folder.out),
            rows=exported.rows,
            stored_bytes=exported.stored_bytes,
            files=len(places),
            file_bytes=sum(file.byte_count for _, file in exported.files),
            partitions=len({place.rpartition("/")[0] for _, place in places}),
            splits=len(splits),
            kept_splits=exported.kept_splits,
            damage=damage_with_gaps(plans, exported, source.options),
            seconds=time.monotonic() - began,
        )
        folder.commit(places, {"version": _VERSION, **_lasting(report)})
    return replace(report, seconds=time.monotonic() - began)


@dataclass(frozen=True)
class ExportedSplits:
    """The rows of splits, in Parquet files that wait below the job's folder.

    Attributes
    ----------
    splits : sequence of Split
    divided : list of SplitRows
        The rows that were read of each.
    files : list of (str, PartFile)
        The files, by topic, day and the order of the log, each with its folder below the job's.
    kept_splits : int
        How many splits an interrupted export had finished.
    """

    splits: Sequence[Split]
    divided: list[SplitRows]
    files: list[tuple[str, PartFile]]
    kept_splits: int

    @property
    def rows(self) -> int:
        """The number of messages."""
        return sum(rows.rows for rows in self.divided)

    @property
    def stored_bytes(self) -> int:
        """The bytes of their records in the store."""
        return sum(rows.stored_bytes for rows in self.divided)

    @property
    def damage(self) -> list[tuple[str, DamageRange]]:
        """The damage that tasks found, with the broker."""
        return [
            (split.broker, damage)
            for split, rows in zip(self.splits, self.divided, strict=True)
            for damage in rows.ranges
        ]


def write_splits(
    spark: SparkSession,
    folder: ExportFolder,
    splits: Sequence[Split],
    options: SourceOptions,
    task: FilesTask,
) -> ExportedSplits:
    """Have tasks write the rows of splits to Parquet files, except those that an interrupted export had finished.

    Parameters
    ----------
    spark : SparkSession
    folder : ExportFolder
        The folder that holds finished work until the commit.
    splits : sequence of Split
    options : SourceOptions
    task : FilesTask
        Columns, compression, size and folder of the files.

    Raises
    ------
    SplitError
        The splits that were read do not fit together.
    StoreError
        A task failed.
    """
    names = [_split_name(split) for split in splits]
    kept = {
        name: rows
        for split, name in zip(splits, names, strict=True)
        if not _may_grow(split) and (rows := SplitRows.read(folder.job_folder / name))
    }
    tasks = [
        ExportTask(split, task.columns, options, task.compression, task.job_folder, name)
        for split, name in zip(splits, names, strict=True)
        if name not in kept
    ]
    # To a task, a folder with its split's name is the work of a faster attempt of the same job.
    folder.make_room(one.name for one in tasks)
    done = {
        one.name: rows
        for one, rows in zip(tasks, run_tasks(spark, export_split, tasks), strict=True)
    }
    divided = [(kept | done)[name] for name in names]
    check_chain(splits, [rows.report for rows in divided])
    files = _write_files(spark, folder, names, divided, set(done), task)
    # These rows are Parquet now. The commit syncs all files in the folder; a file removed before need not reach the
    # disk.
    folder.drop(f"{name}/{ROWS}" for name in names)
    return ExportedSplits(splits, divided, files, len(kept))


def check_compression(compression: str) -> None:
    """Check the name of a compression.

    Raises
    ------
    ValueError
        The name is not that of a compression.
    """
    if compression not in get_args(Compression):
        raise ValueError(
            f"compression {compression!r}: expected one of {', '.join(get_args(Compression))}"
        )


def table_columns(options: SourceOptions, body: str | None) -> tuple[Column, ...]:
    """Return the columns of an export.

    Raises
    ------
    ValueError
        The columns by which rows are partitioned are missing, or `body` is neither None nor "none".
    """
    if body not in (None, "none"):
        raise ValueError(f"body {body!r}: Parquet holds bodies only as stored, or no bodies")
    columns = columns_of(options)
    names = {column.name for column in columns}
    lacking = [name for name in PARTITIONED_BY if name not in names]
    if lacking:
        raise ValueError(
            f"columns lack {' and '.join(lacking)}, by which the export is partitioned"
        )
    return tuple(column for column in columns if body is None or column.name != "body")


def job_name(options: SourceOptions, columns: Sequence[Column], compression: str) -> str:
    """Name the job by its options, columns and compression; the stores are in the names of the splits."""
    # `storage` is not in the repr: its secrets do not change the export.
    said = [repr(options), repr(columns), compression, str(_VERSION)]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:16]


def _split_name(split: Split) -> str:
    """Name a split by its file and range; the name changes when the file is changed."""
    file = split.file
    try:
        changed = os.stat(file.path).st_mtime_ns
    except OSError:  # the file is on another filesystem, or deleted
        changed = 0
    said = [
        split.broker,
        file.location,
        file.size,
        changed,
        split.start,
        split.end,
        split.aligned,
        split.max_record_size,
        split.shape.file_size,
        _may_grow(split),
        split.cuts,
        split.last_end,
        split.walk_to_start,
    ]
    return "split-" + hashlib.sha256(repr(said).encode()).hexdigest()[:24]


def _may_grow(split: Split) -> bool:
    """Return True if the split's file is the newest, to which a broker may have appended since."""
    return split.file.file_from_offset >= split.shape.tail_from


def _write_files(
    spark: SparkSession,
    folder: ExportFolder,
    names: Sequence[str],
    divided: Sequence[SplitRows],
    fresh: set[str],
    task: FilesTask,
) -> list[tuple[str, PartFile]]:
    """Have tasks make Parquet of the rows of all splits; return each file with its folder below the job's."""
    job = folder.job_folder
    work = plan_files(
        [(str(job / name / ROWS), rows) for name, rows in zip(names, divided, strict=True)], task
    )
    kept = {}
    for one in work:
        is_old = all(Path(piece.path).parent.name not in fresh for piece in one.pieces)
        found = WrittenFiles.read(job / one.name) if is_old else None
        if found is not None:
            kept[one.name] = found
    tasks = [one for one in work if one.name not in kept]
    folder.make_room(one.name for one in tasks)
    done = {
        one.name: files
        for one, files in zip(tasks, run_tasks(spark, write_files, tasks), strict=True)
    }
    return [(one.name, file) for one in work for file in (kept | done)[one.name].files]


def plan_files(divided: Sequence[tuple[str, SplitRows]], task: FilesTask) -> list[FilesTask]:
    """Return the tasks that make Parquet of divided rows.

    Parameters
    ----------
    divided : sequence of (str, SplitRows)
        The file of each split's rows, in the order of the log.
    task : FilesTask
        Columns, compression, size and folder that all the tasks share.
    """
    byte_count = sum(rows.file_bytes for _, rows in divided)
    measured = sum(rows.file_bytes / rows.ratio for _, rows in divided if rows.ratio)
    pieces = (
        WaitingRows(run.topic, run.day, path, run.pos, run.byte_count)
        for path, rows in divided
        for run in rows.runs
    )
    found = shares(pieces, task.target_bytes, byte_count / measured if measured else 1.0)
    return [
        replace(task, pieces=share, name=share_name(share, task.target_bytes)) for share in found
    ]


def places_of(written: Sequence[tuple[str, PartFile]]) -> list[tuple[str, str]]:
    """Return each file's path in the job's folder and its place, numbered by topic, day and the order of the log."""
    return [
        (
            f"{name}/{file.name}",
            f"{partition_folder(*file.partition)}/part-{number:05}.parquet",
        )
        for number, (name, file) in enumerate(written)
    ]


def damage_with_gaps(
    plans: Sequence[SplitPlan], exported: ExportedSplits, options: SourceOptions
) -> list[tuple[str, DamageRange]]:
    """Return the damage that tasks and plans found, with the broker.

    Raises
    ------
    CorruptMessageError, DataLossError
        The options make an export fail for what a plan found.
    """
    for plan in plans:
        for gap in plan.gaps:
            check_damage(gap, plan.location.broker, options)
    return with_gaps(plans, exported.damage)


def _lasting(report: ExportReport) -> dict[str, Any]:
    """Return the fields for the manifest that are the same in every run of the same export."""
    fields = report.as_dict()
    for name in ("seconds", "rows_per_second", "kept_splits", "out", "exit_code"):
        del fields[name]
    return fields
