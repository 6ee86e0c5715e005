"""How many records damage in the log can have taken: what tells a believable gap in a queue from a flipped bit."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from rmqcore.offline.damage import DamageRange

SMALLEST_RECORD = 91


class HiddenRecords:
    """Counts what damaged ranges can hold.

    Parameters
    ----------
    damage : list of DamageRange
        May grow; what lies before an offset must be there when it is asked about.
    """

    def __init__(self, damage: list[DamageRange]) -> None:
        self._damage = damage
        self._seen = 0
        self._starts: list[int] = []
        self._counts = [0]

    def before(self, phy_offset: int) -> int:
        """How many records the ranges that begin before a CommitLog offset can have held.

        One that only fails its CRC is there.
        """
        if len(self._damage) != self._seen:
            self._sum_up()
        return self._counts[bisect_left(self._starts, phy_offset)]

    def _sum_up(self) -> None:
        ranges = sorted(
            (found.start_phy_offset, found.end_phy_offset)
            for found in self._damage
            if found.kind != "crc"
        )
        self._starts = [start for start, _ in ranges]
        counts = ((end - start) // SMALLEST_RECORD for start, end in ranges)
        self._counts = list(accumulate(counts, initial=0))
        self._seen = len(self._damage)
