"""Rows as columns, but for very long records: each of these is a view by itself."""

from __future__ import annotations

from typing import Any

from rmqcore._native.format.codec import MessageView
from rmqcore._native.scan import scan
from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.places import Place
from rmqcore._native.scan.scan import ColumnScan, ViewScan

MOST_IN_COLUMNS = 8 * 1024 * 1024
"""Bytes of the longest record that becomes a row of a batch: so the batches that a scan keeps for use again stay small."""


class LongRowScan:
    """A walk's sink that gives batches, and lists of one view.

    Parameters
    ----------
    columns : ColumnScan
    views : ViewScan
        With the same conditions, for one view at a time.
    most_whole : int
        What the walk's `LongRecords` say: a longer record is fed alone, and nothing else is fed as long.
    """

    def __init__(self, columns: ColumnScan, views: ViewScan, most_whole: int) -> None:
        self._columns = columns
        self._views = views
        self._most_whole = most_whole

    @property
    def pending_rows(self) -> int:
        """Rows that `take` would give."""
        return int(self._columns.pending_rows or self._views.pending_rows)

    def take(self) -> Batch | list[MessageView]:
        """Return the rows read so far, and start anew."""
        return self._views.take() if self._views.pending_rows else self._columns.take()

    def feed(
        self, buf: Any, length: int, pos: int, phy_offset: int, end_offset: int, **checks: Any
    ) -> Place:
        """Read the records from `pos` on; see `ColumnScan.feed`."""
        if length <= self._most_whole:
            return self._columns.feed(buf, length, pos, phy_offset, end_offset, **checks)
        if self._columns.pending_rows:  # rows keep their order
            return Place(pos, scan.FULL)
        return self._views.feed(buf, length, pos, phy_offset, end_offset, **checks)
