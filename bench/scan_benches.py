"""`codec.scan` and `codec.scan_batches` of 256 MiB of records by the clock, beside a memcpy of the same bytes.

The log lies in the page cache and is mapped. The rows "after a pause" are those of a program that did nothing for some seconds: a
virtual machine may have given its free memory back meanwhile, and has to fetch each page anew.
"""

from __future__ import annotations

import mmap
import statistics
import time
from collections import deque
from collections.abc import Callable

import numpy as np

from bench.data import LOG_SETS, Data, read_through
from bench.report import Row
from rmqcore import codec

MOST = 256 << 20
WANTED = 3.0  # GB/s of log
ROUNDS = 9
PAUSES = 3
PAUSE_S = 5.0


def scans(data: Data) -> list[Row]:
    rows = []
    for log_set in LOG_SETS:
        if log_set.body != 128:
            continue
        path = data.log_file(log_set)
        read_through(path)
        with path.open("rb") as file:
            size = min(MOST, path.stat().st_size)
            log = mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ)
        source = np.frombuffer(log, np.uint8)
        rows += measured(log_set.name, memoryview(log), source)
    return rows


def measured(
    name: str, log: memoryview, source: np.ndarray[tuple[int], np.dtype[np.uint8]]
) -> list[Row]:
    copy = np.zeros_like(source)
    jobs: dict[str, Callable[[], object]] = {
        "memcpy": lambda: np.copyto(copy, source),
        "scan": lambda: codec.scan(log),
        "scan_batches": lambda: deque(codec.scan_batches(log), 0),
    }
    found: dict[str, list[float]] = {job: [] for job in jobs}
    for _ in range(ROUNDS):
        for job, work in jobs.items():
            found[job].append(seconds(work))
    paused: dict[str, list[float]] = {job: [] for job in jobs if job != "memcpy"}
    for _ in range(PAUSES):
        for job, times in paused.items():
            time.sleep(PAUSE_S)
            times.append(seconds(jobs[job]))
    size = len(source)
    memcpy = rate(size, found["memcpy"])
    return [
        *(row(f"{name}: {job}", size, found[job], memcpy, WANTED) for job in paused),
        *(row(f"{name}: {job} after a pause", size, paused[job], memcpy, None) for job in paused),
    ]


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def rate(size: int, times: list[float]) -> float:
    return size / statistics.median(times) / 1e9


def row(name: str, size: int, times: list[float], memcpy: float, required: float | None) -> Row:
    least, most = size / max(times) / 1e9, size / min(times) / 1e9
    middle = rate(size, times)
    text = f"[{least:.2f}-{most:.2f}] GB/s, memcpy {memcpy:.1f} ({middle / memcpy:.2f} of it)"
    return Row("scan, by the clock", name, text, middle, required, "GB/s")
