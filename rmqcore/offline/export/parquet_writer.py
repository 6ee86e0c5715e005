"""A writer of Parquet files, with settings for messages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

Compression = Literal["zstd", "snappy", "none"]

ROWS_A_STEP = 16
"""Rows after which a page may end, if their length is unknown. With Arrow's 1024 a page holds 24 MiB of bodies of 1 MiB,
and memory four times a page."""
STEP_BYTES = 256 * 1024
"""Bytes after which a page of rows known to be short may end: each step costs a call for each column."""
MOST_ROWS_A_STEP = 1024

LONG_BYTES = 8 * 1024 * 1024
"""A batch with a long message, of more bytes than this, is written by itself: it neither waits nor joins other batches."""

_REPEATING = {
    "topic",
    "tags",
    "born_host",
    "store_host",
    "queue_id",
    "magic",
    "sys_flag",
    "flag",
    "reconsume_times",
    "broker",
}
NOT_SORTED_BY = {"body", "properties", "keys"}
"""Columns for which the files have no least and greatest value."""


def rows_a_step(rows: int, byte_count: int) -> int:
    """Return the number of rows after which a page may end, for rows about as long as those of the first row group.

    Parameters
    ----------
    rows, byte_count : int
        Of the row group.
    """
    return max(ROWS_A_STEP, min(MOST_ROWS_A_STEP, STEP_BYTES * rows // max(byte_count, 1)))


def parquet_writer(
    out: Path | BinaryIO, schema: pa.Schema, compression: Compression, step: int = ROWS_A_STEP
) -> pq.ParquetWriter:
    """Open a writer.

    Only columns that repeat have a dictionary. Bodies have no least and greatest value: queries do not use them, and
    both would be copies of whole bodies.
    """
    import pyarrow.parquet as pq

    return pq.ParquetWriter(
        out,
        schema,
        compression=compression,
        use_dictionary=[name for name in schema.names if name in _REPEATING],
        write_batch_size=step,
        write_statistics=[name for name in schema.names if name not in NOT_SORTED_BY],
    )
