"""docs/reliability.md as data: the fields that no check covers."""

from __future__ import annotations

import re

from support.places import ROOT

PAGE = ROOT / "docs" / "reliability.md"
ROW = re.compile(
    r"^\| `([^`]+)` \| (silent|covered|-)[^|]*\| (silent|covered|-)[^|]*\|", re.MULTILINE
)


def silent_fields() -> dict[bool, set[str]]:
    """Fields in which a flipped bit goes unnoticed: without (False) and with (True) the property CRC."""
    rows = ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert rows, "the table is not where it was"
    return {
        with_crc: {f"commitlog {row[0]}" for row in rows if row[1 + with_crc] == "silent"}
        for with_crc in (False, True)
    }
