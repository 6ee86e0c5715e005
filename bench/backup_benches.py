"""A backup beside a paced writer: the slowest puts with one and without, in turn in one run."""

from __future__ import annotations

import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from bench import build
from bench.report import Row
from rmqcore import Message, MessageStore
from rmqcore import open as open_store

BODY = b"x" * 1024
STORED = 600_000
"""Messages that the backup finds: 0.7 GB."""
RATE = 2_000
SECONDS = 8.0
ROUNDS = 3
MOST_MORE_MS = 1.0
"""So many milliseconds may the slowest put take longer beside a backup."""
FULL = [sys.executable, "-m", "rmqcore", "backup", "--no-hard-links", "--no-progress"]


def backups() -> list[Row]:
    """The slowest put, and the slowest thousandth, while nothing else runs and while copies are made."""
    build.BUILD.mkdir(parents=True, exist_ok=True)
    alone: list[list[float]] = []
    beside: list[list[float]] = []
    made = 0
    with tempfile.TemporaryDirectory(dir=build.BUILD) as folder:
        root, dest = pathlib.Path(folder, "store"), pathlib.Path(folder, "copy")
        with open_store(root) as store:
            messages = [Message("BenchTopic", BODY, i % 4, "TagA", f"k{i}") for i in range(1000)]
            for _ in range(STORED // len(messages)):
                store.put_many(messages)
            store.wait_dispatched()
            store.flush()
            for _ in range(ROUNDS):
                alone.append(paced(store))
                with subprocess.Popen([*FULL, root, dest], stdout=subprocess.DEVNULL) as backup:
                    beside.append(paced(store))
                    made += backup.wait() == 0
                shutil.rmtree(dest, ignore_errors=True)
    return [
        row(name, share, alone, beside, made)
        for name, share in (("slowest put", 1.0), ("slowest of 1,000 puts", 0.999))
    ]


def row(
    name: str, share: float, alone: list[list[float]], beside: list[list[float]], made: int
) -> Row:
    """The middle of the rounds; what is required is of the slowest put, in milliseconds."""
    least, most = (
        statistics.median(at(times, share) for times in rounds) for rounds in (alone, beside)
    )
    return Row(
        "backup",
        f"{name} beside a backup",
        f"{most:.3f} ms, alone {least:.3f}",
        most - least,
        MOST_MORE_MS if share == 1.0 else None,
        "ms more",
        at_most=True,
        failed=made < ROUNDS,
    )


def at(times: list[float], share: float) -> float:
    """Of sorted milliseconds the one behind which this share of them is not."""
    return times[min(len(times) - 1, int(share * len(times)))]


def paced(store: MessageStore) -> list[float]:
    """Put at a rate; the milliseconds of each put, sorted."""
    times: list[float] = []
    began = time.perf_counter()
    for number in range(int(RATE * SECONDS)):
        wait = began + number / RATE - time.perf_counter()
        if wait > 0:
            time.sleep(wait)
        message = Message("BenchTopic", BODY, number % 4, "TagA", f"k{number}")
        start = time.perf_counter()
        store.put(message)
        times.append((time.perf_counter() - start) * 1e3)
    return sorted(times)
