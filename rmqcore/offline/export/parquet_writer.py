"""A writer of Parquet files, with what suits messages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

Compression = Literal["zstd", "snappy", "none"]

ROWS_A_STEP = 16
"""Rows after which a page may end, where nobody knows how long they are. With Arrow's 1024 a page holds 24 MiB of bodies of a
mebibyte, and memory four times a page."""
STEP_BYTES = 256 * 1024
"""Rows that are known to be short may be as many as make so many bytes: a step costs a call for each column."""
MOST_ROWS_A_STEP = 1024

LONG_BYTES = 8 * 1024 * 1024
"""A batch of more bytes, of a long message, waits for no other, and joins none that it would make so much larger."""

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
"""Columns without a least and a greatest value in the files."""


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

    Only columns that repeat have a dictionary. Bodies have no least and greatest value: nobody looks for them, and the two are
    copies.
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
