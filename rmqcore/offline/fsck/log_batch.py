"""Records of the log as columns, a batch at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan

BATCH_ROWS = 1 << 19
BATCH_BYTES = 128 * 1024 * 1024
"""Bytes of records in a batch: they also bound its keys, each of which takes at least a byte and a space."""

TOPIC_ROOM = 8 << 20
"""Bytes of memory for the topics of a batch, and of those before it."""

COLUMNS = (
    "phy_offset",
    "msg_size",
    "queue_id",
    "queue_offset",
    "sys_flag",
    "store_timestamp_ms",
    "tags_code",
    "topic_id",
)

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class LogBatch:
    """Sound records in log order as columns; the arrays are views that are valid until the next batch comes.

    Attributes
    ----------
    key_offsets : array
        Row i's index key hashes are ``key_hashes[key_offsets[i]:key_offsets[i + 1]]``.
    topics : list of str
        Names by ``topic_id``.
    numbering : int
        How often topics were numbered anew: a ``topic_id`` means another topic then.
    """

    phy_offset: Int64
    msg_size: Int32
    queue_id: Int32
    queue_offset: Int64
    sys_flag: Int32
    store_timestamp_ms: Int64
    tags_code: Int64
    topic_id: Int32
    key_hashes: Int32
    key_offsets: Int32
    topics: list[str]
    numbering: int

    def __len__(self) -> int:
        return len(self.phy_offset)

    def part(self, start: int, stop: int) -> LogBatch:
        """The rows [start, stop) of this batch."""
        rows = slice(start, stop)
        first, last = int(self.key_offsets[start]), int(self.key_offsets[stop])
        return LogBatch(
            self.phy_offset[rows],
            self.msg_size[rows],
            self.queue_id[rows],
            self.queue_offset[rows],
            self.sys_flag[rows],
            self.store_timestamp_ms[rows],
            self.tags_code[rows],
            self.topic_id[rows],
            self.key_hashes[first:last],
            self.key_offsets[start : stop + 1] - first,
            self.topics,
            self.numbering,
        )

    @property
    def end_phy_offset(self) -> int:
        """CommitLog offset behind the last record."""
        return int(self.phy_offset[-1]) + int(self.msg_size[-1])


def as_log_batch(batch: Batch, scan: ColumnScan) -> LogBatch:
    """Look at a scan's batch, which holds `COLUMNS` and perhaps ``key_hashes``, as arrays."""

    def column(name: str, kind: type[Any], part: str = "values") -> Any:
        return np.frombuffer(batch.buffer(name, part), kind)

    hashes, offsets = np.empty(0, np.int32), np.zeros(batch.num_rows + 1, np.int32)
    if "key_hashes" in batch.column_names:
        hashes, offsets = column("key_hashes", np.int32), column("key_hashes", np.int32, "offsets")
    return LogBatch(
        column("phy_offset", np.int64),
        column("msg_size", np.int32),
        column("queue_id", np.int32),
        column("queue_offset", np.int64),
        column("sys_flag", np.int32),
        column("store_timestamp_ms", np.int64),
        column("tags_code", np.int64),
        column("topic_id", np.int32),
        hashes,
        offsets,
        scan.topics(),
        scan.numbering,
    )
