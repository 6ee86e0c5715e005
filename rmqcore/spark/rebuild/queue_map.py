"""The map stage of a queue rebuild: one split in, pieces of queues out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from rmqcore._native.format.codec import DelayLevels
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.config import MessageStoreConfig
from rmqcore.engine.dispatch.dispatcher import QUEUE_COLUMNS
from rmqcore.engine.dispatch.multi_dispatch import MultiDispatch
from rmqcore.maintenance.rebuild.dispatch_scan import dispatch_config, dispatch_scan
from rmqcore.maintenance.rebuild.queue_runs import Entries, Offsets, QueueRun, QueueRuns
from rmqcore.spark.reading.settle import SettledSplit, settle
from rmqcore.spark.reading.split_scan import SplitScan
from rmqcore.spark.rebuild.queue_pieces import (
    ITEM,
    PIECE_ITEMS,
    SEQUENCE_BITS,
    Piece,
    pack_items,
    report_piece,
)
from rmqcore.spark.splits.split import Split
from rmqcore.vocabulary.topics import QueueKey

BATCH_ROWS, BATCH_BYTES = 65_536, 32 << 20
HELD_BYTES = 64 << 20
"""Bytes of pieces that a task holds before it sends them."""


class QueueMap:
    """Called once for each split.

    Parameters
    ----------
    config : MessageStoreConfig
        Delay levels.
    file_entries : int, optional
        Entries of a queue file: cut pieces at files. None: one group for each queue.
    only : frozenset of (str, int), optional
        The queues that are wanted.
    batch_topics : frozenset of str
        As in `QueueRuns`.
    """

    def __init__(
        self,
        config: MessageStoreConfig,
        file_entries: int | None,
        only: frozenset[QueueKey] | None = None,
        batch_topics: frozenset[str] = frozenset(),
    ) -> None:
        self._delay_levels_ms = list(config.delay_levels_ms)  # workers get no configuration
        self._file_entries = file_entries
        self._only = only
        self._batch_topics = batch_topics

    def pieces(self, number: int, split: Split, /) -> Iterator[Piece]:
        """Yield the pieces of split `number`, then its report: the number, a `SplitReport`, and its number of items."""
        held = _Held(number)
        records = record_bytes = 0
        settled = settle(split)
        runs, scan = QueueRuns(self._batch_topics), self._scan(settled)
        walk = SplitScan(settled, self._sink(scan, runs))
        for batch in walk.run():
            records += len(batch)
            record_bytes += batch.nbytes
            for run in runs.of(scan, batch):
                self._hold(held, run)
            if held.byte_count >= HELD_BYTES:
                yield from held.give()
        yield from held.give()
        yield report_piece(number, (number, walk.report(records, record_bytes), held.entries))

    def _scan(self, settled: SettledSplit) -> ColumnScan:
        return ColumnScan(
            QUEUE_COLUMNS,
            delay_levels=DelayLevels(self._delay_levels_ms),
            stop_offset=settled.stop_offset(),
            batch_rows=BATCH_ROWS,
            batch_bytes=BATCH_BYTES,
        )

    def _sink(self, scan: ColumnScan, runs: QueueRuns) -> Any:
        settings = dispatch_config(MessageStoreConfig())
        multi = MultiDispatch(settings, DelayLevels(self._delay_levels_ms))
        return dispatch_scan(scan, multi, runs.put_entry)

    def _hold(self, held: _Held, run: QueueRun) -> None:
        place, offsets, entries = run
        if self._only is not None and place not in self._only:
            return
        if self._file_entries is None:
            held.add(place, 0, offsets, entries)
            return
        files = offsets // self._file_entries
        bounds = [0, *(np.flatnonzero(np.diff(files)) + 1).tolist(), len(files)]
        for begin, end in pairwise(bounds):
            held.add(place, int(files[begin]), offsets[begin:end], entries[begin:end])


class _Held:
    """Runs that wait, by queue and file."""

    def __init__(self, number: int) -> None:
        self.entries = 0
        self.byte_count = 0
        self._sequence = number << SEQUENCE_BITS
        self._runs: dict[tuple[QueueKey, int], list[bytes]] = {}

    def add(self, place: QueueKey, file_number: int, offsets: Offsets, entries: Entries) -> None:
        self._runs.setdefault((place, file_number), []).append(pack_items(offsets, entries))
        self.entries += len(offsets)
        self.byte_count += len(offsets) * ITEM.itemsize

    def give(self) -> Iterator[Piece]:
        """Yield all held runs, as pieces."""
        for ((topic, queue_id), file_number), runs in self._runs.items():
            data = b"".join(runs)
            for begin in range(0, len(data), PIECE_ITEMS * ITEM.itemsize):
                blob = data[begin : begin + PIECE_ITEMS * ITEM.itemsize]
                yield Piece(topic, queue_id, file_number, self._sequence, blob)
                self._sequence += 1
        self._runs.clear()
        self.byte_count = 0
