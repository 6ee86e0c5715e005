"""What a reader could not deliver, as ranges."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class DamageRange:
    """Bytes of the CommitLog that are no sound records.

    Attributes
    ----------
    start_phy_offset, end_phy_offset : int
        CommitLog bytes, the end exclusive.
    kind : str
        ``crc``: one well-formed record whose body fails its CRC. ``record``: bytes that are no record, with sound ones after them
        or a sealed file's end. ``torn_tail``: bytes behind the last sound record of the log. ``blank``: the end of a file
        without the BLANK that belongs there. ``short_file``: a file ends early. ``missing_file``: no file holds these bytes.
        ``unreadable``: the disk did not give the bytes.
    path : str
        The file, relative to the store where it lies inside.
    field, expected, found
        What was wrong at the start of the range.
    """

    start_phy_offset: int
    end_phy_offset: int
    kind: str
    path: str
    field: str
    expected: object
    found: object

    def __str__(self) -> str:
        return (
            f"{self.path}@{self.start_phy_offset}: {self.kind}, {self.end_phy_offset - self.start_phy_offset} bytes: "
            f"{self.field} is {self.found}, expected {self.expected}"
        )

    def as_dict(self) -> dict[str, Any]:
        """The attributes as plain JSON values."""
        return asdict(self)
