"""The records that a run exports: of each store those behind its watermark, as far as they are proven to be whole.

The rules are those of a stream (`rmqcore.spark.stream`): the log ends at the first place of its newest file without a
whole record, and a missing part of the log is an error unless ``failOnDataLoss`` is off.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from rmqcore.errors import DataLossError, WatermarkError
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.log_files import LogFile, LogShape
from rmqcore.offline.log.seal import seal_at
from rmqcore.offline.log.walk import gap_between
from rmqcore.spark.lake.watermark import TableWatermark, check_watermark, fits
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.options.values import LATEST
from rmqcore.spark.splits.planning import SplitPlan
from rmqcore.spark.splits.split import Split
from rmqcore.spark.splits.split_report import SplitReport
from rmqcore.spark.storage.locations import StoreLocation
from rmqcore.spark.stream.cursor import StoreCursor
from rmqcore.spark.stream.files import StreamFiles, log_cut_before
from rmqcore.spark.stream.limits import Allowance, share_out
from rmqcore.spark.stream.planning import plan_batch
from rmqcore.spark.stream.stream_options import check_stream_options, stream_rules

Marks = Mapping[str, TableWatermark]


@dataclass(frozen=True)
class Increment:
    """The part of a store's log that a run exports.

    Attributes
    ----------
    plan : SplitPlan
        The splits between the two offsets, and the files that are missing or too short there.
    start, end : int
        CommitLog offsets where records begin or end.
    unfinished : bool
        The log ends in an incomplete record: a later run exports the record when it is whole.
    """

    plan: SplitPlan
    start: int
    end: int
    unfinished: bool

    @property
    def location(self) -> StoreLocation:
        """The store."""
        return self.plan.location


def check_table_options(options: SourceOptions) -> None:
    """Refuse options that make the rows of a store depend on the time of a run.

    Raises
    ------
    ValueError
        An option sets an end, or begins at the present end.
    """
    check_stream_options(options)
    starts = options.starting_offsets
    moves = (
        starts == "latest"
        if isinstance(starts, str)
        else any(
            LATEST in queues.values() for brokers in starts.values() for queues in brokers.values()
        )
    )
    if moves:
        raise ValueError(
            "option startingOffsets: latest differs in every run; use queue offsets or "
            "startingPhyOffset"
        )


def plan_increments(
    stores: Sequence[StoreLocation], marks: Marks, options: SourceOptions
) -> list[Increment]:
    """Plan a run; a store without CommitLog files is left out.

    Raises
    ------
    WatermarkError
        A store's log is not the one whose beginning the table has, or the table has the store under another name.
    DataLossError
        A part of a log behind its watermark is missing, and failOnDataLoss is on.
    """
    rules = stream_rules(options)
    cursors: list[tuple[StoreLocation, int, StoreCursor]] = []
    for store in stores:
        files = StreamFiles(store).files
        mark = marks.get(store.broker)
        if mark is None:
            _check_new(store, files, marks, stores)
        else:
            check_watermark(store.broker, files, mark)
            _check_not_cut(store, files, mark.phy_offset)
        start = (
            _first(files, options.span(store.broker).start_phy_offset)
            if mark is None
            else mark.phy_offset
        )
        if start is not None:
            cursors.append((store, start, StoreCursor(store, start, rules)))
    allowance = Allowance(options.max_records_per_trigger, options.max_bytes_per_trigger)
    if cursors:
        share_out([cursor for _, _, cursor in cursors], allowance)
    byte_count = sum(cursor.position - start for _, start, cursor in cursors)
    sizing = options.sizing().for_bytes(byte_count)
    found = []
    for store, start, cursor in cursors:
        end = cursor.position
        splits = plan_batch(store, start, end, sizing, fail_on_data_loss=options.fail_on_data_loss)
        _check_planned(store, splits, end)
        # The watermark moves to the end: each task must reach the end of its split, whatever failOnDataLoss is.
        reaching = [
            replace(split, must_reach=True) if split.farthest_end == end else split
            for split in splits
        ]
        gaps = _gaps(store.log_files(), start, end)
        plan = SplitPlan(store, reaching, gaps, 0, sizing.max_partition_bytes)
        found.append(Increment(plan, start, end, cursor.unfinished))
    return found


def _check_not_cut(store: StoreLocation, files: Sequence[LogFile], known: int) -> None:
    """Refuse a store whose log was cut below the watermark by a recovery that left the old bytes behind its end."""
    end = log_cut_before(store, files, known)
    if end is not None:
        raise WatermarkError(
            f"store {store.broker}: the table has the log up to CommitLog offset {known}, but the "
            f"queues end at {end}, and the records behind it are older: the log was cut since the "
            "last run"
        )


def _first(files: Sequence[LogFile], wanted: int | None) -> int | None:
    """Return where a store's first run begins: the beginning of the file that has the first wanted record."""
    if not files:
        return None
    at = 0 if wanted is None else max(0, bisect_right(files, wanted, key=_from) - 1)
    return files[at].file_from_offset


def _from(file: LogFile) -> int:
    return file.file_from_offset


def _check_new(
    store: StoreLocation, files: Sequence[LogFile], marks: Marks, stores: Iterable[StoreLocation]
) -> None:
    """Refuse a store that the table has under another name: its rows would be exported twice."""
    given = {one.broker for one in stores}
    for broker, mark in marks.items():
        if broker not in given and (mark.root == store.root or fits(files, mark)):
            raise WatermarkError(
                f"store {store.broker}: the table has the log of {store.root} under the name "
                f"{broker}: use {broker}={store.root}"
            )


def _check_planned(store: StoreLocation, splits: Sequence[Split], end: int) -> None:
    """Make sure that the splits reach the end, which becomes the watermark."""
    if not splits:
        return
    last = splits[-1]
    reached = last.end
    if reached is None:
        reached = last.file.file_from_offset + max(last.file.size, last.shape.file_size)
    if reached < end:
        raise DataLossError(
            store.broker, reached, None, "the log was cut while the run was planned"
        )


def _gaps(files: Sequence[LogFile], start: int, end: int) -> list[DamageRange]:
    shape = LogShape.of(list(files))
    gaps = [
        gap
        for one, other in pairwise(files)
        for gap in gap_between(one, other, shape.file_size)
        if gap.end_phy_offset > start and gap.start_phy_offset < end
    ]
    first = files[0] if files else None
    if first is not None and first.file_from_offset > start:
        base = first.file_from_offset
        gone = base - -(-(base - start) // shape.file_size) * shape.file_size
        name = f"{first.path.parent.name}/{gone:020}"
        wanted = f"a file with {start}"
        gaps.insert(0, DamageRange(start, base, "missing_file", name, "file", wanted, "missing"))
    return gaps


def watermark_behind(
    increment: Increment, reports: Sequence[SplitReport], before: TableWatermark | None
) -> TableWatermark:
    """Return the watermark of a table that has the rows of an increment.

    Parameters
    ----------
    increment : Increment
    reports : sequence of SplitReport
        The tasks' reports of its splits.
    before : TableWatermark or None
    """
    ends = [report.end_phy_offset for report in reports if report.start_phy_offset is not None]
    end = min(max(ends, default=0), increment.end)
    seal = seal_at(increment.location.log_files(), end) if ends else None
    if seal is None and before is not None:
        seal = before.seal
    return TableWatermark(increment.end, increment.location.root, seal)
