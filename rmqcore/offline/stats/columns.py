"""The columns that are counted, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from rmqcore._native.scan.batch import Batch

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]

COLUMNS = (
    "phy_offset",
    "msg_size",
    "born_timestamp_ms",
    "store_timestamp_ms",
    "topic_id",
    "tag_id",
)
"""The native scan has a loop of its own for these."""
WITH_QUEUE = (*COLUMNS, "queue_id")


@dataclass(frozen=True, slots=True)
class StatsColumns:
    """Messages in log order; the arrays are views that are valid as long as the batch."""

    phy_offset: Int64
    msg_size: Int32
    born_timestamp_ms: Int64
    store_timestamp_ms: Int64
    topic_id: Int32
    tag_id: Int32
    queue_id: Int32 | None

    @classmethod
    def of(cls, batch: Batch) -> Self:
        """Return the arrays of a batch with the `COLUMNS`."""

        def column(name: str, kind: type) -> Any:
            return np.frombuffer(batch.buffer(name), kind)

        return cls(
            column("phy_offset", np.int64),
            column("msg_size", np.int32),
            column("born_timestamp_ms", np.int64),
            column("store_timestamp_ms", np.int64),
            column("topic_id", np.int32),
            column("tag_id", np.int32),
            column("queue_id", np.int32) if "queue_id" in batch.column_names else None,
        )
