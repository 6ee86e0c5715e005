"""Messages as Arrow record batches; memory depends on the longest wanted part of a body, not on the longest record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqcore._native.format.codec import MessageView
from rmqcore._native.scan.batch import Batch, ColumnList
from rmqcore.codec import scan_batches
from rmqcore.offline.export.unwrapped import OnFailure, unwrapped
from rmqcore.offline.log.batch_stream import BatchStream
from rmqcore.offline.log.conditions import Conditions
from rmqcore.offline.log.walk import Progress
from rmqcore.offline.reader import StoreReader

if TYPE_CHECKING:
    import pyarrow as pa

UNWRAPPED_BYTES = 2 << 20
"""Bytes of records that are gathered if batches are taken apart."""


class RecordBatches:
    """Iterator over a store's messages in batches, each made when it is requested.

    Parameters
    ----------
    reader : StoreReader
    columns : sequence of str
        Of `rmqcore.offline.export.message_rows.FIELDS`.
    wanted : Conditions
    max_body : int
        Longer bodies are cut to this number of bytes.
    on_shortened : callable
        Called with the phy offset of each message whose body is longer.
    verify_crc, progress
        As in `StoreReader.messages`.
    on_wrapped : callable, optional
        Take stored batches apart, as `unwrapped` does. Memory then depends on the longest record.

    Attributes
    ----------
    schema : pyarrow.Schema
    """

    def __init__(
        self,
        reader: StoreReader,
        columns: Sequence[str],
        wanted: Conditions,
        *,
        max_body: int,
        on_shortened: Callable[[int], object],
        verify_crc: bool = False,
        progress: Progress | None = None,
        on_wrapped: OnFailure | None = None,
    ) -> None:
        import pyarrow as pa

        self._columns = ColumnList(columns)
        self.schema = pa.schema(BatchStream(self._columns, lambda: iter(())))
        self._max_body = max_body if "body" in columns else 0
        self._on_shortened = on_shortened if "body" in columns else None
        self._read: Callable[[], Iterator[Batch | MessageView]]
        if on_wrapped is None:
            self._read = partial(
                reader.batches_and_views,
                self._columns,
                wanted,
                most_body=self._max_body,
                verify_crc=verify_crc,
                progress=progress,
            )
        else:
            views = partial(
                reader.messages, **wanted.keywords(), verify_crc=verify_crc, progress=progress
            )
            self._read = lambda: _unwrapped_rows(views(), columns, on_wrapped)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for rows in self._read():
            if isinstance(rows, MessageView):
                _give_back_memory()
                batch = self._row(rows)
                del rows  # only the caller holds the batch
                yield batch
                del batch
                _give_back_memory()
            else:
                yield self._shortened(pa.record_batch(rows))

    def _shortened(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with bodies cut to `max_body`."""
        if self._on_shortened is None or self._max_body >= batch.nbytes:
            return batch
        import pyarrow.compute as pc

        bodies = batch.column("body")
        sizes = pc.binary_length(bodies).to_numpy()
        longer = np.flatnonzero(sizes > self._max_body)
        if len(longer) == 0:
            return batch
        for phy_offset in batch.column("phy_offset").to_numpy()[longer].tolist():
            self._on_shortened(phy_offset)
        arrays = batch.columns
        arrays[batch.schema.get_field_index("body")] = pc.binary_slice(bodies, 0, self._max_body)
        return batch.from_arrays(arrays, schema=batch.schema)

    def _row(self, view: MessageView) -> pa.RecordBatch:
        """Return a batch of one message."""
        import pyarrow as pa

        if self._on_shortened is not None and view.body_size > self._max_body:
            self._on_shortened(view.phy_offset)
        arrays = [self._value(view, field) for field in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _value(self, view: MessageView, field: pa.Field) -> pa.Array:
        import pyarrow as pa

        if field.name == "body":  # not copied once more
            body = pa.py_buffer(view.body_start(self._max_body))
            ends = pa.py_buffer(np.array([0, body.size], np.int32))
            return pa.Array.from_buffers(field.type, 1, [None, ends, body])
        value: Any = getattr(view, field.name)
        if field.name == "properties":
            value = list(value.items())
        return pa.array([value], field.type)


def _unwrapped_rows(
    views: Iterator[MessageView], columns: Sequence[str], on_failure: OnFailure
) -> Iterator[Batch]:
    """Yield messages as columns, those of stored batches in place of the batches."""
    waiting: list[bytes] = []
    size = 0
    for view in unwrapped(views, on_failure):
        waiting.append(view.raw)
        size += view.msg_size
        if size >= UNWRAPPED_BYTES:
            yield from scan_batches(b"".join(waiting), columns=columns)
            waiting.clear()
            size = 0
    yield from scan_batches(b"".join(waiting), columns=columns)


def _give_back_memory() -> None:
    """Have the allocators release free memory: pieces of tens of mebibytes, whose sizes are not needed again."""
    import pyarrow as pa

    for pool in (pa.default_memory_pool(), pa.system_memory_pool()):
        pool.release_unused()
