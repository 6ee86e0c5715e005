"""Messages as Arrow IPC or Parquet; no other module of the command line loads pyarrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, Protocol

from rmqcore.cli.common.output import RowFormat
from rmqcore.codec import scan
from rmqcore.message import MessageView

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP_BYTES = 32 * 1024 * 1024


class Batches(Protocol):
    """A schema and batches, as `StoreReader.batches` gives them."""

    def __arrow_c_schema__(self) -> object: ...

    def __iter__(self) -> Iterator[object]: ...


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

    schema = pa.schema(batches)
    rows = _limited((pa.record_batch(batch) for batch in batches), limit)
    if kind == RowFormat.parquet:
        _write_parquet(rows, schema, out)
        return
    with (pa.ipc.new_file if seekable else pa.ipc.new_stream)(out, schema) as writer:
        for batch in rows:
            writer.write_batch(batch)


def _limited(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in batches:
        if left is None:
            yield batch
            continue
        if left <= 0:
            return
        yield batch[:left]
        left -= batch.num_rows


def _write_parquet(batches: Iterable[pa.RecordBatch], schema: pa.Schema, out: BinaryIO) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    waiting: list[pa.RecordBatch] = []
    waiting_bytes = 0
    with pq.ParquetWriter(out, schema, compression="zstd") as writer:
        for batch in batches:
            waiting.append(batch)
            waiting_bytes += batch.get_total_buffer_size()
            if waiting_bytes >= ROW_GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(waiting, schema))
                waiting, waiting_bytes = [], 0
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting, schema))


class ViewBatches:
    """Makes a single batch of messages that are already decoded."""

    def __init__(self, views: Iterable[MessageView], columns: Sequence[str]) -> None:
        self._found = scan(b"".join(view.raw for view in views), columns=columns)

    def __arrow_c_schema__(self) -> object:
        return self._found.__arrow_c_schema__()

    def __iter__(self) -> Iterator[object]:
        yield self._found
