"""Bytes that a reader could not return, as ranges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from rmqcore.shown.html_tables import SHOWN_ROWS, items_html
from rmqcore.shown.report import Report

MAX_RANGES = 100_000
"""Ranges that are kept one by one: some 30 MB."""


class DamageWarning(UserWarning):
    """A query has met damage: bytes that are no message, a body that fails its CRC, or index entries that lead to no message."""


@dataclass(frozen=True)
class DamageRange(Report):
    """Bytes of the CommitLog that are not sound records.

    Attributes
    ----------
    start_phy_offset, end_phy_offset : int
        CommitLog bytes, the end exclusive; with a path below ``compaction/`` bytes of that log.
    kind : str
        ``crc``: one well-formed record whose body fails its CRC. ``record``: bytes that are not a record, with sound ones after
        them or a sealed file's end. ``torn_tail``: bytes behind the last sound record of the log. ``blank``: the end of a file
        without the BLANK that belongs there. ``short_file``: a file ends early. ``missing_file``: no file holds these bytes.
        ``unreadable``: the disk did not give the bytes, or the file may not be read. ``log_missing``: messages that queues, index
        or checkpoint know behind the log's end. ``queue_entry``: the record of a queue's entry is missing, or names another place
        (of a get). ``more``: a `MoreDamage`.
    path : str
        The file, relative to the store where it lies inside; of a ``missing_file`` the first file that is not there.
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

    @property
    def range_count(self) -> int:
        """How many ranges this stands for."""
        return 1

    @property
    def byte_count(self) -> int:
        """The bytes in them."""
        return self.end_phy_offset - self.start_phy_offset

    def as_dict(self) -> dict[str, Any]:
        """The attributes as plain JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class MoreDamage(DamageRange):
    """All ranges behind the first 100,000 of a read, as one; sound records lie between them.

    Attributes
    ----------
    ranges, damaged_bytes : int
        How many they are, and the bytes in them.
    """

    ranges: int = 0
    damaged_bytes: int = 0

    @property
    def range_count(self) -> int:
        """How many ranges this stands for."""
        return self.ranges

    @property
    def byte_count(self) -> int:
        """The bytes in them."""
        return self.damaged_bytes


class DamageList(list[DamageRange]):
    """Damaged ranges of a walk, in bounded memory.

    Parameters
    ----------
    most : int, optional
        Number of ranges kept one by one (100,000); all later ones are one `MoreDamage`, the last item.
    """

    def __init__(self, most: int | None = None) -> None:
        super().__init__()
        self._most = MAX_RANGES if most is None else most

    @property
    def room(self) -> int:
        """How many more ranges are kept one by one."""
        return max(0, self._most - len(self))

    def append(self, found: DamageRange) -> None:
        """Add a range; also by ``+=`` and `extend`."""
        if len(self) < self._most:
            super().append(found)
        else:
            start, end = found.start_phy_offset, found.end_phy_offset
            self.count_more(found.path, found.range_count, found.byte_count, start, end)

    def extend(self, ranges: Iterable[DamageRange]) -> None:
        """Add ranges."""
        added = list(ranges)
        room = self.room
        super().extend(added[:room])
        for found in added[room:]:
            self.append(found)

    def __iadd__(self, ranges: Iterable[DamageRange], /) -> Self:  # type: ignore[misc, override]
        self.extend(ranges)
        return self

    def _repr_html_(self) -> str:
        return items_html("damage", [found.as_dict() for found in self[:SHOWN_ROWS]], len(self))

    def wants(self, code: int) -> bool:
        """Return True if ranges of a code of `Place` are wanted one by one also where there is no `room`."""
        del code
        return False

    def count_codes(
        self, path: str, codes: Mapping[int, int], damaged_bytes: int, start: int, end: int
    ) -> None:
        """The same as `count_more` for ranges of which it is known how many there are of each code of `Place`."""
        self.count_more(path, sum(codes.values()), damaged_bytes, start, end)

    def count_more(self, path: str, ranges: int, damaged_bytes: int, start: int, end: int) -> None:
        """Add ranges between two CommitLog offsets that are not kept one by one; there is no `room` for them."""
        last = self[-1] if self else None
        if ranges == 0:
            return
        if isinstance(last, MoreDamage):
            path, start = last.path, last.start_phy_offset
            end = max(last.end_phy_offset, end)
            ranges += last.ranges
            damaged_bytes += last.damaged_bytes
            del self[-1]
        text = f"{ranges} with {damaged_bytes} bytes"
        more = "further ranges"
        super().append(
            MoreDamage(start, end, "more", path, more, "none", text, ranges, damaged_bytes)
        )


def lost_ranges(damage: Iterable[DamageRange]) -> list[tuple[int, int]]:
    """The damage as ranges of CommitLog offsets, by offset."""
    return sorted((found.start_phy_offset, found.end_phy_offset) for found in damage)


def damage_of_fields(fields: dict[str, Any]) -> DamageRange:
    """The range of which `DamageRange.as_dict` gave the fields."""
    return MoreDamage(**fields) if "ranges" in fields else DamageRange(**fields)
