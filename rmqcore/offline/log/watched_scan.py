"""A scan whose records somebody else looks at too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.places import Gaps, Place
from rmqcore._native.scan.scan import ColumnScan
from rmqcore._native.scan.skips import Skips


class WatchedScan:
    """A `ColumnScan` as a walk's sink that shows the bytes of the records it takes while they are in the cache.

    Parameters
    ----------
    columns : ColumnScan
    watch : callable
        Called after each window with ``(buf, begin, end, phy_offset, gaps)``: the records of ``buf[begin:end]`` are sound, follow
        each other without a gap, and were taken; `phy_offset` is the CommitLog offset of ``buf[0]``. What damage between them was
        stepped over is in `gaps`, None where nothing was. When nothing was taken, `begin` equals `end`.
    """

    def __init__(
        self, columns: ColumnScan, watch: Callable[[Any, int, int, int, Gaps | None], object]
    ) -> None:
        self._columns = columns
        self._watch = watch

    @property
    def pending_rows(self) -> int:
        """Rows that `take` would give."""
        return self._columns.pending_rows

    def take(self) -> Batch:
        """Return the rows read so far, and start anew."""
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
        skips: Skips | None = None,
    ) -> Place:
        """Read the records from `pos` on; see `ColumnScan.feed`."""
        place = self._columns.feed(
            buf, length, pos, phy_offset, end_offset, trusted=trusted, skips=skips
        )
        gaps = skips.gaps(pos, place.pos, phy_offset) if skips else None
        self._watch(buf, pos, place.pos, phy_offset, gaps)
        return place
