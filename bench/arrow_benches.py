"""The Arrow stream of a store, as pyarrow takes it, against a memcpy of the same file.

Both in CPU time of this process, all its threads: others on the machine count less than in wall time.
"""

from __future__ import annotations

import statistics
import time

import numpy as np
import pyarrow as pa

import rmqcore
from bench.data import LOG_SETS, Data, LogSet, read_through
from bench.report import Row

ARROW_OVER_MEMCPY = 0.25
ROUNDS = 5


def _stream(data: Data, log_set: LogSet) -> int:
    """Read every batch and let go of it, as a consumer that aggregates does."""
    with rmqcore.read(data.log(log_set)) as reader:
        return sum(batch.num_rows for batch in pa.RecordBatchReader.from_stream(reader.batches()))


def streams(data: Data) -> list[Row]:
    rows = []
    for log_set in LOG_SETS:
        path = data.log_file(log_set)
        read_through(path)
        source = np.memmap(path, np.uint8, "r")
        copy = np.zeros_like(source, subok=False)
        copy_s, stream_s, records = [], [], 0
        np.copyto(copy, source)  # maps the source's pages
        for _ in range(ROUNDS):
            start = time.process_time()
            np.copyto(copy, source)
            copy_s.append(time.process_time() - start)
            start = time.process_time()
            records = _stream(data, log_set)
            stream_s.append(time.process_time() - start)
        memcpy, stream = statistics.median(copy_s), statistics.median(stream_s)
        ratio = statistics.median(a / b for a, b in zip(copy_s, stream_s, strict=True))
        measured = f"{stream * 1e3:.0f} ms, {stream / records * 1e9:.1f} ns a record, memcpy {memcpy * 1e3:.0f} ms"
        rows.append(
            Row(
                "arrow / memcpy",
                f"{log_set.name}: all columns",
                measured,
                ratio,
                ARROW_OVER_MEMCPY,
            )
        )
    return rows
