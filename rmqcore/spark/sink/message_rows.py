"""Batches of a frame as the Arrow columns that `put_arrow` accepts, in a task."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmqcore.spark.options.sink_options import SinkOptions
from rmqcore.spark.sink.columns import WriteColumns
from rmqcore.spark.sink.queue_selector import RoundRobin, queues_by_hash
from rmqcore.vocabulary.properties import KEYS, UNIQ_KEY


class MessageRows:
    """Makes the columns of messages, batch by batch; keeps the next queue of each topic.

    Parameters
    ----------
    columns : WriteColumns
    options : SinkOptions
    """

    def __init__(self, columns: WriteColumns, options: SinkOptions) -> None:
        self._named = columns.named
        self._hash_column = columns.hash_column
        self._topic = options.topic
        self._queues = options.queues
        by_column = options.queue_selector == "column" or (
            options.queue_selector is None and "queue_id" in self._named
        )
        self._round_robin = None if by_column or self._hash_column else RoundRobin(options.queues)

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch as messages.

        Raises
        ------
        ValueError
            A row's UNIQ_KEY in ``properties`` differs from its ``uniq_key``.
        """
        found = {field: batch.column(column) for field, column in self._named.items()}
        if self._topic is not None:
            found["topic"] = _constant(self._topic, batch.num_rows)
        if self._hash_column is not None:
            found["queue_id"] = queues_by_hash(batch.column(self._hash_column), self._queues)
        elif self._round_robin is not None:
            found["queue_id"] = self._round_robin.queue_ids(found["topic"])
        if pa.types.is_string(found["body"].type) or pa.types.is_large_string(found["body"].type):
            found["body"] = pc.cast(
                found["body"],
                pa.large_binary() if pa.types.is_large_string(found["body"].type) else pa.binary(),
            )
        if "keys" in found and not pa.types.is_list(found["keys"].type):
            found["keys"] = _words(_keys_to_add(found["keys"], found.get("properties")))
        if "uniq_key" in found:
            found["properties"] = _with_uniq_key(found.pop("uniq_key"), found.get("properties"))
        if "born_timestamp" in found:
            found["born_timestamp_ms"] = found.pop("born_timestamp")
        return pa.record_batch(found)


def _constant(text: str, rows: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([text]))


def _keys_to_add(keys: pa.Array, properties: pa.Array | None) -> pa.Array:
    """Return the keys, without rows whose properties have the same words: their KEYS keeps its own spaces."""
    if properties is None:
        return keys
    known = _property(properties, KEYS)
    same = pc.fill_null(pc.equal(known, keys), False)
    if not pc.all(pc.or_(same, keys.is_null())).as_py():
        joined = (pc.binary_join(_words(texts), " ") for texts in (known, keys))
        same = pc.fill_null(pc.equal(*joined), False)
    return pc.if_else(same, pa.scalar(None, keys.type), keys)


def _words(keys: pa.Array) -> pa.Array:
    """Return the words of each text, an empty list for a text without words."""
    trimmed = pc.ascii_trim(keys, " ")
    trimmed = pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, trimmed.type), trimmed)
    return pc.split_pattern_regex(trimmed, " +")


def _with_uniq_key(uniq_keys: pa.Array, properties: pa.Array | None) -> pa.Array:
    """Return the properties with the unique key of each row that has one."""
    if properties is None:
        ends = np.concatenate([[0], np.cumsum(uniq_keys.is_valid().to_numpy(zero_copy_only=False))])
        items = uniq_keys.drop_null()
        return pa.MapArray.from_arrays(
            pa.array(ends.astype(np.int32)), pa.repeat(UNIQ_KEY, len(items)), items
        )
    known = _property(properties, UNIQ_KEY)
    same = pc.or_kleene(pc.equal(known, uniq_keys), pc.and_(known.is_null(), uniq_keys.is_null()))
    other = np.flatnonzero(~pc.fill_null(same, False).to_numpy(zero_copy_only=False))
    if len(other):
        row = int(other[0])
        raise ValueError(
            f"column uniq_key: expected {known[row].as_py()!r}, the value of {UNIQ_KEY} in column "
            f"properties, found {uniq_keys[row].as_py()!r}; drop one of the two"
        )
    return properties


def _property(properties: pa.Array, name: str) -> pa.Array:
    """Return the first value of a property in each row; ``map_lookup`` would take longer than all other work on a row."""
    entries = np.flatnonzero(pc.equal(properties.keys, name).to_numpy(zero_copy_only=False))
    offsets = properties.offsets.to_numpy()
    inside = (entries >= offsets[0]) & (
        entries < offsets[-1]
    )  # a slice keeps the entries of the whole array
    entries = entries[inside][::-1]
    places = np.full(len(properties), -1)
    places[np.searchsorted(offsets, entries, side="right") - 1] = entries
    if properties.null_count:
        places[properties.is_null().to_numpy(zero_copy_only=False)] = -1
    return properties.items.take(pa.array(places, mask=places < 0))
