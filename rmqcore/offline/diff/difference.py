"""A range in which two logs differ, and what it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rmqcore.offline.diff.pieces import joined
from rmqcore.offline.diff.plan import Side, minus


@dataclass(frozen=True)
class Difference:
    """A range in which two stores differ.

    Attributes
    ----------
    start_phy_offset, end_phy_offset : int
        CommitLog offsets, the end exclusive.
    kind : str
        ``missing_left``, ``missing_right``: that side has no bytes there. ``different``: both sides have sound records, but not
        the same. ``damaged_left``, ``damaged_right``, ``damaged_both``: the bytes differ, and that side has no sound records.
    left_path, right_path : str or None
        The file with the start of the range, on the sides that have it.
    """

    start_phy_offset: int
    end_phy_offset: int
    kind: str
    left_path: str | None
    right_path: str | None

    def as_dict(self) -> dict[str, Any]:
        """The attributes by name."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def lacking(sides: tuple[Side, Side]) -> list[tuple[int, int, str]]:
    """Return the ranges that only one side has."""
    left, right = (side.ranges() for side in sides)
    return [
        *((*found, "missing_right") for found in minus(left, right)),
        *((*found, "missing_left") for found in minus(right, left)),
    ]


def differences(
    found: Iterable[tuple[int, int, str]], sides: tuple[Side, Side]
) -> list[Difference]:
    """Return ranges in order, neighbours of a kind as one, with the files that they begin in."""
    return [_named(one, sides) for one in joined(list(found))]


def _named(found: tuple[int, int, str], sides: tuple[Side, Side]) -> Difference:
    start, end, kind = found
    paths = [
        None if kind == lacks else side.file_at(start).name
        for side, lacks in zip(sides, ("missing_left", "missing_right"), strict=True)
    ]
    return Difference(start, end, kind, paths[0], paths[1])
