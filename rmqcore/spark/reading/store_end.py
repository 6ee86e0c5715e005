"""Where the log of a store ends now, found from the bytes around its end: the same place as by a walk over its newest file.

The search tests a few places of the file in which the log ends for the start of a record, by the rule that decides
where splits begin (``src/rmqcore/_native/scan/split.h``). A walk from the last record found continues to the file's
end. It passes all damage that a sound record follows, as every walk does, so it ends where the walk over the whole file
ends, if that walk meets the record at all. The task that reads the file verifies it: it reaches the end found here, or
reports that part of the log as missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from rmqcore._native.scan.batch import Batch
from rmqcore.offline.info import log_end
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.log_files import LogFile, LogShape
from rmqcore.offline.log.long_record import LongRecords
from rmqcore.offline.log.store_times import HeaderScan
from rmqcore.offline.log.walk import Blank, LogWalk
from rmqcore.offline.missing_log import closed_at
from rmqcore.spark.reading.known_ends import KnownEnd, KnownEnds, file_status
from rmqcore.spark.reading.split_start import ask_boundary
from rmqcore.spark.splits.sizing import Sizing
from rmqcore.spark.splits.split import last_boundary
from rmqcore.spark.storage.store_location import StoreLocation
from rmqcore.spark.storage.store_pin import FileEnd, StorePin

NEAR = 8 * 1024 * 1024
"""The search ends at a record this near to the end: the walk over the rest takes about as long as one more test."""

ROOM = 256 * 1024
"""Bytes read at once on the walk to the end: they stay in a core's cache, also while the room behind the end is searched."""

AT_ONCE = 16
"""Stores whose ends are found at the same time: disk or network take most of the time, a network also for local paths."""

BEFORE_HOLE = 512 * 1024
"""Distance, in bytes, before the hole that ends a file at which the search begins: nearly every record is shorter."""

MOST_HOLES = 64
"""The most parts of a sparse file that are looked at to find its last bytes; a broker's file has one."""

_KNOWN = KnownEnds()


def pin_stores(
    stores: Iterable[StoreLocation], sizing: Sizing | None = None
) -> list[StoreLocation]:
    """Return each store with a pin; those that have one keep it.

    Parameters
    ----------
    stores : iterable of StoreLocation
    sizing : Sizing, optional
        ``split_mode="walk"`` walks each newest file from its beginning; `max_record_size` is the size of the largest
        record.
    """
    sizing = sizing or Sizing()
    given = list(stores)
    if len(given) < 2:
        return [_pinned(store, sizing) for store in given]
    with ThreadPoolExecutor(min(AT_ONCE, len(given)), thread_name_prefix="rmqcore-pin") as threads:
        return list(threads.map(lambda store: _pinned(store, sizing), given))


def _pinned(store: StoreLocation, sizing: Sizing) -> StoreLocation:
    return store if store.pin is not None else replace(store, pin=find_pin(store, sizing))


def find_pin(store: StoreLocation, sizing: Sizing) -> StorePin:
    """Find where the log of a store begins and ends now."""
    files = store.log_files()
    shape = LogShape.of(files)
    ends: list[FileEnd] = []
    newest: int | None = None
    # From the last file back: otherwise records appended during the search could continue in the next file, behind a
    # seeming hole.
    for file in reversed(files):
        if file.file_from_offset >= shape.tail_from:
            found = _end_in(file, shape, sizing)
            ends.insert(0, found.end)
            newest = found.log_end if newest is None else newest
    first = files[0].file_from_offset if files else 0
    end = log_end(files) if newest is None else newest
    return StorePin(
        first, shape, end, tuple(_without_stale(one, end, store, files) for one in ends)
    )


def _without_stale(
    one: FileEnd, log_end: int, store: StoreLocation, files: list[LogFile]
) -> FileEnd:
    """Leave out bytes behind the end of a cleanly closed log that do not begin a record, as `StoreReader` does."""
    odd = [found for found in one.rest if found.kind == "torn_tail" and found.field == "MAGIC"]
    if not odd:
        return one
    with store.local_copy("checkpoint", "abort") as paths:
        if not closed_at(paths, log_end, list_files=lambda: files):
            return one
    return replace(one, rest=tuple(found for found in one.rest if found not in odd))


def _end_in(file: LogFile, shape: LogShape, sizing: Sizing) -> KnownEnd:
    """Return the result of `find_end`, from an earlier call if it is still valid."""
    known = _KNOWN.find(file, shape, sizing)
    if known is None:
        before = file_status(file)
        known = find_end(file, shape, sizing)
        _KNOWN.keep(file, shape, sizing, known, before)
    return known


def find_end(file: LogFile, shape: LogShape, sizing: Sizing) -> KnownEnd:
    """Find where the log ends in a file to which its owner may be writing."""
    near = _near_record(file, shape, sizing, BEFORE_HOLE)
    found = _walk_from(near, file, shape)
    if found.log_end is None and near > file.file_from_offset:
        near = _near_record(file, shape, sizing, BEFORE_HOLE + sizing.max_record_size)
        found = _walk_from(near, file, shape)
    if found.log_end is None and near > file.file_from_offset:
        return replace(found, log_end=near)  # a sound record ends there, or it would not count
    return found


def _walk_from(near: int, file: LogFile, shape: LogShape) -> KnownEnd:
    """Walk from a record, or from the file's beginning, to the end of the file's log."""
    damage: list[DamageRange] = []
    walk: LogWalk[Batch] = LogWalk(
        [file],
        HeaderScan(65536),
        damage,
        start=near,
        aligned_start=True,
        shape=shape,
        long_records=LongRecords(check_crc=False),
        room=ROOM,
    )
    last = behind_last = None
    for batch in walk.run():
        if not isinstance(batch, Blank) and batch.num_rows:
            last = int(np.frombuffer(batch.buffer("phy_offset"), np.int64)[-1])
            behind_last = last + int(np.frombuffer(batch.buffer("msg_size"), np.int32)[-1])
    end = walk.end_phy_offset
    rest = tuple(one for one in damage if one.start_phy_offset >= end)
    return KnownEnd(FileEnd(file.file_from_offset, file.size, end, rest), last, behind_last)


def _near_record(file: LogFile, shape: LogShape, sizing: Sizing, before_hole: int) -> int:
    """Return the offset of a record near the end of the file's log, or the file's beginning. Any record would do.

    If a hole ends the file, the log ends before it, and the search begins `before_hole` bytes before the hole.
    """
    begin = file.file_from_offset
    # As if the log continued behind the file: a walk would meet the stale records behind the end of the log too.
    as_full = LogShape(shape.file_size, tail_from=file.end_offset)
    most = sizing.max_record_size
    high = last_boundary(file, as_full, most)
    if sizing.split_mode == "walk" or file.link_of is not None:
        return begin
    low = record = begin
    try:
        used = _used_end(file)
        first = [used - before_hole, used - BEFORE_HOLE - most] if used < file.end_offset else []
        places = iter([min(high, at) for at in first])
        while high - low > NEAR:
            middle = next(places, (low + high) // 2)
            if not low < middle <= high:
                continue
            answer = ask_boundary(file, as_full, middle, most)
            if answer.phy_offset is None:
                high = middle
            else:
                low, record = middle, answer.phy_offset
                high = min(high, max(low, used))
    except FileNotFoundError:  # the walk says so
        return begin
    return record


def _used_end(file: LogFile) -> int:
    """Return the CommitLog offset of the hole that ends a file; the file's end if no hole ends it or that is unknown."""
    with file.open(lambda start, end, error: None) as source:
        if source.extents is None:
            return file.end_offset
        pos = used = 0
        for _ in range(MOST_HOLES):
            first, pos = source.extents.following(pos)
            if first >= file.size:
                return file.file_from_offset + used
            used = pos
    return file.end_offset
