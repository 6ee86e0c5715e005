"""The splits of a batch: of what lies between two offsets of a stream, whoever found the second one, and when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rmqcore.spark.locations import StoreLocation
from rmqcore.spark.planning import Sizing, cut_file
from rmqcore.spark.split_walk import record_starts
from rmqcore.spark.splits import Split
from rmqcore.spark.stream_files import Place, StreamFiles


def plan_batch(
    location: StoreLocation,
    start: int,
    end: int,
    sizing: Sizing,
    *,
    fail_on_data_loss: bool = True,
) -> list[Split]:
    """Cut a part of a store's log into splits.

    Reads nothing but the directory, unless more than `Sizing.max_partition_bytes` lie in the file in which the log ends.

    Parameters
    ----------
    location : StoreLocation
    start, end : int
        CommitLog offsets where records begin or end.
    sizing : Sizing
    fail_on_data_loss : bool

    Raises
    ------
    DataLossError
        A file in between was deleted.
    """
    files = StreamFiles(location, fail_on_data_loss=fail_on_data_loss)
    splits: list[Split] = []
    position = start
    while position < end:
        place = files.find(position)
        if place is None:
            files.lost(position, None, "the log ends before it")
            break
        if place.phy_offset < end:
            of_file = _cut(location, files, place, min(end, place.file_end), sizing)
            splits += (_bound(split, fail_on_data_loss, end) for split in of_file)
        position = place.file_end
    return splits


def _cut(
    location: StoreLocation, files: StreamFiles, place: Place, end: int, sizing: Sizing
) -> Iterator[Split]:
    """The splits of one file between an offset and another; records begin, or end, at both."""
    file, start = place.file, place.phy_offset
    whole = Split(
        location.broker,
        file,
        files.shape,
        start,
        end if end < place.file_end else None,
        max_record_size=sizing.max_record_size,
    )
    if end - start <= sizing.max_partition_bytes:
        yield whole
    elif place.sealed:
        for split in cut_file(location, file, files.shape, sizing):
            if (split.end is None or split.end > start) and split.start < end:
                yield _within(split, whole)
    else:
        count = -(-file.size // sizing.max_partition_bytes)
        cuts = [at for at in record_starts(file, files.shape, count) if start < at < end]
        for own_start, own_end in zip([start, *cuts], [*cuts, whole.end], strict=True):
            yield replace(whole, start=own_start, end=own_end)


def _within(split: Split, whole: Split) -> Split:
    """The part of a file's split that lies in a batch."""
    if split.start <= whole.start:
        split = replace(split, start=whole.start, aligned=True)
    if whole.end is not None and (split.end is None or split.end >= whole.end):
        split = replace(split, end=whole.end, check_end=False)
    return split


def _bound(split: Split, must_reach: bool, end: int) -> Split:
    """The batch ends with a record that was seen: so must the task that reads up to there."""
    return replace(split, must_reach=True) if must_reach and split.end == end else split
