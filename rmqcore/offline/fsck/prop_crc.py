"""The appended property CRC (enabledAppendPropCRC) of every record that has one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rmqcore._native.scan import places
from rmqcore.offline.fsck.findings import ERROR, Findings

MOST_A_WINDOW = 1000


class PropCrcAudit:
    """Checks the property CRCs of records that a scan has taken.

    Parameters
    ----------
    findings : Findings
    file_name : callable
        Names the file of a CommitLog offset.

    Attributes
    ----------
    checked : int
        Records with a property CRC.
    """

    def __init__(self, findings: Findings, file_name: Callable[[int], str]) -> None:
        self.checked = 0
        self._findings = findings
        self._file_name = file_name

    def check(
        self, buf: Any, begin: int, end: int, phy_offset: int, gaps: places.Gaps | None = None
    ) -> None:
        """Check the records of ``buf[begin:end]`` between `gaps`; `phy_offset` is the CommitLog offset of ``buf[0]``."""
        wanted = min(self._findings.room("prop_crc"), MOST_A_WINDOW)
        checked, failures, first = places.prop_crc_failures(buf, begin, end, wanted, gaps=gaps)
        self.checked += checked
        for at, expected, found in first:
            self._findings.add(
                "prop_crc",
                ERROR,
                self._file_name(phy_offset + at),
                f"__CRC32# is {found}, the record's bytes have {expected}",
                phy_offset=phy_offset + at,
                field="__CRC32#",
                expected=expected,
                found=found,
            )
        if failures > len(first):
            self._findings.add(
                "prop_crc", ERROR, "", "more records fail", count=failures - len(first)
            )
