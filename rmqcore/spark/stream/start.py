"""Where a new stream begins in each store."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.filter import Filter
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.offline.log.log_files import LogFile, LogShape
from rmqcore.offline.log.walk import Blank, LogWalk
from rmqcore.spark.reading.split_start import walk_to
from rmqcore.spark.storage.locations import StoreLocation
from rmqcore.spark.stream.cursor import StoreCursor, StreamRules
from rmqcore.spark.stream.files import StreamFiles
from rmqcore.spark.stream.limits import Allowance
from rmqcore.spark.stream.tail import Search


@dataclass(frozen=True)
class StreamStart:
    """Where the user wants a new stream to begin; a stream that continues from a checkpoint ignores it.

    Attributes
    ----------
    latest : bool
        Begin behind the last record that the log has now; else at the first record.
    timestamp_ms : int, optional
        Begin at the first record stored at this time or later. Overrides `latest`.
    phy_offset : int or dict of str to int, optional
        Begin at the first record at or after this CommitLog offset, for all stores or by store. Overrides `latest`;
        with `timestamp_ms` the later of the two places is used.
    """

    latest: bool = False
    timestamp_ms: int | None = None
    phy_offset: int | dict[str, int] | None = None


def start_position(location: StoreLocation, start: StreamStart, rules: StreamRules) -> int | None:
    """Return the CommitLog offset at which a new stream begins in a store; None if the store has no CommitLog file yet.

    Raises
    ------
    DataLossError
        The log begins behind the given offset, or ends before it, or its first files are empty.
    """
    files = StreamFiles(location, fail_on_data_loss=rules.fail_on_data_loss)
    wanted = start.phy_offset
    if isinstance(wanted, dict):
        wanted = wanted.get(location.broker)
    found = []
    if wanted is not None:
        found.append(_first_at(files, wanted, log_end(location, rules)))
    if start.timestamp_ms is not None:
        since, end = _first_since(files, start.timestamp_ms), log_end(location, rules)
        if since == files.first_offset:
            files.begin()
        found.append(end if since is None or end is None else min(since, end))
    if not found:
        found.append(log_end(location, rules) if start.latest else files.begin())
    return max((at for at in found if at is not None), default=None)


def log_end(location: StoreLocation, rules: StreamRules, start: int | None = None) -> int | None:
    """Return where the log of a store ends for a stream now; None without CommitLog files. See `end_cursor`."""
    cursor = end_cursor(location, rules, start, Search(behind_zeros=False))
    return None if cursor is None else cursor.position


def end_cursor(
    location: StoreLocation, rules: StreamRules, start: int | None, search: Search
) -> StoreCursor | None:
    """Return a cursor at the present end of a store's log for a stream; None without CommitLog files.

    Parameters
    ----------
    location : StoreLocation
    rules : StreamRules
    start : int, optional
        An offset at which a record is known to begin or end; the log before it is not read.
    search : Search
    """
    files = StreamFiles(location)
    first = files.first_offset
    if first is None:
        return None
    if start is None or not first <= start <= files.files[-1].end_offset:
        # The log ends in its last file, unless the queues decide where it ends.
        start = first if rules.tail_guard == "consumequeue" else files.shape.tail_from
    cursor = StoreCursor(location, start, rules, search=search)
    cursor.advance(Allowance())
    return cursor


def is_record_boundary(file: LogFile, shape: LogShape, phy_offset: int) -> bool:
    """Return True if a walk over a file from its start reaches an offset; False if the log was cut and continued."""
    return (
        phy_offset == file.file_from_offset
        or walk_to(file, shape, phy_offset).phy_offset == phy_offset
    )


def _first_at(files: StreamFiles, wanted: int, end: int | None) -> int | None:
    """Return the CommitLog offset of the first record at or after an offset."""
    if end is None or wanted > end:
        files.lost(wanted, end, "the log ends before it")
        return end
    place = None if wanted == end else files.find(wanted)
    if place is None:
        return end
    if place.phy_offset == place.file.file_from_offset:
        return place.phy_offset
    found = walk_to(place.file, files.shape, place.phy_offset).phy_offset
    return place.file_end if found is None else found


def _first_since(files: StreamFiles, timestamp_ms: int) -> int | None:
    """Return the CommitLog offset of the first record stored at a time or later; None if all records are older.

    The first record of each file decides on the file, as in Java. It may be the wrong file if the broker's clock was
    set back.
    """
    low, high = 0, len(files.files)
    while low < high:
        middle = (low + high) // 2
        time_ms = _first_record(files, files.files[middle], 0)
        if time_ms is None or time_ms[1] >= timestamp_ms:
            high = middle
        else:
            low = middle + 1
    for file in files.files[max(0, low - 1) :]:
        found = _first_record(files, file, timestamp_ms)
        if found is not None:
            return found[0]
    return None


def _first_record(files: StreamFiles, file: LogFile, since_ms: int) -> tuple[int, int] | None:
    """Return CommitLog offset and store time of a file's first record stored at a time or later."""
    sink = ColumnScan(
        ("phy_offset", "store_timestamp_ms"), filter=Filter(since_ms=since_ms), batch_rows=1
    )
    walk: LogWalk[Batch] = LogWalk([file], sink, [], shape=files.shape)
    for batch in walk.run():
        if not isinstance(batch, Blank) and len(batch):
            phy_offset, time_ms = (
                int(np.asarray(batch.buffer(name)).view(np.int64)[0])
                for name in ("phy_offset", "store_timestamp_ms")
            )
            return phy_offset, time_ms
    return None
