"""Parquet files of an export, in bounded memory for any number of topics.

Batches gather to a chunk, which is sorted by partition. A partition's rows in one chunk are usually too few for a row
group, so they are appended to the partition's spill file, and a row group is written whenever that file is large
enough. Rows that suffice for a row group go to Parquet directly.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rmqcore.offline.export.parquet_writer import LONG_BYTES, Compression, parquet_writer
from rmqcore.offline.export.part_files import Partition, PartNames
from rmqcore.offline.export.partitions import LAST_DAY
from rmqcore.vocabulary.units import DAY_MS

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

Days = Callable[["pa.RecordBatch"], npt.NDArray[np.int64]]

CHUNK_BYTES = 24 * 1024 * 1024
ROW_GROUP_BYTES = 16 * 1024 * 1024
DIRECT_BYTES = 4 * 1024 * 1024
OPEN_WRITERS = 16
ROW_GROUPS_A_FILE = 64


class ParquetParts:
    """Parquet files by partition, with rows in the order of the calls.

    A file has the columns of the batches, and one ``topic`` in all rows, also in its metadata. At most `OPEN_WRITERS`
    files
    are open: to open another, the least recently used file is finished, and later rows of its partition go to a new part.

    Parameters
    ----------
    folder : Path
    compression : {"zstd", "snappy", "none"}
    days : callable, optional
        Returns the days since 1970-01-01 of the rows of a batch, -1 outside of the calendar; None: by
        ``store_timestamp_ms``.
    chunk_bytes : int, optional
        Bytes of batches that gather to a chunk, 24 MiB if None; memory holds at most about twice this size.
    """

    def __init__(
        self,
        folder: Path,
        compression: Compression,
        days: Days | None = None,
        *,
        chunk_bytes: int | None = None,
    ) -> None:
        self.names = PartNames(folder, "parquet")
        self._compression = compression
        self._spills = _Spills(folder)
        self._chunk = RowChunk(
            days or days_of_ms, CHUNK_BYTES if chunk_bytes is None else chunk_bytes
        )
        self._writers: OrderedDict[Partition, tuple[pq.ParquetWriter, int]] = OrderedDict()

    def write(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch."""
        if self._chunk.lacks_room(batch):
            self._distribute()
        is_full = self._chunk.add(batch)
        del batch
        if is_full:
            self._distribute()

    def _distribute(self, *, last: bool = False) -> None:
        """Pass each partition its rows of the chunk; rows of the `last` chunk do not wait for further rows."""
        import pyarrow as pa

        for partition, rows in self._chunk.take():
            if last:
                waited = self._spills.take(partition)
                self._write_row_group(partition, pa.Table.from_batches([*waited, rows]))
            elif rows.nbytes >= DIRECT_BYTES:
                self._drain(partition)
                self._write_row_group(partition, pa.Table.from_batches([rows]))
            elif self._spills.append(partition, rows) >= ROW_GROUP_BYTES:
                self._drain(partition)

    def _drain(self, partition: Partition) -> None:
        """Write the spilled rows of a partition as a row group."""
        import pyarrow as pa

        spilled = self._spills.take(partition)
        if spilled:
            self._write_row_group(partition, pa.Table.from_batches(spilled))

    def _write_row_group(self, partition: Partition, rows: pa.Table) -> None:
        writer, groups = self._writers.pop(partition, (None, 0))
        if writer is None:
            if len(self._writers) >= OPEN_WRITERS:
                self._writers.popitem(last=False)[1][0].close()
            writer = self._open(partition, rows.schema)
        self._writers[partition] = (writer, groups + 1)
        writer.write_table(rows, row_group_size=max(1, rows.num_rows))
        if groups + 1 >= ROW_GROUPS_A_FILE:
            self._writers.pop(partition)[0].close()

    def _open(self, partition: Partition, schema: pa.Schema) -> pq.ParquetWriter:
        metadata = {"topic": partition[0].encode("utf-8", "replace")}
        return parquet_writer(
            self.names.new(partition), schema.with_metadata(metadata), self._compression
        )

    def close(self) -> None:
        """Write the waiting rows and finish all files."""
        self._distribute(last=True)
        for partition in self._spills.partitions():
            self._drain(partition)
        while self._writers:
            self._writers.popitem()[1][0].close()


class RowChunk:
    """Batches that gather to a chunk, whose rows are then divided among partitions.

    Parameters
    ----------
    days : callable
        As in `ParquetParts`.
    most_bytes : int
        Bytes of a chunk; memory holds about twice this size while the chunk is divided.
    """

    def __init__(self, days: Days, most_bytes: int) -> None:
        self._days = days
        self._most_bytes = most_bytes
        self._batches: list[pa.RecordBatch] = []
        self._byte_count = 0

    def lacks_room(self, batch: pa.RecordBatch) -> bool:
        """Return True if the chunk must be flushed before a batch is added."""
        added = batch.get_total_buffer_size()
        return bool(self._batches and self._byte_count + added > self._most_bytes + LONG_BYTES)

    def add(self, batch: pa.RecordBatch) -> bool:
        """Add a batch; return True if the chunk is full and has to be taken."""
        added = int(batch.get_total_buffer_size())
        self._batches.append(batch)
        self._byte_count += added
        return self._byte_count >= self._most_bytes or added > LONG_BYTES

    def take(self) -> Iterator[tuple[Partition, pa.RecordBatch]]:
        """Yield the rows of the chunk by partition, in their order; the chunk is empty afterwards."""
        import pyarrow as pa

        if not self._batches:
            return
        chunk = pa.Table.from_batches(self._batches).combine_chunks().to_batches()
        self._batches.clear()
        self._byte_count = 0
        while chunk:
            yield from _split(chunk.pop(0), self._days)


class _Spills:
    """Rows that wait, a working file for each partition: Arrow IPC messages one after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "spill"
        self._files: dict[Partition, tuple[int, int]] = {}
        self._count = 0
        self._schema: pa.Schema | None = None

    def append(self, partition: Partition, rows: pa.RecordBatch) -> int:
        """Add rows; return the size of the partition's file."""
        self._schema = rows.schema
        if partition not in self._files:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._files[partition] = (self._count, 0)
            self._count += 1
        number, before = self._files[partition]
        message = rows.serialize()
        with self._path(number).open("ab") as spill:
            spill.write(message)
        size = before + int(message.size)
        self._files[partition] = (number, size)
        return size

    def take(self, partition: Partition) -> list[pa.RecordBatch]:
        """Return the rows of a partition, at most a row group, and remove its file."""
        if partition not in self._files:
            return []
        number, _ = self._files.pop(partition)
        path = self._path(number)
        rows = list(self._read(path))
        path.unlink()
        return rows

    def partitions(self) -> list[Partition]:
        """Return the partitions with waiting rows."""
        return list(self._files)

    def _read(self, path: Path) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        source = pa.BufferReader(pa.py_buffer(path.read_bytes()))
        size = source.size()
        while source.tell() < size:
            yield pa.ipc.read_record_batch(pa.ipc.read_message(source), self._schema)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:06}.arrow"


def days_of_ms(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Return the days of the rows of a batch by ``store_timestamp_ms``."""
    return known_days(batch.column("store_timestamp_ms").to_numpy() // DAY_MS)


def known_days(days: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the days, with -1 in place of days outside of the calendar."""
    return np.where((days < 0) | (days > LAST_DAY), -1, days)


def _split(batch: pa.RecordBatch, days_of: Days) -> list[tuple[Partition, pa.RecordBatch]]:
    """Return the rows of a batch by partition, in their order."""
    import pyarrow as pa

    topics = batch.column("topic").dictionary_encode()
    names = topics.dictionary.to_pylist()
    topic_ids = topics.indices.to_numpy()
    days = days_of(batch)
    codes = (days + 1) * len(names) + topic_ids
    order = np.argsort(_short(codes), kind="stable")
    starts = np.concatenate(([0], np.flatnonzero(np.diff(codes[order])) + 1, [len(order)]))
    sorted_already = bool((np.diff(order) == 1).all())  # also for one row: its body is not copied
    by_partition = batch if sorted_already else batch.take(pa.array(order))
    found = []
    for start, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        first = order[start]
        partition = (names[topic_ids[first]], int(days[first]))
        found.append((partition, by_partition.slice(start, end - start)))
    return found


def _short(codes: npt.NDArray[np.int64]) -> npt.NDArray[np.integer]:
    """Return numbers in the same order that fit two bytes, if possible: these are sorted fifteen times as fast."""
    least = codes.min()
    few = codes.max() - least <= np.iinfo(np.uint16).max
    return (codes - least).astype(np.uint16) if few else codes
