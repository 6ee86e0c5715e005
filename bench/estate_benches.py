"""`load()` of 1,000 brokers: where each store ends, and the plan, without Spark's own time.

All stores are one sparse file of 1 GiB under 1,000 names, half of it written, in the page cache.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile

from bench import build
from bench.report import Row
from rmqcore import Message, codec

BROKERS = 1000
GIB = 1 << 30
BODY = b"x" * 900
LOAD_CPU_S = 5.0
"""Of all threads together: on a machine that does nothing else a load takes less time than that."""
STEPS = """
import sys, time
from rmqcore.spark.source.datasource import RmqStoreDataSource
begin, cpu = time.perf_counter(), time.process_time()
source = RmqStoreDataSource({"path": sys.argv[1], "columns": "topic", "parallelism": "16"})
schema = source.schema()
loaded, cpu = time.perf_counter() - begin, time.process_time() - cpu
begin = time.perf_counter()
parts = source.reader(schema).partitions()
planned = time.perf_counter() - begin
assert len(parts) >= len(source.pins)
print(loaded, cpu, planned)
"""


def estate() -> list[Row]:
    """Load and plan once, in a process of its own as Spark does."""
    build.BUILD.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build.BUILD) as folder:
        root = pathlib.Path(folder)
        _make(root)
        command = [sys.executable, "-c", STEPS, f"{root}/*/store"]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    loaded, cpu, planned = map(float, done.stdout.split())
    group = f"{BROKERS:,} brokers of 1 GiB"
    return [
        Row(group, "load()", f"{loaded:.2f} s", cpu, LOAD_CPU_S, "CPU s", at_most=True),
        Row(group, "plan, 16 tasks at once", f"{planned:.2f} s"),
    ]


def _make(root: pathlib.Path) -> None:
    first: pathlib.Path | None = None
    for number in range(BROKERS):
        log = root / f"broker-{number:04}" / "store" / "commitlog"
        log.mkdir(parents=True)
        path = log / f"{0:020}"
        if first is None:
            first = path
            _write(path)
        else:
            os.link(first, path)


def _write(path: pathlib.Path) -> None:
    """Write a file whose first half holds records."""
    message, place, number = Message("BenchTopic", BODY), 0, 0
    with open(path, "wb") as file:
        while place < GIB // 2:
            raw = codec.encode(message, phy_offset=place, queue_offset=number, store_timestamp_ms=1)
            file.write(raw)
            place, number = place + len(raw), number + 1
        file.truncate(GIB)
