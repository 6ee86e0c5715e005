"""The splits of a batch, planned only from its two stream offsets, which an earlier process may have chosen."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from rmqcore.spark.splits.planning import WALKED, cut_file
from rmqcore.spark.splits.sizing import Sizing
from rmqcore.spark.splits.split import Split, last_boundary
from rmqcore.spark.splits.written import WrittenPart, written_part
from rmqcore.spark.storage.locations import StoreLocation
from rmqcore.spark.stream.files import OffsetInFile, StreamFiles


def plan_batch(
    location: StoreLocation,
    start: int,
    end: int,
    sizing: Sizing,
    *,
    fail_on_data_loss: bool = True,
    places: Sequence[int] = (),
) -> list[Split]:
    """Cut the log of a store between two offsets into splits.

    Reads only the directory, unless more than `Sizing.max_partition_bytes` lie where a file can be cut neither at
    `places` nor by the bytes around a boundary: in the file in which the log ends, and near the end of another file.

    Parameters
    ----------
    location : StoreLocation
    start, end : int
        CommitLog offsets where records begin or end.
    sizing : Sizing
    fail_on_data_loss : bool
    places : sequence of int
        CommitLog offsets between the two at which a record or damage begins, in order, from the walks made so far.

    Raises
    ------
    DataLossError
        A file between the offsets was deleted.
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
            of_file = _cut(location, files, place, min(end, place.file_end), sizing, places)
            splits += (_bound(split, fail_on_data_loss, end) for split in of_file)
        position = place.file_end
    return splits


def _cut(
    location: StoreLocation,
    files: StreamFiles,
    place: OffsetInFile,
    end: int,
    sizing: Sizing,
    places: Sequence[int],
) -> Iterator[Split]:
    """Yield the splits of one file from `place` to `end`; a record begins or ends at both offsets."""
    file, start = place.file, place.phy_offset
    whole = Split(
        location.broker,
        file,
        files.shape,
        start,
        end if end < place.file_end else None,
        max_record_size=sizing.max_record_size,
    )
    most = sizing.max_partition_bytes
    if end - start <= most:
        yield whole
    elif (known := _cuts_at(places, start, end, most)) is not None:
        yield from _pieces(whole, known)
    elif _is_cut_by_rule(location, files, place, end, sizing):
        for split in cut_file(location, file, files.shape, sizing):
            if (split.end is None or split.end > start) and split.start < end:
                yield _within(split, whole)
    else:
        yield from _pieces(whole, written_part(file, most, start=start, stop=end).cuts(most))


def _pieces(whole: Split, cuts: Sequence[int]) -> Iterator[Split]:
    """Yield the parts of a split, cut at offsets where records begin."""
    for start, end in zip([whole.start, *cuts], [*cuts, whole.end], strict=True):
        yield replace(whole, start=start, end=end)


def _cuts_at(places: Sequence[int], start: int, end: int, most_bytes: int) -> list[int] | None:
    """Return some of the places, so that no piece is much longer than `most_bytes`; None if they do not cover the range."""
    inner = tuple(places[bisect_right(places, start) : bisect_left(places, end)])
    cuts = WrittenPart(start, end, inner).cuts(most_bytes)
    largest = max(after - before for before, after in pairwise([start, *cuts, end]))
    return cuts if largest <= most_bytes + most_bytes // 4 else None


def _is_cut_by_rule(
    location: StoreLocation, files: StreamFiles, place: OffsetInFile, end: int, sizing: Sizing
) -> bool:
    """Return True if a file is cut by the bytes around boundaries: where they can decide, or if a walk would fetch it all."""
    told = last_boundary(place.file, files.shape, sizing.max_record_size)
    return place.sealed and (
        end <= told or end - place.phy_offset > WALKED or not location.is_local
    )


def _within(split: Split, whole: Split) -> Split:
    """Return the part of a file's split that lies in the batch."""
    split = replace(split, last_end=whole.end)
    if split.start <= whole.start:
        split = replace(split, start=whole.start, aligned=True)
    if whole.end is not None and (split.end is None or split.end >= whole.end):
        split = replace(split, end=whole.end, check_end=False)
    return split


def _bound(split: Split, must_reach: bool, end: int) -> Split:
    """Return the split with the end of the batch, which its task must reach: the planner saw a whole record there."""
    return replace(split, must_reach=True) if must_reach and split.farthest_end == end else split
