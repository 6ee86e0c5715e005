"""The appended property CRC (enabledAppendPropCRC) of every record that has one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rmqcore._native import scan
from rmqcore._native.scan import Batch, ColumnScan
from rmqcore.offline.findings import ERROR, Findings
from rmqcore.offline.fsck_damage import DRAIN_AT, DamageAudit

MOST_A_WINDOW = 1000


class CheckedScan:
    """A `ColumnScan` that has the property CRCs of the records it takes checked while their bytes are in the cache.

    Parameters
    ----------
    columns : ColumnScan
    findings : Findings
    damage : DamageAudit
        Drained on the way.
    file_name : callable
        Names the file of a CommitLog offset.

    Attributes
    ----------
    checked : int
        Records with a property CRC.
    """

    def __init__(
        self,
        columns: ColumnScan,
        findings: Findings,
        damage: DamageAudit,
        file_name: Callable[[int], str],
    ) -> None:
        self.checked = 0
        self._columns = columns
        self._findings = findings
        self._damage = damage
        self._file_name = file_name

    @property
    def pending_rows(self) -> int:
        """As `ColumnScan.pending_rows`."""
        return self._columns.pending_rows

    def take(self) -> Batch:
        """As `ColumnScan.take`."""
        return self._columns.take()

    def feed(
        self,
        buf: Any,
        length: int,
        pos: int,
        phy_offset: int,
        end_offset: int,
        *,
        trusted: int = -1,
    ) -> tuple[int, int, int, int]:
        """As `ColumnScan.feed`."""
        if len(self._damage.fresh) > DRAIN_AT:
            self._damage.drain()
        stop = self._columns.feed(buf, length, pos, phy_offset, end_offset, trusted=trusted)
        if stop[0] > pos:
            wanted = min(self._findings.room("prop_crc"), MOST_A_WINDOW)
            checked, failures, first = scan.prop_crc_failures(buf, pos, stop[0], wanted)
            self.checked += checked
            for at, expected, found in first:
                self._findings.add(
                    "prop_crc", ERROR, self._file_name(phy_offset + at),
                    f"__CRC32# is {found}, the record's bytes have {expected}", phy_offset=phy_offset + at,
                    field="__CRC32#", expected=expected, found=found,
                )  # fmt: skip
            if failures > len(first):
                self._findings.add(
                    "prop_crc", ERROR, "", "more records fail", count=failures - len(first)
                )
        return stop
