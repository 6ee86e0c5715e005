"""The lag of a query behind its stores, computed from an offset in its progress and the stores, in any process.

Spark does not collect metrics of a Python source: `sources[].metrics` of a query's progress stays empty.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.log_files import LogFile
from rmqcore.offline.log.walk import Blank, LogWalk
from rmqcore.offline.queues.queues import each_queue, max_offset, min_offset
from rmqcore.spark.options.source_options import SourceOptions, texts_of
from rmqcore.spark.storage.locations import StoreLocation, absolute_paths
from rmqcore.spark.stream.files import StreamFiles
from rmqcore.spark.stream.offsets import StreamOffset

RecordEnd = tuple[int, int]
"""The end of a record and its store time."""


@dataclass(frozen=True)
class StoreLag:
    """Bytes and messages of one store that a query has not read yet.

    Attributes
    ----------
    broker : str
    phy_offset : int
        CommitLog offset at which the next batch begins.
    end_phy_offset : int
        CommitLog offset behind the last record that a batch read finds, behind damage too.
    lag_bytes : int
        Bytes of the log between these two.
    lag_records : int or None
        Entries of the store's queues from `phy_offset` on: messages that the broker has dispatched, of all topics. None
        if the store has no queues, or lies on another filesystem.
    lag_ms : int or None
        Store time of the last record minus that of the first unread one; 0 if all records are read, negative if the
        broker's clock was set back in between, None if either record cannot be found.
    read_bytes : int or None
        Bytes of the log that the last batch read; None if the store was new in that batch.
    damage : tuple of DamageRange
        Damage in the newest file that the stream has not passed, without a torn tail.
    """

    broker: str
    phy_offset: int
    end_phy_offset: int
    lag_bytes: int
    lag_records: int | None
    lag_ms: int | None
    read_bytes: int | None
    damage: tuple[DamageRange, ...]


def stream_lag(
    progress: Any,
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    source: int | None = None,
    **options: object,
) -> list[StoreLag]:
    """Return the lag of a query for each store.

    Reads the newest file of each log from the query's offset on, and some entries of each queue.

    Parameters
    ----------
    progress : StreamingQuery, StreamingQueryProgress or dict
        A query, the progress that its listener receives, or that progress from JSON.
    path : str, path-like or an iterable of them
        The stores of the stream.
    source : int, optional
        Number of the source in the progress, if the query has several from rmqstore.
    **options
        The stream's options for finding and opening stores: ``followLinks``, ``storage.*``.

    Returns
    -------
    list of StoreLag
        Without stores that have no CommitLog files, and without stores that are newer than the last batch.

    Raises
    ------
    ValueError
        The query has made no progress yet, or its progress is not that of a stream from rmqstore.
    """
    start, end = _offsets(progress, source)
    given = texts_of({**options, "path": absolute_paths(path)})
    found = []
    for location in SourceOptions.parse(given).stores():
        broker = location.broker
        if broker in end:
            read = end[broker] - start[broker] if broker in start else None
            lag = _lag_of(location, end[broker], read)
            found += [lag] if lag is not None else []
    return found


def _offsets(progress: Any, source: int | None) -> tuple[dict[str, int], dict[str, int]]:
    """Return where the last batch began and ended."""
    shown = getattr(progress, "lastProgress", progress)
    if shown is None:
        raise ValueError("the query has made no progress yet")
    sources = list(shown["sources"])
    ends = {at: _stores(one["endOffset"]) for at, one in enumerate(sources)}
    ours = [at for at, stores in ends.items() if stores is not None]
    chosen = ours if source is None else [at for at in ours if at == source]
    if len(chosen) != 1:
        raise ValueError(
            f"expected one rmqstore source, found {len(ours)} among the {len(sources)} sources of "
            "the progress: choose one with source="
        )
    end = ends[chosen[0]]
    assert end is not None
    return _stores(sources[chosen[0]]["startOffset"]) or {}, end


def _stores(offset: Any) -> dict[str, int] | None:
    """Return the stores of an offset from a progress, a text or JSON values; None if it is not of this source."""
    try:
        values = json.loads(offset) if isinstance(offset, str) else offset
        return StreamOffset.parse(values).stores if isinstance(values, Mapping) else None
    except ValueError:
        return None


def _lag_of(location: StoreLocation, position: int, read_bytes: int | None) -> StoreLag | None:
    files = StreamFiles(location, fail_on_data_loss=False)
    if not files.files:
        return None
    newest = max(position, files.shape.tail_from)
    damage: list[DamageRange] = []
    first, last, end = None, None, position
    for found in _records(files, newest, damage):
        first = first or found[0]
        last = found[-1]
        end = max(end, last[0])
    if newest > position:
        first = next((found[0] for found in _records(files, position, [], batch_rows=1)), None)
    lag_ms = None if first is None or last is None else last[1] - first[1]
    return StoreLag(
        location.broker,
        position,
        end,
        end - position,
        _queued_from(location, files.files, position),
        lag_ms if end > position else 0,
        read_bytes,
        tuple(found for found in damage if found.kind != "torn_tail"),
    )


def _records(
    files: StreamFiles, start: int, damage: list[DamageRange], batch_rows: int = 8192
) -> Iterator[tuple[RecordEnd, RecordEnd]]:
    """Yield the first and the last record of each batch, from an offset at which a record begins or ends."""
    names = ("phy_offset", "msg_size", "store_timestamp_ms")
    walk: LogWalk[Batch] = LogWalk(
        files.files,
        ColumnScan(names, batch_rows=batch_rows),
        damage,
        start=start,
        aligned_start=True,
        shape=files.shape,
    )
    for batch in walk.run():
        if not isinstance(batch, Blank) and len(batch):
            starts, sizes, times = (
                np.asarray(batch.buffer(name)).view(kind)
                for name, kind in zip(names, (np.int64, np.int32, np.int64), strict=True)
            )
            ends = [
                (int(starts[at]) + int(sizes[at]), int(times[at])) for at in (0, len(batch) - 1)
            ]
            yield ends[0], ends[1]


def _queued_from(location: StoreLocation, files: list[LogFile], position: int) -> int | None:
    """Return the number of entries for messages from a CommitLog offset on, in all queues."""
    if not location.is_local:
        return None
    count, queues = 0, 0
    for queue in each_queue(location.paths):
        queues += 1
        end = max_offset(queue)
        begin = min_offset(queue, files[0].file_from_offset, end)
        entries = range(begin, end)
        count += len(entries) - bisect_left(entries, position, key=queue.phy_offset)
    return count if queues else None
