"""Two stores held against each other, as a master and its slave."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rmqcore.offline.files import LogFile, LogShape
from rmqcore.spark.compare_bytes import differing_pieces, differing_units, joined
from rmqcore.spark.compare_plan import Side, bytes_tasks, minus, open_ended, units_tasks
from rmqcore.spark.compare_units import FileUnits
from rmqcore.spark.job_splits import JobSource
from rmqcore.spark.jobs import run_tasks
from rmqcore.spark.locations import StoreLocation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "start_phy_offset bigint, end_phy_offset bigint, kind string, left_path string, right_path string"


@dataclass(frozen=True)
class Difference:
    """A range in which two stores differ.

    Attributes
    ----------
    start_phy_offset, end_phy_offset : int
        CommitLog offsets, the end exclusive.
    kind : str
        ``missing_left``, ``missing_right``: one side has nothing there. ``different``: sound records, but not the same.
        ``damaged_left``, ``damaged_right``, ``damaged_both``: not the same, and no sound records on that side.
    left_path, right_path : str or None
        The file with the start of the range, on the sides that have it.
    """

    start_phy_offset: int
    end_phy_offset: int
    kind: str
    left_path: str | None
    right_path: str | None

    def as_dict(self) -> dict[str, Any]:
        """The attributes by name."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True)
class CompareReport:
    """How two stores differ.

    Attributes
    ----------
    left, right : str
        Where they lie.
    compared_bytes : int
        Bytes that both have.
    differences : list of Difference
        By offset.
    seconds : float
        Wall time.
    """

    left: str
    right: str
    compared_bytes: int
    differences: list[Difference]
    seconds: float

    @property
    def exit_code(self) -> int:
        """0, or 2 when they differ."""
        return 2 if self.differences else 0

    def as_dict(self) -> dict[str, Any]:
        """The attributes as plain JSON values, with a rate."""
        return {
            "left": self.left,
            "right": self.right,
            "compared_bytes": self.compared_bytes,
            "differences": [one.as_dict() for one in self.differences],
            "seconds": round(self.seconds, 3),
            "bytes_per_second": round(self.compared_bytes / max(self.seconds, 1e-9)),
            "exit_code": self.exit_code,
        }


def compare(
    spark: SparkSession,
    left: str | os.PathLike[str],
    right: str | os.PathLike[str],
    **options: Any,
) -> DataFrame:
    """Give the ranges in which two stores differ, one a row; see `run_compare`.

    Runs at once. The columns are those of `Difference`; stores that are equal give no row.
    """
    report = run_compare(spark, left, right, **options)
    rows = [tuple(one.as_dict().values()) for one in report.differences]
    return spark.createDataFrame(rows, SCHEMA)


def run_compare(
    spark: SparkSession,
    left: str | os.PathLike[str],
    right: str | os.PathLike[str],
    **options: Any,
) -> CompareReport:
    """Compare the CommitLogs of two stores, byte by byte at the same offsets.

    A range that differs goes from the first to the last of the records in it, or of what is damage, on both sides. What a BLANK
    leaves at the end of a file, and room behind the log's end, are no differences. Files may be of different sizes, and a
    store may begin or end before the other.

    Parameters
    ----------
    spark : SparkSession
    left, right : str or path-like
        One store each.
    **options
        ``maxPartitionBytes`` and ``storage.*``.

    Raises
    ------
    ValueError
        A wrong option, or a path that stands for several stores.
    NotAStoreError, FileNotFoundError
        A path that is no store.
    StoreError
        A task failed.
    """
    began = time.monotonic()
    stores = [_one_store(path, options) for path in (left, right)]
    most_bytes = JobSource.open(left, options, "corrupt").options.max_partition_bytes
    sides = _sides(spark, stores)
    tasks = bytes_tasks(*sides, most_bytes)
    pieces = zip(tasks, run_tasks(spark, differing_pieces, tasks), strict=True)
    doubtful = units_tasks(*sides, [(task, found) for task, found in pieces if found])
    found = [one for part in run_tasks(spark, differing_units, doubtful) for one in part]
    ranges = [side.ranges() for side in sides]
    found += [(*one, "missing_right") for one in minus(*ranges)]
    found += [(*one, "missing_left") for one in minus(*reversed(ranges))]
    return CompareReport(
        left=stores[0].root,
        right=stores[1].root,
        compared_bytes=sum(task.end - task.start for task in tasks),
        differences=[_difference(one, sides) for one in joined(found)],
        seconds=time.monotonic() - began,
    )


def _one_store(path: str | os.PathLike[str], options: dict[str, Any]) -> StoreLocation:
    stores = JobSource.open(path, options, "corrupt").stores
    if len(stores) != 1:
        names = ", ".join(store.broker for store in stores)
        raise ValueError(f"{os.fspath(path)} stands for {len(stores)} stores ({names}): give one")
    return stores[0]


def _sides(spark: SparkSession, stores: list[StoreLocation]) -> tuple[Side, Side]:
    """The files of both, and where their logs end: that takes a walk over the newest file of each."""
    files = [store.log_files() for store in stores]
    walked = [open_ended(of_store) for of_store in files]
    found = iter(run_tasks(spark, content_end, [one for of_store in walked for one in of_store]))
    left, right = (
        Side.of(of_store, {file.file_from_offset: next(found) for file, _ in of_walked})
        for of_store, of_walked in zip(files, walked, strict=True)
    )
    return left, right


def content_end(tail: tuple[LogFile, LogShape]) -> int:
    """Where what a file holds ends."""
    return FileUnits.of(*tail).end_phy_offset


def _difference(found: tuple[int, int, str], sides: tuple[Side, Side]) -> Difference:
    start, end, kind = found
    paths = [
        None if kind == lacks else side.file_at(start).name
        for side, lacks in zip(sides, ("missing_left", "missing_right"), strict=True)
    ]
    return Difference(start, end, kind, paths[0], paths[1])
