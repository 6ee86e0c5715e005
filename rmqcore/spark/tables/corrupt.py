"""Table ``corrupt``: a row for each damaged range of the CommitLog, as `StoreReader.damage` lists them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.filter import Filter
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.errors import DataLossError
from rmqcore.offline.log.conditions import Conditions
from rmqcore.offline.log.damage import DamageRange
from rmqcore.spark.reading.settle import settle
from rmqcore.spark.reading.split_scan import SplitScan
from rmqcore.spark.rows.conditions import conditions_of
from rmqcore.spark.splits.split import Split
from rmqcore.spark.tables.scan_table import ScanPart, ScanRead
from rmqcore.spark.tables.table import batches_of_rows


class CorruptRead(ScanRead):
    """A read of ``corrupt``."""

    def planned_parts(self) -> list[ScanPart]:
        """Return parts of splits, and the gaps between files."""
        return self.parts_of(self.plans())

    def read(self, part: ScanPart) -> Iterator[Any]:
        """Walk the splits and yield their damage; no message becomes a row."""
        wanted = conditions_of(self.options, part.broker)
        found = list(part.gaps)
        for split in part.splits:
            found += self._damage_of(split, wanted)
        rows = (
            {
                "broker": part.broker,
                **damage.as_dict(),
                "expected": str(damage.expected),
                "found": str(damage.found),
            }
            for damage in found
            if wanted.overlaps(damage)
        )
        yield from batches_of_rows(self.columns, rows, self.options.batch_rows)

    def _damage_of(self, split: Split, wanted: Conditions) -> list[DamageRange]:
        settled = settle(split)
        sink = ColumnScan(
            ["phy_offset"],
            filter=Filter(queue_ids=[]),  # every record is checked, and none becomes a row
            stop_offset=settled.stop_offset(wanted.end_phy_offset),
        )
        scan: SplitScan[Batch] = SplitScan(settled, sink)
        for _ in scan.run():
            pass
        for found in scan.damage:
            if found.kind == "missing_file" and self.options.fail_on_data_loss:
                raise DataLossError(
                    split.broker, found.start_phy_offset, None, f"{found.path} was deleted or cut"
                )
        return scan.damage
