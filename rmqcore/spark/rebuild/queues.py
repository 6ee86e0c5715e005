"""Consume queues made anew from the CommitLog by the workers of a Spark application.

1. A task for each split scans its records and yields the entries of each queue, as blobs.
2. Spark sorts the blobs by queue and file; a task builds some files, each by itself.
3. Queues whose offsets have repeats or gaps are built again, each by one task that plays back the whole queue.
4. The driver checks that the splits were read without a hole between them, and moves all files to their place at once.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmqcore._native.format.layout import CQ_STORE_UNIT_SIZE, REC_MIN_SIZE_V1
from rmqcore._native.queues.queue_table import is_directory_name
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.inside.folder import Folder
from rmqcore.disk.misnamed import Misnamed
from rmqcore.disk.paths import StorePaths, is_utf8, parse_queue_id
from rmqcore.disk.set_aside import SetAside
from rmqcore.errors import StoreError
from rmqcore.maintenance.guard.idle_queues import expired_end, write_end
from rmqcore.maintenance.guard.misnamed import led_to, misnamed_entries, misnamed_in
from rmqcore.maintenance.rebuild.queue_builder import MOST_LISTED
from rmqcore.maintenance.rebuild.report import RebuildReport
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.queues.queues import QueueFiles
from rmqcore.spark.output.attempt import Attempt
from rmqcore.spark.output.part_output import PartOutput, StagedFile
from rmqcore.spark.reading.settle import settle
from rmqcore.spark.reading.split_scan import SplitScan
from rmqcore.spark.rebuild.queue_map import QueueMap
from rmqcore.spark.rebuild.queue_pieces import ITEM
from rmqcore.spark.rebuild.queue_reduce import (
    FilePart,
    FileReduce,
    PlayedQueue,
    QueueReplay,
    describe,
    is_whole,
)
from rmqcore.spark.rebuild.runner import Reducer, Runner, SparkRunner
from rmqcore.spark.rebuild.source import (
    RebuildSource,
    all_damage,
    log_facts,
    open_ends,
    pin_end,
    pin_start,
)
from rmqcore.spark.splits.split import Split
from rmqcore.spark.splits.split_report import SplitReport, check_chain
from rmqcore.spark.storage.store_location import StoreLocation
from rmqcore.vocabulary.topics import QueueKey

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PART = "consumequeue"
REDUCE_BYTES = 256 << 20
ITEM_SHARE = ITEM.itemsize / REC_MIN_SIZE_V1
"""The most bytes that are shuffled for each byte of the log: if every record has the smallest size and an item."""


def rebuild_consume_queues(
    spark: SparkSession,
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    config: MessageStoreConfig | str | os.PathLike[str] | None = None,
    *,
    overwrite: bool = False,
    **options: Any,
) -> RebuildReport:
    """Build ``out/consumequeue/TOPIC/QUEUE/FILE`` of a store, with the same bytes as `rmqcore rebuild`.

    Parameters
    ----------
    spark : SparkSession
    path : str or path-like
        One store; it may be in use or broken, and is only read.
    out : str or path-like
        A folder that driver and workers have mounted at the same place: new, empty, or made by earlier rebuilds of this store
        by Spark; then its queues are replaced.
    config : MessageStoreConfig or path of a broker.conf, optional
        Delay levels, and the file size, used if the store has no queue files (or is not on a local disk).
    overwrite : bool
        Replace ``out/consumequeue`` also if another program has made it.
    **options
        Of the data source: ``maxPartitionBytes``, ``minPartitions``, ``parallelism``, ``splitMode``, ``maxRecordSize``,
        ``storage.*``.

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
    **Durability.** The folder appears when all of its files are on disk; ``manifest.json`` and ``_SUCCESS`` beside it
    follow. A killed job leaves only ``_temporary``, which the next job removes.

    **Memory.** A task holds at most 64 MiB of entries and 32 MiB of a batch, a reducer one queue file (6 MB) and a batch of 32
    blobs of 0.9 MiB.
    """
    source = RebuildSource.open(path, config, options, spark=spark)
    at_once = int(spark.conf.get("spark.sql.shuffle.partitions") or 200)
    runner = SparkRunner(spark, reduce_tasks(source.splits, at_once))
    return build_queues(runner, source, out, overwrite=overwrite)


def build_queues(
    runner: Runner, source: RebuildSource, out: str | os.PathLike[str], *, overwrite: bool = False
) -> RebuildReport:
    """Do the work of `rebuild_consume_queues` with any runner of tasks."""
    began = time.perf_counter()
    with PartOutput(out, PART, store=source.location, overwrite=overwrite) as output:
        job = _QueueJob(runner, source, output.job_folder)
        job.run()
        output.commit(job.files, job.facts())
        report = job.report(os.fspath(output.out))
    misnamed = _misnamed(
        source.location, StorePaths(output.out), report.damage, source.batch_topics
    )
    return replace(report, misnamed=misnamed, seconds=time.perf_counter() - began)


def _misnamed(
    location: StoreLocation,
    new: StorePaths,
    damage: list[DamageRange],
    batch_topics: Collection[str],
) -> list[Misnamed]:
    """Return the result of `misnamed_entries` for a store on any filesystem."""

    def entry_of(place: QueueKey, queue_offset: int) -> int:
        if place[1] < 0 or queue_offset < 0 or not is_directory_name(place[0]):
            return -1
        with location.local_queues(place) as queues:
            return led_to(next(queues), queue_offset)

    if location.is_local:
        return misnamed_entries(location.paths, new, damage)
    places = [place for place in location.queue_names() if place[0] not in batch_topics]
    with location.local_queues(*places) as queues:
        return misnamed_in(queues, location.log_files(), new, damage, entry_of)


class _QueueJob:
    """One run, on the driver."""

    def __init__(self, runner: Runner, source: RebuildSource, job_folder: Path) -> None:
        self._runner = runner
        self._source = source
        self._job_folder = job_folder
        self._file_size = source.config.consume_queue_file_size
        self._splits = list(source.splits)
        self._ends: list[SplitReport] = []  # what lies behind the pinned ends
        self._reports: list[SplitReport] = []
        self._damage: list[DamageRange] = []
        self.files: dict[str, StagedFile] = {}
        self._queues = self._entries = self._filled = self._ignored = 0
        self._set_aside: list[SetAside] = []
        self._idle_queues = 0

    def run(self) -> None:
        """Build all files below the job's folder."""
        self._pin_ends()
        parts = self._build_files()
        check_chain(self._splits, self._reports)
        self._damage = all_damage(self._source.gaps, [*self._reports, *self._ends])
        odd = set()
        for place, of_queue in parts.items():
            if is_whole(of_queue):
                self._queues += 1
                for part in of_queue:
                    assert part.file is not None
                    self._entries += part.received
                    self._put(place, part.name, part.file)
            else:
                odd.add(place)
        if odd:
            self._replay(odd, {place: sum(part.received for part in parts[place]) for place in odd})
        self._keep_idle()

    def _keep_idle(self) -> None:
        """Keep the ends of queues that have no record in the log, as a rebuild by one process does."""
        location = self._source.location
        if not self._splits:
            return
        begin = min(split.file.file_from_offset for split in self._splits)
        made = {name.rpartition("/")[0] for name in self.files}
        attempt = Attempt(self._job_folder)
        for topic, is_topic in location.names(PART).items():
            if not is_topic or not is_utf8(topic):
                continue
            for name, is_queue in location.names(f"{PART}/{topic}").items():
                queue_id = parse_queue_id(name)
                if not is_queue or queue_id is None or f"{topic}/{queue_id}" in made:
                    continue
                with location.local_copy(f"{PART}/{topic}/{queue_id}") as paths:
                    queue = QueueFiles(topic, queue_id, paths.queue(topic, queue_id))
                    end = expired_end(queue, begin, self._file_size)
                if end is not None:
                    with Folder(attempt.folder) as folder:
                        written = write_end(folder, topic, queue_id, end, self._file_size)
                    self.files[written] = describe(attempt, attempt.folder / written)
                    self._idle_queues += 1
        attempt.sync()

    def _put(self, place: QueueKey, name: str, file: StagedFile) -> None:
        self.files[f"{place[0]}/{place[1]}/{name}"] = file

    # ---- stages -------------------------------------------------------------------------------------

    def _pin_ends(self) -> None:
        """Find where the log ends, once: on a live store a second attempt of a task would find a later end."""
        numbers = open_ends(self._splits)
        found = self._runner.tasks(find_end, [self._splits[number] for number in numbers])
        for number, report in zip(numbers, found, strict=True):
            self._splits[number] = pin_end(self._splits[number], report.end_phy_offset)
            self._ends.append(report)

    def _build_files(self) -> dict[QueueKey, list[FilePart]]:
        results = self._shuffle(
            self._mapper(self._file_size // CQ_STORE_UNIT_SIZE, None),
            FileReduce(self._job_folder, self._file_size),
            ["topic", "queue_id", "file_number"],
        )
        parts: dict[QueueKey, list[FilePart]] = defaultdict(list)
        for part in results:
            parts[part.place].append(part)
        return parts

    def _replay(self, places: set[QueueKey], received: dict[QueueKey, int]) -> None:
        before = self._reports
        self._splits = list(map(pin_start, self._splits, before))
        played = self._shuffle(
            self._mapper(None, frozenset(places)),
            QueueReplay(self._job_folder, self._file_size),
            ["topic", "queue_id"],
        )
        changed = self._reports != before
        for queue in played:
            changed |= queue.received != received[queue.place]
            self._queues += bool(queue.files)
            self._entries += queue.entries
            self._filled += queue.filled
            self._ignored += queue.ignored
            self._set_aside += queue.set_aside[: MOST_LISTED - len(self._set_aside)]
            for name, file in queue.files.items():
                self._put(queue.place, name, file)
        if changed:
            raise self._changed("records differed between two reads")

    def _mapper(self, file_entries: int | None, only: frozenset[QueueKey] | None) -> QueueMap:
        return QueueMap(self._source.config, file_entries, only, self._source.batch_topics)

    def _shuffle(self, mapper: QueueMap, reducer: Reducer, keys: list[str]) -> list[Any]:
        """Map, sort, reduce; separate the reports of the splits from the results, which are returned."""
        built: list[FilePart | PlayedQueue] = []
        reports: dict[int, tuple[SplitReport, int]] = {}
        for result in self._runner.shuffle(mapper, self._splits, reducer, keys):
            if isinstance(result, tuple):
                reports[result[0]] = result[1:]
            else:
                built.append(result)
        ordered = [reports[number] for number in range(len(self._splits))]
        if sum(part.received for part in built) != sum(given for _, given in ordered):
            raise self._changed("a split differed between two reads")
        self._reports = [report for report, _ in ordered]
        return built

    def _changed(self, reason: str) -> StoreError:
        return StoreError(f"{self._source.location.root} changed while it was read: {reason}")

    # ---- results ------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """Return the fields of the manifest beside the files."""
        return {
            "broker": self._source.location.broker,
            "consume_queue_file_size": self._file_size,
            **log_facts(self._splits, self._reports),
        }

    def report(self, out: str) -> RebuildReport:
        """Return the report, without the seconds."""
        return RebuildReport(
            path=self._source.location.root,
            out=out,
            parts=(PART,),
            records=sum(report.records for report in self._reports),
            record_bytes=sum(report.record_bytes for report in self._reports),
            queues=self._queues,
            queue_files=len(self.files) - self._idle_queues,
            queue_entries=self._entries,
            filled_entries=self._filled,
            ignored_records=self._ignored,
            index_files=0,
            index_entries=0,
            damage=self._damage,
            seconds=0.0,
            set_aside=sorted(
                self._set_aside, key=lambda one: (one.topic, one.queue_id, one.first_phy_offset)
            ),
            idle_queues=self._idle_queues,
        )


def find_end(split: Split) -> SplitReport:
    """Return the report of where the log ends in a split, and of the damage behind it."""
    settled = settle(split)
    scan = SplitScan(settled, ColumnScan(["phy_offset"], stop_offset=settled.stop_offset()))
    for _ in scan.run():
        pass
    end = scan.end_phy_offset
    behind = tuple(found for found in scan.damage if found.start_phy_offset >= end)
    return SplitReport(scan.start_phy_offset, end, 0, 0, behind)


def reduce_tasks(splits: Sequence[Split], shuffle_partitions: int) -> int:
    """Return the number of tasks that build files: enough to limit the load of a task and to use the whole cluster."""
    byte_count = sum(split.byte_count for split in splits)
    return max(
        int(byte_count * ITEM_SHARE) // REDUCE_BYTES + 1, min(len(splits), shuffle_partitions)
    )
