"""Conditions that the native scan cannot test: they are tested on the rows of a batch, one column at a time."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.options.values import EARLIEST, LATEST, QueueOffsets
from rmqcore.vocabulary.sysflag import has_queue_entry
from rmqcore.vocabulary.topics import TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from rmqcore.vocabulary.units import LONG_MAX, LONG_MIN

TRANSACTION_TOPICS = frozenset({TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC})
"""Topics in which the broker keeps messages of open transactions, and marks of finished ones."""

Mask = npt.NDArray[np.bool_]

_FIRST, _LAST = LONG_MIN, LONG_MAX
"""The least and the greatest queue offset that a record can have, also with a damaged header."""


class RowChoice:
    """The options topicsPattern, includeTransactionHalf, startingOffsets and endingOffsets.

    Attributes
    ----------
    native : tuple of str
        Columns that the scan must return for it; empty if every row is accepted.

    Notes
    -----
    The scan numbers topics, so each name is tested once, not once per row.
    """

    def __init__(self, options: SourceOptions, broker: str) -> None:
        self._pattern = (
            None if options.topics_pattern is None else re.compile(options.topics_pattern)
        )
        self._half = options.include_transaction_half
        starts = options.starting_offsets if options.starting_timestamp is None else "earliest"
        ends = options.ending_offsets if options.ending_timestamp is None else "latest"
        self._bounds = _bounds(starts, ends, broker)
        self._by_queue = _QueueBounds()
        self._topics_seen = 0
        self._wanted = np.empty(0, np.bool_)
        native = set()
        if self._pattern is not None or self._bounds or not self._half:
            native.add("topic_id")
        if self._bounds:
            native |= {"queue_id", "queue_offset"}
        if not self._half:
            native.add("sys_flag")
        self.native = tuple(sorted(native))

    def mask(self, batch: Batch, scan: ColumnScan) -> Mask | None:
        """Return a mask of the accepted rows; None for all."""
        if not self.native or not len(batch):
            return None
        self._learn(scan.topics(self._topics_seen))
        topic_ids = _column(batch, "topic_id", np.int32)
        found: Mask = self._wanted[topic_ids]
        if not self._half:
            found &= has_queue_entry(_column(batch, "sys_flag", np.int32))
        if self._bounds:
            queue_ids = _column(batch, "queue_id", np.int32)
            found &= self._by_queue.mask(
                topic_ids, queue_ids, _column(batch, "queue_offset", np.int64)
            )
        return None if found.all() else found

    def _learn(self, topics: list[str]) -> None:
        """Decide on the topics that the scan has met since the last call."""
        if not topics:
            return
        new = [
            (self._pattern is None or self._pattern.fullmatch(topic) is not None)
            and (self._half or topic not in TRANSACTION_TOPICS)
            for topic in topics
        ]
        for number, topic in enumerate(topics, start=self._topics_seen):
            for queue_id, (low, high) in self._bounds.get(topic, {}).items():
                self._by_queue.add(number, queue_id, low, high)
        self._wanted = np.concatenate([self._wanted, np.array(new, np.bool_)])
        self._topics_seen += len(topics)


class _QueueBounds:
    """The first and the last accepted queue offset, by topic number and queue id, in sorted arrays."""

    def __init__(self) -> None:
        self._given: dict[int, tuple[int, int]] = {}
        self._keys: npt.NDArray[np.int64] | None = None
        self._lows = self._highs = np.empty(0, np.int64)

    def add(self, topic_id: int, queue_id: int, low: int, high: int) -> None:
        self._given[topic_id << 32 | queue_id] = (low, high)
        self._keys = None

    def mask(self, topic_ids: Any, queue_ids: Any, queue_offsets: Any) -> Mask:
        if self._keys is None:
            keys = sorted(self._given)
            self._keys = np.array(keys, np.int64)
            self._lows = np.array([self._given[key][0] for key in keys], np.int64)
            self._highs = np.array([self._given[key][1] for key in keys], np.int64)
        if not len(self._keys):
            return np.ones(len(topic_ids), np.bool_)
        wanted = topic_ids.astype(np.int64) << 32 | queue_ids.astype(np.int64)
        at = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        unbound = self._keys[at] != wanted
        inside: Mask = (queue_offsets >= self._lows[at]) & (queue_offsets <= self._highs[at])
        inside |= unbound
        return inside


def _bounds(
    starts: QueueOffsets | str, ends: QueueOffsets | str, broker: str
) -> dict[str, dict[int, tuple[int, int]]]:
    """Return topic -> queue id -> the first and the last wanted queue offset, for one store."""
    found: dict[str, dict[int, tuple[int, int]]] = {}
    for place, given in enumerate((starts, ends)):
        if isinstance(given, str):
            continue
        for topic, brokers in given.items():
            for queue_id, queue_offset in brokers.get(broker, {}).items():
                low, high = found.setdefault(topic, {}).get(queue_id, (_FIRST, _LAST))
                # earliest is before, and latest behind, every offset
                value = {EARLIEST: _FIRST, LATEST: _LAST}.get(queue_offset, queue_offset - place)
                found[topic][queue_id] = (value, high) if place == 0 else (low, value)
    return found


def _column(batch: Batch, name: str, dtype: Any) -> npt.NDArray[Any]:
    return np.frombuffer(batch.buffer(name), dtype)
