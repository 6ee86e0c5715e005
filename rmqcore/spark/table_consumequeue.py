"""Table ``consumequeue``: one row an entry, from each queue's first file up to the queue's maximum offset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rmqcore._native.cq import CQ_FILLER_SIZE, CQ_STORE_UNIT_SIZE
from rmqcore.offline.info import log_end
from rmqcore.offline.queue_files import QueueFiles
from rmqcore.offline.queues import find_queues, max_offset
from rmqcore.spark.store_location import StoreLocation
from rmqcore.spark.table import TableRead, batch_of
from rmqcore.spark.table_queues import QueueChoice

QUEUES_A_TASK = 64
"""On another filesystem, where the sizes of queues are not known beforehand."""


@dataclass(frozen=True)
class QueuePiece:
    """Entries of one queue: those with queue offsets in [`start`, `end`)."""

    topic: str
    queue_id: int
    start: int = 0
    end: int = (1 << 63) - 1


@dataclass(frozen=True)
class QueuePart:
    """What one task reads."""

    store: StoreLocation
    log_end: int
    pieces: tuple[QueuePiece, ...]


class ConsumeQueueRead(TableRead):
    """A read of ``consumequeue``."""

    def parts(self) -> list[QueuePart]:
        """Queues together, or pieces of large ones; reads the newest CommitLog file to find the log's end."""
        parts = []
        for store in self.stores:
            end = log_end(store.log_files())
            pieces = self._local_pieces(store) if store.is_local else self._remote_pieces(store)
            parts += [QueuePart(store, end, group) for group in pieces]
        return parts

    def _local_pieces(self, store: StoreLocation) -> Iterator[tuple[QueuePiece, ...]]:
        choice = QueueChoice(self.options)
        most = max(1, self.options.max_partition_bytes // CQ_STORE_UNIT_SIZE)
        group: list[QueuePiece] = []
        entries = 0
        for queue in find_queues(store.paths):
            if not choice.takes(queue.topic, queue.queue_id):
                continue
            for first, count in queue.spans():
                for start in range(first, first + count, most):
                    piece = QueuePiece(
                        queue.topic, queue.queue_id, start, min(start + most, first + count)
                    )
                    if group and entries + piece.end - piece.start > most:
                        yield tuple(group)
                        group, entries = [], 0
                    group.append(piece)
                    entries += piece.end - piece.start
        if group:
            yield tuple(group)

    def _remote_pieces(self, store: StoreLocation) -> Iterator[tuple[QueuePiece, ...]]:
        choice = QueueChoice(self.options)
        found = [
            QueuePiece(topic, int(name))
            for topic, is_topic in store.names("consumequeue").items()
            if is_topic and choice.takes_topic(topic)
            for name, is_queue in store.names(f"consumequeue/{topic}").items()
            if is_queue and name.isascii() and name.isdigit() and choice.takes(topic, int(name))
        ]
        for begin in range(0, len(found), QUEUES_A_TASK):
            yield tuple(found[begin : begin + QUEUES_A_TASK])

    def read(self, part: QueuePart) -> Iterator[Any]:
        """Read the entries of each piece."""
        for piece in part.pieces:
            folder = f"consumequeue/{piece.topic}/{piece.queue_id}"
            with part.store.local_copy(folder) as paths:
                directory = paths.consumequeue / piece.topic / str(piece.queue_id)
                queue = QueueFiles(piece.topic, piece.queue_id, directory)
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
                # A filler stands where entries were before the queue's first message; a size of 0 is a hole.
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
