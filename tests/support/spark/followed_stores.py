"""What a stream over live stores gives, without Spark: offsets planned, splits read, batch by batch."""

from __future__ import annotations

from pathlib import Path

from rmqcore._native.scan.scan import ViewScan
from rmqcore.spark.reading.settle import settle
from rmqcore.spark.reading.split_scan import SplitScan
from rmqcore.spark.splits.sizing import Sizing
from rmqcore.spark.storage.locations import find_stores
from rmqcore.spark.stream.cursor import StreamRules
from rmqcore.spark.stream.follower import Offsets, Seals, StreamFollower
from rmqcore.spark.stream.limits import Allowance
from rmqcore.spark.stream.start import StreamStart

Rows = list[tuple[str, int]]
SMALL = Sizing(max_partition_bytes=1500, max_record_size=1024)


class FollowedStores:
    """A query: offset and rows outlive the planning process, which `restart` replaces."""

    def __init__(
        self,
        path: str | Path,
        rules: StreamRules | None = None,
        start: StreamStart | None = None,
        sizing: Sizing = SMALL,
    ) -> None:
        self.path = str(path)
        self.rules = rules
        self.sizing = sizing
        self.rows: Rows = []
        self.batches: list[tuple[Offsets, Offsets, Rows]] = []
        self.follower = self._follower(start)
        self.at = self.follower.initial()
        self.seals = dict(self.follower.seals)

    def _follower(self, start: StreamStart | None = None) -> StreamFollower:
        return StreamFollower(lambda: find_stores(self.path), start, self.rules)

    def restart(self) -> None:
        """Only the offset is left; the last batch may be planned and read again, and must be the same."""
        self.follower = self._follower()

    def read(self, start: Offsets, end: Offsets, *, seals: tuple[Seals, Seals] = ({}, {})) -> Rows:
        """Rows between two offsets, by split."""
        rows: Rows = []
        for split in self.follower.splits(start, end, self.sizing, seals=seals):
            settled = settle(split)
            scan = SplitScan(settled, ViewScan(stop_offset=settled.stop_offset()))
            for views in scan.run():
                rows += [(split.broker, view.phy_offset) for view in views]
            reached = (
                settled.is_skipped or settled.end is None or scan.end_phy_offset >= settled.end
            )
            assert reached, (split, scan.end_phy_offset)
        return rows

    def batch(self, records: int | None = None, byte_count: int | None = None) -> Rows:
        """Plan and read one batch."""
        before = self.seals
        end = self.follower.latest(self.at, Allowance(records, byte_count), seals=before)
        seals = dict(self.follower.seals)
        rows = self.read(self.at, end, seals=(before, seals))
        self.batches.append((self.at, end, rows))
        self.rows += rows
        self.at, self.seals = end, seals
        return rows

    def drain(self, records: int | None = None, byte_count: int | None = None) -> Rows:
        """Batches until one stands still."""
        before = len(self.rows)
        while True:
            start = self.at
            self.batch(records, byte_count)
            if self.at == start:
                return self.rows[before:]
