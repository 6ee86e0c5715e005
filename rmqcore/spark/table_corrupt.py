"""Table ``corrupt``: one row a range of the CommitLog that is no sound records, as `StoreReader.damage` lists them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rmqcore._native.scan import Batch, ColumnScan, Filter
from rmqcore.errors import DataLossError
from rmqcore.offline.damage import DamageRange
from rmqcore.spark.conditions import Conditions
from rmqcore.spark.split_scan import SplitScan, stop_offset
from rmqcore.spark.splits import Split
from rmqcore.spark.table import batches_of_rows
from rmqcore.spark.table_scan import ScanPart, ScanRead


class CorruptRead(ScanRead):
    """A read of ``corrupt``."""

    def parts(self) -> list[ScanPart]:
        """Splits, and what lacks between files."""
        return self.parts_of(self.plans())

    def read(self, part: ScanPart) -> Iterator[Any]:
        """Walk the splits, without a row."""
        wanted = Conditions.of(self.options, part.broker)
        found = list(part.gaps)
        for split in part.splits:
            found += self._damage_of(split, wanted)
        rows = (
            {
                "broker": part.broker,
                **one.as_dict(),
                "expected": str(one.expected),
                "found": str(one.found),
            }
            for one in found
            if wanted.overlaps(one)
        )
        yield from batches_of_rows(self.columns, rows, self.options.batch_rows)

    def _damage_of(self, split: Split, wanted: Conditions) -> list[DamageRange]:
        sink = ColumnScan(
            ["phy_offset"],
            filter=Filter(queue_ids=[]),  # no row is wanted, every record is looked at
            stop_offset=stop_offset(split, wanted.end_phy_offset),
        )
        scan: SplitScan[Batch] = SplitScan(split, sink)
        for _ in scan.run():
            pass
        for found in scan.damage:
            if found.kind == "missing_file" and self.options.fail_on_data_loss:
                raise DataLossError(
                    split.broker, found.start_phy_offset, None, f"{found.path} was deleted"
                )
        return scan.damage
