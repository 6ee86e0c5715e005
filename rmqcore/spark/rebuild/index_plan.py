"""The keys of each index file, found by counting before any file is built.

Every file holds max_index_num - 1 keys, of any messages, so file k has the keys from k * (max_index_num - 1) on: a
range of the log, which one task can read without a shuffle.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby

import numpy as np

from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.spark.reading.settle import SettledSplit, settle
from rmqcore.spark.reading.split_scan import SplitScan
from rmqcore.spark.splits.split import Split
from rmqcore.spark.splits.split_report import SplitReport

COLUMNS = ("phy_offset", "store_timestamp_ms", "key_hashes")
BATCH_ROWS, BATCH_BYTES = 65_536, 32 << 20


@dataclass(frozen=True)
class KeyReport:
    """The report of the first stage about a split.

    Attributes
    ----------
    split : SplitReport
    keys : int
    keyless_end : bool
        The last record has no keys.
    """

    split: SplitReport
    keys: int
    keyless_end: bool


@dataclass(frozen=True)
class IndexTask:
    """Consecutive index files, built by one task.

    Attributes
    ----------
    first_file, file_count : int
    splits : tuple of (Split, int)
        The splits to read, each with its number of keys.
    skip : int
        Number of keys of these splits before those of the first file. Not 0 if another file precedes: the first file
        copies time and offset of the last of them.
    """

    first_file: int
    file_count: int
    splits: tuple[tuple[Split, int], ...]
    skip: int


def key_scan(settled: SettledSplit) -> SplitScan[Batch]:
    """Return the scan that both stages use, so that both number the keys in the same order."""
    sink = ColumnScan(
        COLUMNS,
        stop_offset=settled.stop_offset(),
        batch_rows=BATCH_ROWS,
        batch_bytes=BATCH_BYTES,
    )
    return SplitScan(settled, sink)


def count_keys(split: Split) -> KeyReport:
    """Count the keys of one split: the first stage."""
    records = record_bytes = keys = 0
    keyless_end = False
    walk = key_scan(settle(split))
    for batch in walk.run():
        records += len(batch)
        record_bytes += batch.nbytes
        counts = np.diff(np.frombuffer(batch.buffer("key_hashes", "offsets"), np.int32))
        keys += int(counts.sum())
        keyless_end = bool(counts[-1] == 0)
    return KeyReport(walk.report(records, record_bytes), keys, keyless_end)


def count_files(reports: Sequence[KeyReport], file_keys: int) -> int:
    """Return the number of files.

    A message without keys also makes the first file, and the next one if it follows a full file.
    """
    with_records = [report for report in reports if report.split.records]
    if not with_records:
        return 0
    keys = sum(report.keys for report in reports)
    full_at_the_end = keys > 0 and keys % file_keys == 0
    return max(1, -(-keys // file_keys)) + (full_at_the_end and with_records[-1].keyless_end)


def plan_index(
    splits: Sequence[Split], reports: Sequence[KeyReport], file_keys: int
) -> list[IndexTask]:
    """Return the tasks of the second stage, by file.

    Files that begin in the same split are one task: otherwise the split would be read once for each of several small
    files.

    Parameters
    ----------
    splits : sequence of Split
        With both ends known.
    reports : sequence of KeyReport
        Of the same splits.
    file_keys : int
        Keys of a full file.
    """
    starts = list(accumulate((report.keys for report in reports), initial=0))
    keys = starts[-1]
    count = count_files(reports, file_keys)
    if keys == 0:
        return [IndexTask(0, count, (), 0)] if count else []

    def split_of(key: int) -> int:
        return bisect_right(starts, key) - 1

    tasks = []
    # The key before the first one: the file copies its time and offset.
    for first, files in groupby(range(count), lambda k: split_of(max(k * file_keys - 1, 0))):
        numbers = list(files)
        last = split_of(min((numbers[-1] + 1) * file_keys, keys) - 1)
        read = tuple(
            (splits[n], reports[n].keys) for n in range(first, last + 1) if reports[n].keys
        )
        skip = numbers[0] * file_keys - starts[first]
        tasks.append(IndexTask(numbers[0], len(numbers), read, skip))
    return tasks
