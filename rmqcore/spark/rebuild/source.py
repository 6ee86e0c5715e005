"""The store that a rebuild reads: its splits, and the combined reports of the tasks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rmqcore.config import MessageStoreConfig
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.topics_file import TOPICS_FILE, configured_batch_topics
from rmqcore.maintenance.guard.missing_log import check_log_is_there
from rmqcore.offline.found_config import found_config
from rmqcore.offline.log.damage import DamageRange
from rmqcore.spark.jobs.job_source import JobSource
from rmqcore.spark.splits.planning import plan_store
from rmqcore.spark.splits.split import Split
from rmqcore.spark.splits.split_report import SplitReport
from rmqcore.spark.storage.locations import StoreLocation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CUTS = {
    name.lower(): name
    for name in ("maxPartitionBytes", "minPartitions", "parallelism", "splitMode", "maxRecordSize")
}


@dataclass(frozen=True)
class RebuildSource:
    """The store that a rebuild reads, cut into splits in the order of the log.

    Attributes
    ----------
    location : StoreLocation
    config : MessageStoreConfig
        With the file sizes of the store.
    splits : tuple of Split
    gaps : tuple of DamageRange
        Missing bytes between files.
    batch_topics : frozenset of str
        The result of `rmqcore.disk.queue_files.batch_topics`.
    """

    location: StoreLocation
    config: MessageStoreConfig
    splits: tuple[Split, ...]
    gaps: tuple[DamageRange, ...]
    batch_topics: frozenset[str] = frozenset()

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        config: MessageStoreConfig | str | os.PathLike[str] | None = None,
        options: Mapping[str, Any] | None = None,
        *,
        spark: SparkSession | None = None,
    ) -> RebuildSource:
        """Plan the rebuild of one store.

        Parameters
        ----------
        path : str or path-like
        config : MessageStoreConfig or path of a broker.conf, optional
        options : mapping, optional
            Options of the data source for cutting files and for their filesystem.
        spark : SparkSession, optional
            As in `JobSource.open`.

        Raises
        ------
        ValueError
            `path` names several stores, an option is wrong, or `config` has a CommitLog in several directories.
        NotAStoreError
            `path` does not lead to a store.
        CommitLogMissingError
            The CommitLog has no files, but queues, index or checkpoint refer to messages.
        """
        given = dict(options or {})
        for name in given:
            if name.lower() not in CUTS and not name.lower().startswith("storage."):
                known = ", ".join(CUTS.values())
                raise ValueError(
                    f"option {name}: a rebuild reads the whole store, and only accepts {known} and "
                    "storage.*"
                )
        job = JobSource.open(path, given, "corrupt", spark=spark)
        if len(job.stores) != 1:
            names = ", ".join(store.broker for store in job.stores)
            raise ValueError(f"expected one store to rebuild, got {len(job.stores)}: {names}")
        location = job.stores[0]
        if config is None:
            config = MessageStoreConfig()
        elif not isinstance(config, MessageStoreConfig):
            config = MessageStoreConfig.from_broker_conf(config)
        _check_one_directory(config)
        if location.is_local:
            config = found_config(location.paths, config)
        if not location.log_files():
            with location.local_copy("consumequeue", "index", "checkpoint") as paths:
                check_log_is_there(paths)
        # Not pinned here: the tasks that walk the newest file find its end (`pin_end`).
        plan = plan_store(location, job.options.sizing())
        return cls(location, config, tuple(plan.splits), tuple(plan.gaps), _batch_topics(location))


def _check_one_directory(config: MessageStoreConfig) -> None:
    """Refuse a CommitLog in several directories: a rebuild would read only one of them."""
    log, read_only = config.store_path_commit_log, config.read_only_commit_log_store_paths
    if len(StorePaths.configured("/", log, read_only).commitlogs) > 1:
        raise ValueError(
            f"the CommitLog is in several directories ({log}; read-only: {read_only}), but Spark "
            "reads only one: use `rmqcore rebuild`, which reads all"
        )


def _batch_topics(location: StoreLocation) -> frozenset[str]:
    """Return the result of `rmqcore.disk.queue_files.batch_topics` for a store on any filesystem."""
    batch, simple = (
        {name for name, is_directory in location.names(part).items() if is_directory}
        for part in ("batchconsumequeue", "consumequeue")
    )
    with location.local_copy(TOPICS_FILE) as paths:
        batch |= configured_batch_topics(paths)
    return frozenset(batch - simple)


def all_damage(gaps: Sequence[DamageRange], reports: Sequence[SplitReport]) -> list[DamageRange]:
    """Return the damage of the whole log, in the order of its bytes."""
    found = [*gaps, *(damage for report in reports for damage in report.damage)]
    return sorted(found, key=lambda damage: damage.start_phy_offset)


def open_ends(splits: Sequence[Split]) -> list[int]:
    """Return the numbers of splits that end with the log: on a live store each reading of them can find more records."""
    return [
        number
        for number, split in enumerate(splits)
        if split.end is None and split.file.file_from_offset >= split.shape.tail_from
    ]


def pin_end(split: Split, end: int) -> Split:
    """Set a split's end to the one that a task has found, so that every later task reads the same bytes."""
    end = max(end, split.start)
    return replace(split, end=end, cuts=1, check_end=False, must_reach=True)


def pin_start(split: Split, report: SplitReport) -> Split:
    """Set a split's start and end to those that a task has found, after `check_chain` has passed."""
    start = report.start_phy_offset
    if start is None:
        return split
    end = split.end if split.cuts == 1 else report.read_to
    return replace(split, start=start, end=end, aligned=True, cuts=1, check_end=False)


def log_facts(splits: Sequence[Split], reports: Sequence[SplitReport]) -> dict[str, Any]:
    """Return the range of the log that was read, and the totals of its records and damage."""
    return {
        "start_phy_offset": splits[0].start if splits else 0,
        "end_phy_offset": max((report.end_phy_offset for report in reports), default=0),
        "records": sum(report.records for report in reports),
        "damaged_ranges": sum(len(report.damage) for report in reports),
    }
