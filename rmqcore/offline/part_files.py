"""Writers of partitioned files that hold a bounded number of bytes, however many partitions there are.

Rows wait in memory by partition; when all of them together pass a budget, the fullest partitions are
written out. Part numbers count through the whole export, so that two topics that a file system cannot
tell apart never share a file.
"""

from __future__ import annotations

import csv
import io
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rmqcore.offline.message_rows import FIELDS, Body, body_encoder, csv_encoder, json_encoder
from rmqcore.offline.partitions import DAY_MS, LAST_DAY, partition_folder

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from rmqcore.message import MessageView

Partition = tuple[str, int]
"""Topic, and days since 1970-01-01 in UTC; -1 for a time that no calendar has."""

Compression = Literal["zstd", "snappy", "none"]

PENDING_BYTES = 48 * 1024 * 1024
OPEN_WRITERS = 64
ROW_GROUPS_A_FILE = 256


def _day_of(store_timestamp_ms: int) -> int:
    day = store_timestamp_ms // DAY_MS
    return day if 0 <= day <= LAST_DAY else -1


class PartNames:
    """Paths of part files below a folder."""

    def __init__(self, folder: Path, suffix: str) -> None:
        self._folder = folder
        self._suffix = suffix
        self.count = 0

    def new(self, partition: Partition) -> Path:
        """A new part file of a partition, its folder made."""
        folder = self._folder / partition_folder(*partition)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"part-{self.count:05}.{self._suffix}"
        self.count += 1
        return path


class TextParts:
    """CSV or JSON Lines, one file a partition; a file is open only while rows are added to it.

    Parameters
    ----------
    folder : Path
    suffix : {"csv", "jsonl"}
    body : {"none", "text", "base64", "sha256"}
    """

    def __init__(self, folder: Path, suffix: Literal["csv", "jsonl"], body: Body) -> None:
        self.names = PartNames(folder, suffix)
        self._encode = (
            json_encoder(body_encoder(body)) if suffix == "jsonl" else _csv_line_encoder(body)
        )
        self._header = "" if suffix == "jsonl" else _csv_line(FIELDS)
        self._pending: dict[Partition, list[bytes]] = {}
        self._sizes: dict[Partition, int] = {}
        self._paths: dict[Partition, Path] = {}
        self._total = 0

    def write(self, view: MessageView) -> None:
        """Add a message."""
        line = self._encode(view).encode("utf-8", "replace")
        partition = (view.topic, _day_of(view.store_timestamp_ms))
        self._pending.setdefault(partition, []).append(line)
        size = len(line) + 64  # what an object costs
        self._sizes[partition] = self._sizes.get(partition, 0) + size
        self._total += size
        if self._total > PENDING_BYTES:
            for fullest in sorted(self._sizes, key=self._sizes.__getitem__, reverse=True):
                self._flush(fullest)
                if self._total <= PENDING_BYTES // 2:
                    break

    def _flush(self, partition: Partition) -> None:
        path = self._paths.get(partition)
        lines = self._pending.pop(partition)
        if path is None:
            path = self._paths[partition] = self.names.new(partition)
            lines.insert(0, self._header.encode())
        with path.open("ab") as part:
            part.write(b"".join(lines))
        self._total -= self._sizes.pop(partition)

    def close(self) -> None:
        """Write what still waits."""
        for partition in list(self._pending):
            self._flush(partition)


def _csv_line(row: Any) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(row)
    return line.getvalue()


def _csv_line_encoder(body: Body) -> Callable[[MessageView], str]:
    encode = csv_encoder(body_encoder(body))
    return lambda view: _csv_line(encode(view))


class ParquetParts:
    """Parquet files, a row group whenever rows are written out.

    At most `OPEN_WRITERS` files are open: the one not used for longest is finished then, and a
    partition that goes on gets a new part. Columns are those of the batches; ``topic`` stays in the
    file, dictionary-coded as readers of partitions expect it.

    Parameters
    ----------
    folder : Path
    compression : {"zstd", "snappy", "none"}
    """

    def __init__(self, folder: Path, compression: Compression) -> None:
        self.names = PartNames(folder, "parquet")
        self._compression = compression
        self._pending: dict[Partition, list[pa.RecordBatch]] = {}
        self._sizes: dict[Partition, int] = {}
        self._writers: OrderedDict[Partition, tuple[pq.ParquetWriter, int]] = OrderedDict()
        self._total = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch to their partitions."""
        for partition, rows in _split(batch):
            size = rows.get_total_buffer_size()
            self._pending.setdefault(partition, []).append(rows)
            self._sizes[partition] = self._sizes.get(partition, 0) + size
            self._total += size
        if self._total > PENDING_BYTES:
            for fullest in sorted(self._sizes, key=self._sizes.__getitem__, reverse=True):
                self._flush(fullest)
                if self._total <= PENDING_BYTES // 2:
                    break

    def _flush(self, partition: Partition) -> None:
        import pyarrow as pa

        batches = self._pending.pop(partition)
        self._total -= self._sizes.pop(partition)
        rows = pa.Table.from_batches(batches)
        writer, groups = self._writers.pop(partition, (None, 0))
        if writer is None:
            writer = self._open(partition, rows.schema)
        self._writers[partition] = (writer, groups + 1)
        writer.write_table(rows, row_group_size=max(1, rows.num_rows))
        if groups + 1 >= ROW_GROUPS_A_FILE:
            self._writers.pop(partition)[0].close()
        elif len(self._writers) > OPEN_WRITERS:
            self._writers.popitem(last=False)[1][0].close()

    def _open(self, partition: Partition, schema: pa.Schema) -> pq.ParquetWriter:
        import pyarrow.parquet as pq

        return pq.ParquetWriter(
            self.names.new(partition),
            schema,
            compression=self._compression,
            use_dictionary=[name for name in schema.names if name in _REPEATING],
        )

    def close(self) -> None:
        """Write what still waits and finish all files."""
        for partition in list(self._pending):
            self._flush(partition)
        while self._writers:
            self._writers.popitem()[1][0].close()


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
}


def _split(batch: pa.RecordBatch) -> list[tuple[Partition, pa.RecordBatch]]:
    """The rows of a batch by partition, in their order, each with memory of its own."""
    import numpy as np
    import pyarrow as pa

    topic_at = batch.schema.get_field_index("topic")
    topics = batch.column(topic_at).dictionary_encode()
    batch = batch.set_column(topic_at, "topic", topics)
    days = batch.column("store_timestamp_ms").to_numpy() // DAY_MS
    days[(days < 0) | (days > LAST_DAY)] = -1
    names = topics.dictionary.to_pylist()
    codes = (days + 1) * len(names) + topics.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1) if len(order) else []
    return [
        (
            (names[topics.indices[int(rows[0])].as_py()], int(days[rows[0]])),
            _own_topic(batch.take(pa.array(rows))),
        )
        for rows in groups
    ]


def _own_topic(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of one topic with a dictionary that holds it alone."""
    import pyarrow as pa

    at = rows.schema.get_field_index("topic")
    name = rows.column(at)[:1].dictionary_decode()
    indices = pa.repeat(pa.scalar(0, pa.int32()), len(rows))
    return rows.set_column(at, "topic", pa.DictionaryArray.from_arrays(indices, name))
