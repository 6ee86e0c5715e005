"""Index files made anew from the CommitLog by the workers of a Spark application.

1. A task for each split counts its keys.
2. The sums of these counts give the part of the log that each file covers; a task for each part builds its files.
3. The driver names the files and moves all of them to their place at once.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmqcore.config import MessageStoreConfig
from rmqcore.engine.index.index_file import next_name
from rmqcore.errors import StoreError
from rmqcore.maintenance.rebuild.report import RebuildReport
from rmqcore.spark.output.part_output import PartOutput, StagedFile
from rmqcore.spark.rebuild.index_build import BuiltIndexFile, IndexBuild
from rmqcore.spark.rebuild.index_plan import KeyReport, count_keys, plan_index
from rmqcore.spark.rebuild.runner import Runner, SparkRunner
from rmqcore.spark.rebuild.source import (
    RebuildSource,
    all_damage,
    log_facts,
    open_ends,
    pin_end,
    pin_start,
)
from rmqcore.spark.splits.split_report import check_chain
from rmqcore.vocabulary.clock import wall_clock_ms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PART = "index"


def rebuild_index(
    spark: SparkSession,
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    config: MessageStoreConfig | str | os.PathLike[str] | None = None,
    *,
    overwrite: bool = False,
    **options: Any,
) -> RebuildReport:
    """Build ``out/index/NAME`` of a store, with the same bytes as `rmqcore rebuild`.

    Parameters
    ----------
    spark : SparkSession
    path, out, overwrite, **options
        As `rebuild_consume_queues`, whose `out` may be the same folder.
    config : MessageStoreConfig or path of a broker.conf, optional
        max_hash_slot_num and max_index_num, used if the store has no index files (or is not on a local disk).

    Returns
    -------
    RebuildReport

    Raises
    ------
    TargetNotEmptyError
        `out` holds files that Spark's rebuild did not make.
    ValueError, NotAStoreError
        A wrong option, or `path` is not one store.
    StoreError
        The store changed while it was read, or its splits do not fit together. Nothing was written to `out`.

    Notes
    -----
    **Names.** A broker names an index file by the time at which it makes it. Here it is the store time of the file's first
    message, in local time as with a broker, so that another run makes the same names; each name sorts behind that of
    the file
    before.

    **Memory.** A file is written through a mapping: at Java's default sizes a task takes 420 MB of address space and page
    cache, and pages that are not written yet cannot be freed. ``spark.executor.pyspark.memory``, if set, bounds the
    address space of a worker: set at least 1 GiB per core. A container's limit counts these pages too, but the kernel
    writes and frees them before it kills a process.
    """
    source = RebuildSource.open(path, config, options, spark=spark)
    return build_index(SparkRunner(spark, 1), source, out, overwrite=overwrite)


def build_index(
    runner: Runner, source: RebuildSource, out: str | os.PathLike[str], *, overwrite: bool = False
) -> RebuildReport:
    """Do the work of `rebuild_index` with any runner of tasks."""
    began = time.perf_counter()
    with PartOutput(out, PART, store=source.location, overwrite=overwrite) as output:
        reports, built = _build(runner, source, output.job_folder)
        files = name_files(built)
        splits = [report.split for report in reports]
        facts = _facts(source) | log_facts(source.splits, splits)
        output.commit(files, facts)
    return RebuildReport(
        path=source.location.root,
        out=os.fspath(output.out),
        parts=(PART,),
        records=sum(report.records for report in splits),
        record_bytes=sum(report.record_bytes for report in splits),
        queues=0,
        queue_files=0,
        queue_entries=0,
        filled_entries=0,
        ignored_records=0,
        index_files=len(files),
        index_entries=sum(file.rows for file in files.values()),
        damage=all_damage(source.gaps, splits),
        seconds=time.perf_counter() - began,
    )


def _build(
    runner: Runner, source: RebuildSource, job_folder: Path
) -> tuple[list[KeyReport], list[BuiltIndexFile]]:
    slot_count, capacity = source.config.max_hash_slot_num, source.config.max_index_num
    splits = list(source.splits)
    reports = runner.tasks(count_keys, splits)
    counted = [report.split for report in reports]
    check_chain(splits, counted)
    for number in open_ends(splits):
        splits[number] = pin_end(splits[number], counted[number].end_phy_offset)
    splits = list(map(pin_start, splits, counted))
    tasks = plan_index(splits, reports, capacity - 1)
    built = [
        file
        for files in runner.tasks(IndexBuild(job_folder, slot_count, capacity), tasks)
        for file in files
    ]
    keys = sum(report.keys for report in reports)
    if sum(file.file.rows for file in built) != keys:
        raise StoreError(
            f"{source.location.root} changed while it was read: the number of keys was {keys} at "
            "first"
        )
    return reports, built


def name_files(built: list[BuiltIndexFile]) -> dict[str, StagedFile]:
    """Name files by the times of their first messages; an impossible time is replaced by the present one."""
    files: dict[str, StagedFile] = {}
    name: str | None = None
    now_ms = wall_clock_ms()
    for file in built:
        name = next_name(min(max(file.begin_timestamp_ms, 0), now_ms), name)
        files[name] = file.file
    return files


def _facts(source: RebuildSource) -> dict[str, Any]:
    return {
        "broker": source.location.broker,
        "max_hash_slot_num": source.config.max_hash_slot_num,
        "max_index_num": source.config.max_index_num,
    }
