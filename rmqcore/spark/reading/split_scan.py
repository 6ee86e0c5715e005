"""The scan of one split: the rows that it owns, and the damage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from rmqcore.errors import DataLossError, SplitError
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.walk import Blank, LogWalk, Sink, damage_of
from rmqcore.spark.reading.settle import SettledSplit
from rmqcore.spark.reading.split_start import SplitStart, ends_resynced
from rmqcore.spark.splits.split_report import SplitReport
from rmqcore.spark.splits.written import is_skipped

Rows = TypeVar("Rows")


class SplitScan(Generic[Rows]):
    """The walk over one split.

    Parameters
    ----------
    settled : SettledSplit
    sink : Sink
        Made with ``stop_offset=settled.stop_offset(...)``.
    verify_crc : bool
        Leave out records that fail their CRC. They are reported as damage in any case.

    Attributes
    ----------
    damage : list of DamageRange
        Ranges that start in the split, as a whole, also if they end behind it.
    split : Split
    start_phy_offset : int or None
        Where the split's first record or damage begins; None if the file's log ends before the split, or the split's
        boundary does not count.
    end_phy_offset : int
        After `run`: where the first record or damage after the split begins.
    resynced : set of int
        Starts of records that were found by search, behind damage.
    """

    def __init__(
        self, settled: SettledSplit, sink: Sink[Rows], *, verify_crc: bool = False
    ) -> None:
        self.settled = settled
        self.split = settled.split
        self.damage: list[DamageRange] = []
        self.resynced: set[int] = set()
        start = settled.start
        self.start_phy_offset = None if start is None else start.phy_offset
        # Unchanged if no record starts in the split.
        self.end_phy_offset = self.split.start
        if self.start_phy_offset is not None:
            self.end_phy_offset = self.start_phy_offset
        self._sink = sink
        self._verify_crc = verify_crc

    def run(self) -> Iterator[Rows]:
        """Yield the rows that the sink has gathered, each time that it is full and at the end.

        Raises
        ------
        SplitError
            The next split begins elsewhere than this one ends.
        DataLossError
            `Split.must_reach` is set, and the walk does not reach the split's end.
        """
        split, found, end = self.split, self.settled.start, self.settled.end
        if self.settled.is_gone:
            self._miss_file()
        if found is None:
            return
        yield from self._walk(found)
        if self.settled.is_cut and end is not None:
            self.damage += self._missing(min(end, self.end_phy_offset), split.farthest_end)

    def report(self, records: int, record_bytes: int) -> SplitReport:
        """Return the report of a finished scan, with the counts of the caller."""
        return SplitReport(
            self.start_phy_offset,
            self.end_phy_offset,
            records,
            record_bytes,
            tuple(self.damage),
            self.settled.end,
            self.settled.is_skipped,
        )

    def _walk(self, found: SplitStart) -> Iterator[Rows]:
        split, end = self.split, self.settled.end
        if found.resynced and found.phy_offset is not None:
            self.resynced.add(found.phy_offset)
        if found.phy_offset is None or (end is not None and found.phy_offset >= end):
            self._check_end(found)
            self._check_reached()
            self._compare_with_pin()
            return
        walk = LogWalk(
            [split.file.read_until(end)],
            self._sink,
            self.damage,
            verify_crc=self._verify_crc,
            start=found.phy_offset,
            stop=end,
            aligned_start=True,
            shape=split.shape,
        )
        seen = 0
        for rows in walk.run():
            assert not isinstance(rows, Blank)
            seen = self._note_resynced(seen)
            yield rows
        self._note_resynced(seen)
        self._end_walk(walk)

    # ---- the end ------------------------------------------------------------------------------------

    def _end_walk(self, walk: LogWalk[Rows]) -> None:
        if any(one.kind == "missing_file" for one in self.damage):
            self._miss_file()
            return
        self.end_phy_offset = end = walk.end_phy_offset
        if walk.stopped:
            # A window is read to its end: the next split's task reports bad sectors behind this split.
            self.damage[:] = [
                one for one in self.damage if one.kind != "unreadable" or one.start_phy_offset < end
            ]
        if self.settled.end is not None and end >= self.settled.end:
            self._check_end(SplitStart(end, ends_resynced(self.damage, end)))
        elif (
            not walk.stopped
        ):  # the file's log ends here; when stopped, the reader's own end lies before the boundary
            self._check_end(SplitStart(None, resynced=False))
            self._check_reached()
        if not walk.stopped or end >= (self.settled.end or 0):
            self._compare_with_pin()

    def _compare_with_pin(self) -> None:
        """In the split with the pinned end of the log, add the damage behind that end, or report what is missing now."""
        pinned, end = self.split.pinned, self.end_phy_offset
        if pinned is None or self.settled.end != pinned.end_phy_offset:
            return
        low, high = sorted((end, pinned.end_phy_offset))
        # The bytes there now are newer than the pin, or those of the pinned log are gone.
        self.damage[:] = [one for one in self.damage if one.start_phy_offset < low]
        self.damage += pinned.rest if low == high else self._missing(low, high)

    def _check_reached(self) -> None:
        split, end, wanted = self.split, self.end_phy_offset, self.settled.end
        if split.must_reach and wanted is not None and end < wanted:
            raise DataLossError(
                split.broker,
                end,
                None,
                f"{split.file.name} extended to {wanted} when the batch was planned: it was cut "
                "since, or a network file system does not yet show its end on this worker",
            )

    def _check_end(self, own: SplitStart) -> None:
        """Compare the start of the next split, by the rule, with the place that the walk has met at the boundary.

        The first split of a file begins where every walk does. So by induction each split begins where the split before
        it ends, or one of their tasks raises. If the bytes at the boundary could not be read, the next split's task
        walks to it.
        """
        told, end = self.settled.told, self.settled.end
        if not self.split.check_end or told is None or end is None:
            return
        if SplitStart(told, resynced=False) == own:
            return
        expected = "nothing" if own.phy_offset is None else str(own.phy_offset)
        if own.resynced:
            expected += ", behind damage"
        raise SplitError(self.split.file.name, end, told, expected)

    # ---- damage -------------------------------------------------------------------------------------

    def _miss_file(self) -> None:
        """Report this split's share of a file as missing: the file, or the end of it, was deleted."""
        self.damage[:] = self._missing(self.split.start, self.settled.end)

    def _missing(self, start: int, end: int | None) -> list[DamageRange]:
        file = self.split.file
        if end is None:
            end = file.file_from_offset + self.split.shape.file_size
        return damage_of(
            file,
            start - file.file_from_offset,
            end - file.file_from_offset,
            "missing_file",
            "file",
            "present",
            "deleted or cut while it was read",
        )

    def _note_resynced(self, seen: int) -> int:
        for found in self.damage[seen:]:
            if is_skipped(found):
                self.resynced.add(found.end_phy_offset)
        return len(self.damage)
