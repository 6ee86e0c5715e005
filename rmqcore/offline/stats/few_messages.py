"""The largest and the newest messages of a log."""

from __future__ import annotations

import numpy as np

from rmqcore.offline.log.log_files import LogFile
from rmqcore.offline.log.window import record_at
from rmqcore.offline.stats.columns import StatsColumns
from rmqcore.offline.stats.report import MessagePlace

MOST = 10
QUICK_SIZE = 1 << 16

_Row = tuple[int, int, int]
"""Bytes, CommitLog offset with its sign turned (of equally large ones the first is kept), and store time."""


class FewMessages:
    """Notes the ten largest and the ten last messages of all batches."""

    def __init__(self) -> None:
        self._largest: list[_Row] = []
        self._newest: list[_Row] = []

    def add(self, columns: StatsColumns) -> None:
        """Look at the messages of a batch."""
        least = self._largest[-1][0] if len(self._largest) == MOST else 0
        sizes = columns.msg_size
        rows = np.flatnonzero(sizes > least)
        if len(rows) > MOST:
            rows = rows[np.argsort(-sizes[rows].astype(np.int64), kind="stable")[:MOST]]
        found = [*self._largest, *_rows(columns, rows)]
        self._largest = sorted(found, reverse=True)[:MOST]
        last = np.arange(max(0, len(sizes) - MOST), len(sizes))
        self._newest = [*self._newest, *_rows(columns, last)][-MOST:]

    @property
    def end(self) -> tuple[int | None, int | None]:
        """Store time of the last message, and the CommitLog offset behind it."""
        if not self._newest:
            return None, None
        size, at, store_ms = self._newest[-1]
        return store_ms, size - at

    def largest(self, files: list[LogFile]) -> list[MessagePlace]:
        """Return the largest messages, the largest first; they are read again from the files."""
        return [_place(files, row) for row in self._largest]

    def newest(self, files: list[LogFile]) -> list[MessagePlace]:
        """Return the last messages, the last first."""
        return [_place(files, row) for row in reversed(self._newest)]


def _rows(columns: StatsColumns, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[_Row]:
    return list(
        zip(
            columns.msg_size[rows].tolist(),
            (-columns.phy_offset[rows]).tolist(),
            columns.store_timestamp_ms[rows].tolist(),
            strict=True,
        )
    )


def _place(files: list[LogFile], row: _Row) -> MessagePlace:
    size, phy_offset, store_ms = row[0], -row[1], row[2]
    view = record_at(files, phy_offset, most_whole=QUICK_SIZE)
    if view is None:
        return MessagePlace(None, None, None, phy_offset, size, store_ms, None, ())
    return MessagePlace(
        view.topic,
        view.queue_id,
        view.queue_offset,
        phy_offset,
        size,
        store_ms,
        view.tags,
        tuple(view.keys),
    )
