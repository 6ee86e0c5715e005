"""Choice of the queue of each row, as by Java's producers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rmqcore.spark.udf.kernels import java_hash

_INT32 = 32


class RoundRobin:
    """Chooses the next queue of a row's topic, separately for each topic; a task begins with queue 0.

    Parameters
    ----------
    queues : int
    """

    def __init__(self, queues: int) -> None:
        self._queues = queues
        self._next: dict[Any, int] = {}

    def queue_ids(self, topics: pa.Array) -> pa.Array:
        """Return the queue of each row of a batch."""
        encoded = topics if isinstance(topics, pa.DictionaryArray) else topics.dictionary_encode()
        names = encoded.dictionary.to_pylist() or [None]
        codes = pc.fill_null(
            encoded.indices, 0
        ).to_numpy()  # a row without a topic is refused later
        order = np.argsort(codes, kind="stable")
        of_row, counts = codes[order], np.bincount(codes, minlength=len(names))
        first = np.array([self._next.get(name, 0) for name in names])
        ranks = np.arange(len(codes)) - (np.cumsum(counts) - counts)[of_row]
        ids: npt.NDArray[np.int32] = np.empty(len(codes), np.int32)
        ids[order] = (first[of_row] + ranks) % self._queues
        self._next.update(zip(names, ((first + counts) % self._queues).tolist(), strict=True))
        return pa.array(ids)


def queues_by_hash(values: pa.Array, queues: int) -> pa.Array:
    """Return the queue by ``hashCode()`` of String, Integer or Long; queue 0 for null.

    Source: RocketMQ 5.5.0 SelectMessageQueueByHash.
    """
    if pa.types.is_integer(values.type):
        numbers = pc.fill_null(values, 0).cast(pa.int64()).to_numpy()
        if values.type.bit_width > _INT32:
            numbers = (numbers ^ (numbers.view(np.uint64) >> np.uint64(32)).view(np.int64)).astype(
                np.int32
            )
        hashes = numbers.astype(np.int64)
    else:
        hashes = pc.fill_null(java_hash(values), 0).cast(pa.int64()).to_numpy()
    # The remainder in Java has the sign of the hash.
    return pa.array((np.abs(hashes) % queues).astype(np.int32))
