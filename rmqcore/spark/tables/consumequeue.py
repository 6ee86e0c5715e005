"""Table ``consumequeue``: a row for each entry, from each queue's first file up to the queue's maximum offset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rmqcore._native.format.layout import CQ_FILLER_SIZE, CQ_STORE_UNIT_SIZE
from rmqcore.offline.queues.queue_reader import QueueFiles
from rmqcore.offline.queues.queues import find_queues, max_offset
from rmqcore.spark.storage.store_location import StoreLocation
from rmqcore.spark.tables.queues import QueueChoice
from rmqcore.spark.tables.table import TableRead, batch_of, packed
from rmqcore.vocabulary.units import LONG_MAX

QUEUES_A_TASK = 64
"""Queues per task on another filesystem, where the sizes of queues are unknown beforehand."""


@dataclass(frozen=True)
class QueuePiece:
    """The entries of one queue with queue offsets in [`start`, `end`)."""

    topic: str
    queue_id: int
    start: int = 0
    end: int = LONG_MAX


@dataclass(frozen=True)
class QueuePart:
    """The pieces that one task reads; `log_end` is the CommitLog offset behind the store's last sound record."""

    store: StoreLocation
    log_end: int
    pieces: tuple[QueuePiece, ...]


class ConsumeQueueRead(TableRead):
    """A read of ``consumequeue``."""

    def planned_parts(self) -> list[QueuePart]:
        """Return parts of several small queues, or of a piece of a large queue."""
        parts = []
        for store in self.stores:
            end = store.log_end()
            pieces = self._local_pieces(store) if store.is_local else self._remote_pieces(store)
            parts += [QueuePart(store, end, group) for group in pieces]
        return parts

    def _local_pieces(self, store: StoreLocation) -> Iterator[tuple[QueuePiece, ...]]:
        choice = QueueChoice(self.options)
        most = max(1, self.options.max_partition_bytes // CQ_STORE_UNIT_SIZE)
        pieces = (
            QueuePiece(queue.topic, queue.queue_id, start, min(start + most, first + count))
            for queue in find_queues(store.paths)
            if choice.takes(queue.topic, queue.queue_id)
            for first, count in queue.spans()
            for start in range(first, first + count, most)
        )
        return packed(pieces, lambda piece: piece.end - piece.start, most)

    def _remote_pieces(self, store: StoreLocation) -> Iterator[tuple[QueuePiece, ...]]:
        choice = QueueChoice(self.options)
        found = [
            QueuePiece(topic, queue_id)
            for topic, queue_id in store.queue_names(choice.takes_topic)
            if choice.takes(topic, queue_id)
        ]
        for begin in range(0, len(found), QUEUES_A_TASK):
            yield tuple(found[begin : begin + QUEUES_A_TASK])

    def read(self, part: QueuePart) -> Iterator[Any]:
        """Read the entries of each piece."""
        places = [(piece.topic, piece.queue_id) for piece in part.pieces]
        with part.store.local_queues(*places) as queues:
            for piece, queue in zip(part.pieces, queues, strict=True):
                yield from self._entries(part.store.broker, queue, piece, part.log_end)

    def _entries(
        self, broker: str, queue: QueueFiles, piece: QueuePiece, log_end_offset: int
    ) -> Iterator[Any]:
        end = min(piece.end, max_offset(queue, log_end_offset))
        for first, count in queue.spans():
            for start in range(
                max(first, piece.start), min(first + count, end), self.options.batch_rows
            ):
                wanted = min(self.options.batch_rows, first + count - start, end - start)
                entries = queue.entries(start, wanted)
                # Fillers precede the first message of a queue that began at a later offset; a size of 0 is a hole.
                sizes = entries["msg_size"]
                filler = (
                    (entries["phy_offset"] == 0)
                    & (sizes == CQ_FILLER_SIZE)
                    & (entries["tags_code"] == 0)
                )
                kept = ~filler & (sizes > 0)
                if not kept.any():
                    continue
                values = {
                    "broker": broker,
                    "topic": queue.topic,
                    "queue_id": queue.queue_id,
                    "queue_offset": (start + np.arange(len(entries)))[kept],
                    "phy_offset": entries["phy_offset"][kept].astype(np.int64),
                    "msg_size": sizes[kept].astype(np.int32),
                    "tags_code": entries["tags_code"][kept].astype(np.int64),
                }
                yield batch_of(self.columns, values, int(kept.sum()))
