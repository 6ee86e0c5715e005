"""Search by time where the entries are not all messages."""

from __future__ import annotations

import numpy as np
import pytest

from rmqcore._native.format.cq import pack_cq
from rmqcore._native.format.cq_arrays import unpack_cq_entries
from rmqcore.queries.time_search import Boundary, offset_by_time

FILLER = (0, 0x7FFFFFFF, 0)
TIMES = {0: 50, 100: 60, 200: 70}  # the message at offset 0 is in another queue


class Rebuilt:
    """Two fillers, then the messages at 100 and 200."""

    def spans(self) -> list[tuple[int, int]]:
        return [(0, 4)]

    def entries(self, start: int, count: int) -> np.ndarray:
        packed = b"".join(pack_cq(*entry) for entry in [FILLER, FILLER, (100, 9, 0), (200, 9, 0)])
        return unpack_cq_entries(packed)[start : start + count]


@pytest.mark.parametrize(
    ("timestamp_ms", "lower", "upper"),
    [(0, 2, 1), (50, 2, 1), (55, 2, 1), (60, 2, 2), (65, 3, 2), (70, 3, 3), (80, 4, 3)],
)
def test_fillers_are_older_than_any_message(timestamp_ms: int, lower: int, upper: int) -> None:
    """A filler's bytes name offset 0: the filler was given the time of the message there, which is in another queue."""
    for boundary, want in ((Boundary.LOWER, lower), (Boundary.UPPER, upper)):
        got = offset_by_time(
            Rebuilt(), 0, 4, 0, timestamp_ms, boundary, lambda phy: TIMES.get(phy, -1)
        )
        assert got == want
