"""The rows in the shuffle of a queue rebuild: pieces of queues, as blobs of 28-byte items, never one row per entry."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rmqcore._native.format.cq_arrays import CQ_DTYPE
from rmqcore.maintenance.rebuild.queue_runs import Entries, Offsets
from rmqcore.vocabulary.topics import QueueKey

if TYPE_CHECKING:
    import pyarrow as pa

ITEM = np.dtype([("queue_offset", "<i8"), ("entry", CQ_DTYPE)])
PIECE_ITEMS = 32_768
"""Items of a blob, at most: 0.9 MiB."""
BATCH_BYTES = 4 << 20
SCHEMA = "topic string, queue_id int, file_number long, sequence long, blob binary"
SEQUENCE_BITS = 32


@dataclass(frozen=True, slots=True)
class Piece:
    """Items of one queue, in the order of their records; or, without a topic, a report for the driver.

    Attributes
    ----------
    topic : str or None
    queue_id : int
    file_number : int
        Which file of the queue, where pieces are cut at files.
    sequence : int
        Ascends in the order of the log, over all splits.
    blob : bytes
    """

    topic: str | None
    queue_id: int
    file_number: int
    sequence: int
    blob: bytes

    @property
    def place(self) -> QueueKey:
        """The queue; undefined for a report."""
        assert self.topic is not None
        return self.topic, self.queue_id

    def items(self) -> tuple[Offsets, Entries]:
        """Queue offsets and entries."""
        items = np.frombuffer(self.blob, ITEM)
        return items["queue_offset"].astype(np.int64), items["entry"]


def pack_items(offsets: Offsets, entries: Entries) -> bytes:
    """Pack queue offsets and entries as one blob."""
    items = np.empty(len(offsets), ITEM)
    items["queue_offset"], items["entry"] = offsets, entries
    return items.tobytes()


def report_piece(number: int, report: object) -> Piece:
    """Return a report as a piece, which every reducer passes to the driver."""
    return Piece(None, 0, number, number << SEQUENCE_BITS, pickle.dumps(report))


def batches_of(pieces: Iterable[Piece]) -> Iterator[pa.RecordBatch]:
    """Yield record batches of the schema `SCHEMA`, of about 4 MiB."""
    gathered: list[Piece] = []
    byte_count = 0
    for piece in pieces:
        gathered.append(piece)
        byte_count += len(piece.blob)
        if byte_count >= BATCH_BYTES:
            yield _batch_of(gathered)
            gathered, byte_count = [], 0
    if gathered:
        yield _batch_of(gathered)


def _batch_of(pieces: list[Piece]) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays(
        [
            pa.array([piece.topic for piece in pieces], pa.string()),
            pa.array([piece.queue_id for piece in pieces], pa.int32()),
            pa.array([piece.file_number for piece in pieces], pa.int64()),
            pa.array([piece.sequence for piece in pieces], pa.int64()),
            pa.array([piece.blob for piece in pieces], pa.binary()),
        ],
        names=["topic", "queue_id", "file_number", "sequence", "blob"],
    )


def pieces_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Piece]:
    """Yield the pieces of record batches of the schema `SCHEMA`."""
    for batch in batches:
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield Piece(*row)
