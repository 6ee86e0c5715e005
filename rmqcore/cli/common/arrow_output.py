"""Messages as Arrow IPC or Parquet; no other module of the command line loads pyarrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, Protocol

from rmqcore.cli.common.output import RowFormat
from rmqcore.codec import scan
from rmqcore.codec.message import MessageView
from rmqcore.offline.export.parquet_writer import LONG_BYTES, parquet_writer

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP_BYTES = 32 * 1024 * 1024


class Batches(Protocol):
    """A schema and its batches, which are made on demand."""

    @property
    def schema(self) -> pa.Schema:
        """Schema of all batches."""

    def __iter__(self) -> Iterator[pa.RecordBatch]: ...


def write_batches(
    batches: Batches,
    out: BinaryIO,
    kind: RowFormat,
    *,
    limit: int | None = None,
    seekable: bool = True,
) -> None:
    """Write batches as they come.

    Arrow is written in the IPC file format to a file and in the IPC stream format to a pipe, which
    cannot seek; Parquet gets row groups of about 32 MiB.
    """
    import pyarrow as pa

    rows = _limited(batches, limit)
    schema = batches.schema
    if kind == RowFormat.parquet:
        _write_parquet(rows, schema, out)
        return
    with (pa.ipc.new_file if seekable else pa.ipc.new_stream)(out, schema) as writer:
        for batch in rows:
            writer.write_batch(batch)
            del batch  # the next one may be large, too


def _limited(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in batches:
        if left is None:
            yield batch
            del batch
            continue
        if left <= 0:
            return
        yield batch[:left]
        left -= batch.num_rows
        del batch


def _write_parquet(batches: Iterable[pa.RecordBatch], schema: pa.Schema, out: BinaryIO) -> None:
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    waiting_bytes = 0

    def write_waiting() -> None:
        writer.write_table(pa.Table.from_batches(waiting, schema))
        waiting.clear()

    with parquet_writer(out, schema, "zstd") as writer:
        for batch in batches:
            size = batch.get_total_buffer_size()
            if waiting and waiting_bytes + size > ROW_GROUP_BYTES:
                write_waiting()
                waiting_bytes = 0
            waiting.append(batch)
            waiting_bytes += size
            del batch
            if size > LONG_BYTES:  # a long message waits for no other
                write_waiting()
                waiting_bytes = 0
        if waiting:
            write_waiting()


class ViewBatches:
    """Makes a single batch of messages that are already decoded."""

    def __init__(self, views: Iterable[MessageView], columns: Sequence[str]) -> None:
        import pyarrow as pa

        found = scan(b"".join(view.raw for view in views), columns=columns)
        self._batch = pa.record_batch(found)
        self.schema = self._batch.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield self._batch
