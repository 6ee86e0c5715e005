"""Small files of a table of Parquet files, rewritten as larger ones: the same rows, in the same order."""

from __future__ import annotations

import errno
import hashlib
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rmqcore.errors import StoreError, TargetNotEmptyError
from rmqcore.offline.export.parquet_writer import Compression
from rmqcore.offline.export.part_files import Partition
from rmqcore.shown.report import Report
from rmqcore.spark.jobs.export import check_compression
from rmqcore.spark.jobs.export_files import (
    TARGET_FILE_BYTES,
    FilesTask,
    PartFile,
    WaitingRows,
    WrittenFiles,
    check_target,
    share_name,
    write_files,
)
from rmqcore.spark.lake.document import TableDocument
from rmqcore.spark.lake.manifest import read_manifest
from rmqcore.spark.lake.table_folder import TableFolder
from rmqcore.spark.lake.table_log import TableFile
from rmqcore.spark.output.export_folder import TABLE
from rmqcore.spark.output.job_folder import local_folder
from rmqcore.spark.rows.schema import columns_named
from rmqcore.spark.runtime.tasks import run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_TARGETS = 4
"""A task rewrites at most this many target sizes of a partition's files; the rest of a larger run is another task's."""

Group = tuple[TableFile, ...]
"""Small consecutive files of one partition, to be rewritten as larger files."""


@dataclass(frozen=True)
class CompactReport(Report):
    """Files rewritten by a compaction.

    Attributes
    ----------
    out : str
    files_before, files_after : int
        Number of part files of the table.
    rewritten, written : int
        Number of files that were rewritten, and of the files that replace them.
    rows, rewritten_bytes, written_bytes : int
        Messages in the rewritten files, and the bytes of the files before and after.
    seconds : float
        Wall time.
    """

    out: str
    files_before: int
    files_after: int
    rewritten: int
    written: int
    rows: int
    rewritten_bytes: int
    written_bytes: int
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """The attributes as plain JSON values."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**fields, "seconds": round(self.seconds, 3)}


def compact(
    spark: SparkSession,
    out: str | os.PathLike[str],
    *,
    target_file_bytes: int = TARGET_FILE_BYTES,
    compression: Compression = "zstd",
) -> CompactReport:
    """Rewrite the small files of a table of Parquet files that `export_table` makes.

    Consecutive files of a topic and day that are smaller than half of the target become files of the target size; all
    others are left alone. The table has the same rows in the same order, if it is read in the order of the files'
    names.

    A reader that uses the manifest's list of files (`table_files`) sees each row once at any time, also after a kill:
    it reads the manifest again if a file of an older list is gone. A reader that lists the folders may see rows twice
    while files are exchanged; ``_SUCCESS`` is missing during that time.

    Parameters
    ----------
    spark : SparkSession
    out : str or path-like
        The folder of the table.
    target_file_bytes : int
    compression : {"zstd", "snappy", "none"}

    Raises
    ------
    FileNotFoundError
        `out` does not exist.
    TargetNotEmptyError
        `out` is not a table of Parquet files made by `export_table`. Delta and Iceberg have compactions of their own,
        which keep the watermark.
    StoreLockedError
        A run of `export_table`, or another compaction, holds the folder's lock.
    StoreError
        A task failed, or did not write the rows that it was given. The table is unchanged.
    """
    began = time.monotonic()
    check_target(target_file_bytes)
    check_compression(compression)
    if not local_folder(out).is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder", os.fspath(out))
    if (local_folder(out) / TABLE).is_dir():
        raise TargetNotEmptyError(
            f"{out} holds a Delta or Iceberg table: use DeltaTable(...).optimize.compact(), or rewrite_data_files of Iceberg"
        )
    with TableFolder(out, _job_name(target_file_bytes, compression), stores=[]) as folder:
        document, files = read_manifest(folder.inside)
        if document is None:
            raise TargetNotEmptyError(
                f"{folder.out} is not a table of export_table: nothing was changed"
            )
        groups = small_groups(files, target_file_bytes)
        columns = columns_named(document.settings["columns"])
        task = FilesTask((), columns, compression, target_file_bytes, str(folder.job_folder), "")
        pairs = _rewrite(spark, folder, groups, task)
        fresh = _commit(folder, document, files, pairs) if pairs else []
        if not pairs:
            folder.discard()
    old = [file for group, _ in pairs for file in group]
    return CompactReport(
        out=str(folder.out),
        files_before=len(files),
        files_after=len(files) - len(old) + len(fresh),
        rewritten=len(old),
        written=len(fresh),
        rows=sum(file.rows for file in old),
        rewritten_bytes=sum(file.byte_count for file in old),
        written_bytes=sum(file.byte_count for file in fresh),
        seconds=time.monotonic() - began,
    )


def small_groups(files: Iterable[TableFile], target_bytes: int) -> list[Group]:
    """Return the files to rewrite, in groups; each group becomes one or more new files."""
    groups: list[Group] = []
    by_partition = groupby(sorted(files, key=_order), key=lambda file: (file.topic, file.day))
    for _, of_partition in by_partition:
        for is_small, run in groupby(
            of_partition, key=lambda file: file.byte_count < target_bytes // 2
        ):
            if is_small:
                groups += _cut(list(run), MOST_TARGETS * target_bytes)
    return groups


def _order(file: TableFile) -> tuple[str, int, list[int]]:
    """Return the sort key of a file: topic, day and the numbers in its name, which ascend in the order of the log."""
    name = file.place.rpartition("/")[2].removesuffix(".parquet")
    return file.topic, file.day, [int(number) for number in name.split("-")[1:]]


def _cut(run: Sequence[TableFile], most_bytes: int) -> list[Group]:
    found: list[list[TableFile]] = [[]]
    for file in run:
        if found[-1] and sum(one.byte_count for one in found[-1]) + file.byte_count > most_bytes:
            found.append([])
        found[-1].append(file)
    return [tuple(group) for group in found if len(group) > 1]


def _job_name(target_bytes: int, compression: str) -> str:
    said = f"compact {target_bytes} {compression}"
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def _rewrite(
    spark: SparkSession, folder: TableFolder, groups: Sequence[Group], task: FilesTask
) -> list[tuple[Group, list[tuple[str, PartFile]]]]:
    """Have tasks rewrite the groups; return each group with its new files and their folder below the job's."""
    shares = _shares(groups, task.target_bytes)
    tasks = []
    for share in shares:
        pieces = tuple(
            WaitingRows(file.topic, file.day, str(folder.out / file.place), None, file.byte_count)
            for group in share
            for file in group
        )
        tasks.append(replace(task, pieces=pieces, name=share_name(pieces, task.target_bytes)))
    kept = {
        one.name: found
        for one in tasks
        if (found := WrittenFiles.read(folder.job_folder / one.name)) is not None
    }
    fresh = [one for one in tasks if one.name not in kept]
    folder.make_room(one.name for one in fresh)
    done = {
        one.name: found
        for one, found in zip(fresh, run_tasks(spark, write_files, fresh), strict=True)
    }
    pairs = []
    for share, one in zip(shares, tasks, strict=True):
        by_partition: dict[Partition, list[tuple[str, PartFile]]] = defaultdict(list)
        for file in (kept | done)[one.name].files:
            by_partition[file.partition].append((one.name, file))
        pairs += [(group, by_partition[group[0].topic, group[0].day]) for group in share]
    for group, written in pairs:
        _check_rows(group, [file for _, file in written])
    return pairs


def _shares(groups: Sequence[Group], target_bytes: int) -> list[list[Group]]:
    """Divide groups among tasks: about the target size for each task, no partition twice in a task."""
    shares: list[list[Group]] = [[]]
    room = target_bytes
    before: Partition | None = None
    for group in groups:
        partition = (group[0].topic, group[0].day)
        byte_count = sum(file.byte_count for file in group)
        if shares[-1] and (partition == before or byte_count > room):
            shares.append([])
            room = target_bytes
        shares[-1].append(group)
        room -= byte_count
        before = partition
    return [share for share in shares if share]


def _check_rows(group: Group, written: Sequence[PartFile]) -> None:
    wanted, found = sum(file.rows for file in group), sum(file.rows for file in written)
    if wanted != found:
        raise StoreError(
            f"{group[0].place} and {len(group) - 1} more files have {found} rows, but {wanted} "
            "according to the manifest: nothing was changed"
        )


def _commit(
    folder: TableFolder,
    document: TableDocument,
    files: Sequence[TableFile],
    pairs: Sequence[tuple[Group, list[tuple[str, PartFile]]]],
) -> list[TableFile]:
    """Exchange files. A new name has the number of the first old file, then a number of its own: the order stays."""
    added, moves = [], []
    for group, written in pairs:
        above, _, first = group[0].place.rpartition("/")
        number = first.removesuffix(".parquet").split("-")[1]
        for index, (task, file) in enumerate(written):
            place = f"{above}/part-{number}-{document.commit:05}{index:05}.parquet"
            added.append(TableFile.of(place, file))
            moves.append((f"{task}/{file.name}", place))
    gone = {file.place for group, _ in pairs for file in group}
    rest = [file for file in files if file.place not in gone]
    folder.exchange(sorted(gone), moves, document.after(0), sorted([*rest, *added], key=_order))
    return added
