"""Which keys come into which index file: told by counting, before any file is built.

A file takes max_index_num - 1 keys, whatever messages they are of, so file k has the keys from k * (max_index_num - 1) on: a
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
    """What the first stage says of a split.

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
    """Index files in a row, built by one task.

    Attributes
    ----------
    first_file, file_count : int
    splits : tuple of (Split, int)
        What to read, each with its keys.
    skip : int
        Keys of these splits that are before the first file's. Not 0 when there is a file before: of the last of them the first
        file takes over time and offset.
    """

    first_file: int
    file_count: int
    splits: tuple[tuple[Split, int], ...]
    skip: int


def key_scan(settled: SettledSplit) -> SplitScan[Batch]:
    """The scan that both stages use: one order of keys, or the ordinals drift."""
    sink = ColumnScan(
        COLUMNS,
        stop_offset=settled.stop_offset(),
        batch_rows=BATCH_ROWS,
        batch_bytes=BATCH_BYTES,
    )
    return SplitScan(settled, sink)


def count_keys(split: Split) -> KeyReport:
    """The first stage, for one split."""
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
    """How many files there will be.

    Also a message without keys makes the first file, and the next one when it comes behind a full one.
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
    """The second stage's tasks, by file.

    Files that begin in the same split are one task: small ones would have it read again and again.

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
    # The key before the first one: of it the file takes over time and offset.
    for first, files in groupby(range(count), lambda k: split_of(max(k * file_keys - 1, 0))):
        numbers = list(files)
        last = split_of(min((numbers[-1] + 1) * file_keys, keys) - 1)
        read = tuple(
            (splits[n], reports[n].keys) for n in range(first, last + 1) if reports[n].keys
        )
        skip = numbers[0] * file_keys - starts[first]
        tasks.append(IndexTask(numbers[0], len(numbers), read, skip))
    return tasks
