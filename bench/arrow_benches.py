"""The Arrow stream of a store, as pyarrow takes it, against a memcpy of the same file.

The rows compare wall time, since the reader reads ahead in a thread of its own; they show the CPU time of all threads too.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa

import rmqcore
from bench.data import LOG_SETS, Data, LogSet, read_through
from bench.report import Row

ARROW_OVER_MEMCPY = 0.25
# The columns that the requirement was set for: the numbers of the header, topic, tags and the body. The run with all columns has
# no requirement: a consumer can derive the other eight from these (texts of hosts and ids, the properties in three forms).
STORED_COLUMNS = (
    "phy_offset",
    "msg_size",
    "magic",
    "body_crc",
    "queue_id",
    "flag",
    "queue_offset",
    "sys_flag",
    "born_timestamp_ms",
    "store_timestamp_ms",
    "reconsume_times",
    "prepared_transaction_offset",
    "topic",
    "tags",
    "body",
)
COLUMN_SETS: dict[str, tuple[tuple[str, ...] | None, float | None]] = {
    "stored columns": (STORED_COLUMNS, ARROW_OVER_MEMCPY),
    "all columns": (None, None),
}
ROUNDS = 5


def _stream(data: Data, log_set: LogSet, columns: tuple[str, ...] | None) -> int:
    """Read every batch and let go of it, as a consumer that aggregates does."""
    with rmqcore.read(data.log(log_set)) as reader:
        stream = pa.RecordBatchReader.from_stream(reader.batches(columns))
        return sum(batch.num_rows for batch in stream)


def _timed(job: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    job()
    return time.perf_counter() - wall, time.process_time() - cpu


def streams(data: Data) -> list[Row]:
    rows = []
    for log_set in LOG_SETS:
        path = data.log_file(log_set)
        read_through(path)
        source = np.memmap(path, np.uint8, "r")
        copy = np.zeros_like(source, subok=False)
        np.copyto(copy, source)  # maps the source's pages
        for name, (columns, required) in COLUMN_SETS.items():
            job = partial(_stream, data, log_set, columns)
            records = job()
            rounds = [
                (_timed(partial(np.copyto, copy, source)), _timed(job)) for _ in range(ROUNDS)
            ]
            memcpy, stream, cpu, ratio = (
                statistics.median(values)
                for values in zip(
                    *((m[0], s[0], s[1], m[0] / s[0]) for m, s in rounds), strict=True
                )
            )
            measured = (
                f"{stream / records * 1e9:.1f} ns a record, {cpu / records * 1e9:.1f} ns of CPU; "
                f"memcpy {memcpy / records * 1e9:.1f} ns"
            )
            rows.append(Row("arrow / memcpy", f"{log_set.name}: {name}", measured, ratio, required))
    return rows
