"""Puts by the clock: rates, and what the slowest calls took, with the default configuration and all threads of the store.

Ours, Java's store and plain writes of the same bytes do the same work in turn, on a new store each time, on the disk below
``build/bench`` and on tmpfs. The rows show medians of the rounds with their minimum and maximum. A control that only reads the
clock shows how long the machine itself keeps a thread waiting.
"""

from __future__ import annotations

import gc
import os
import pathlib
import shutil
import statistics
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench import build
from bench.java_steps import JavaSteps
from bench.report import Row
from bench.thread_times import between, running_ns, stolen_ms
from rmqcore import Message, MessageStore
from rmqcore import open as open_store

TOPIC = "BenchTopic"
QUEUES = 4
ROUNDS = 5
PACED_S = 20
MOST_PACED = 200_000  # a second: a loop in Python cannot keep a faster pace
LARGE, SMALL = 1024, 128  # bytes of a body
LARGE_COUNT = 2_800_000  # 3 GiB in the log
SMALL_COUNT = 3_000_000
RECORD_LARGE = 1_153  # bytes of such a record
JAVA_BATCHES = (32, 256, 1_000)
MANY = (100, 1_000, 10_000)
TMPFS = pathlib.Path("/dev/shm")

Nanos = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Times:
    """One round: messages a second, and what single calls took, in nanoseconds."""

    rate: float
    middle: float
    p999: float
    p9999: float
    worst: float

    @classmethod
    def of(cls, nanos: Nanos, seconds: float, messages: int) -> Times:
        percentiles = (float(value) for value in np.percentile(nanos, (50, 99.9, 99.99, 100)))
        return cls(messages / seconds, *percentiles)

    @classmethod
    def of_java(cls, words: list[str], messages: int) -> Times:
        seconds, _, *nanos = map(float, words)
        return cls(messages / seconds, *nanos)


class Rounds:
    """The rounds of one kind of work, on each side."""

    def __init__(self) -> None:
        self.found: dict[str, list[Times]] = {}
        self.cores: dict[str, list[dict[str, float]]] = {}
        self.stolen: dict[str, list[float]] = {}

    def run(self, name: str, work: Callable[[], Times], messages: int = 0) -> None:
        """Do one round of a work; of so many messages note also what each thread of this process ran for one of them."""
        stolen, ran = stolen_ms(), running_ns()
        self.found.setdefault(name, []).append(work())
        self.stolen.setdefault(name, []).append(stolen_ms() - stolen)
        if messages:
            each = {
                thread: nanos / messages for thread, nanos in between(ran, running_ns()).items()
            }
            self.cores.setdefault(name, []).append(each)

    def cores_of(self, name: str) -> dict[str, float]:
        """Nanoseconds of each thread for a message, the busiest first; medians of the rounds."""
        rounds = self.cores[name]
        threads = {thread for each in rounds for thread in each}
        found = {
            thread: statistics.median(each.get(thread, 0) for each in rounds) for thread in threads
        }
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def median(self, name: str, field: str) -> float:
        return float(statistics.median(getattr(times, field) for times in self.found[name]))

    def range(self, name: str, field: str, unit: float, form: str = ".3g") -> str:
        """Median with minimum and maximum, in a unit."""
        values = [getattr(times, field) / unit for times in self.found[name]]
        return f"{statistics.median(values):{form}} [{min(values):{form}}-{max(values):{form}}]"


def clock() -> list[Row]:
    command = build.java_command("ClockBench")
    if command is None:
        return [Row("by the clock", "skipped", "needs java, javac and mvn")]
    rows = []
    build.BUILD.mkdir(parents=True, exist_ok=True)
    for place, where in (("disk", build.BUILD), ("tmpfs", TMPFS)):
        with tempfile.TemporaryDirectory(dir=where) as folder:
            rows += on(place, command, pathlib.Path(folder))
    return rows


def on(place: str, command: list[str | pathlib.Path], folder: pathlib.Path) -> list[Row]:
    """All rows of one place."""
    java = JavaSteps([*command, folder / "java"])
    rounds = Rounds()
    try:
        per_second = min(MOST_PACED, int(plain_writes(folder, LARGE_COUNT).rate / 2))
        for _ in range(ROUNDS):
            play(rounds, java, folder, per_second)
    finally:
        java.stop()
    return [
        *latency_rows(place, rounds, per_second),
        *unpaced_rows(place, rounds),
        *rate_rows(place, rounds),
        *core_rows(place, rounds),
        stolen_row(place, rounds),
    ]


def play(rounds: Rounds, java: JavaSteps, folder: pathlib.Path, per_second: int) -> None:
    """One round of everything, the sides in turn."""
    paced = per_second * PACED_S
    rounds.run("control", lambda: control(PACED_S))
    with new_store(folder) as store:
        rounds.run("paced", lambda: put_each(store, paced, LARGE, per_second))
    rounds.run("java paced", lambda: java_put(java, paced, LARGE, per_second))
    rounds.run("plain", lambda: plain_writes(folder, LARGE_COUNT))
    with new_store(folder) as store:
        rounds.run("unpaced", lambda: put_each(store, LARGE_COUNT, LARGE, 0), LARGE_COUNT)
    rounds.run("java unpaced", lambda: java_put(java, LARGE_COUNT, LARGE, 0))
    with new_store(folder) as store:
        rounds.run("small", lambda: put_each(store, SMALL_COUNT, SMALL, 0))
    rounds.run("java small", lambda: java_put(java, SMALL_COUNT, SMALL, 0))
    for size in MANY:
        with new_store(folder) as store:
            rounds.run(f"many {size}", partial(put_lists, store, SMALL_COUNT, size), SMALL_COUNT)
    with new_store(folder) as store:
        rounds.run("arrow", lambda: put_tables(store, SMALL_COUNT, MANY[-1]))
    for size in JAVA_BATCHES:
        rounds.run(f"java batch {size}", partial(java_batches, java, size))


# ---- the work


@contextmanager
def new_store(folder: pathlib.Path) -> Iterator[MessageStore]:
    root = folder / "ours"
    try:
        with open_store(root) as store:
            gc.disable()
            yield store
    finally:
        gc.enable()
        shutil.rmtree(root)


def timed(calls: int, messages: int, call: Callable[[int], object]) -> Times:
    """Make calls, one after the other; time each."""
    ends = array("q", bytes(8 * (calls + 1)))
    now = time.perf_counter_ns
    ends[0] = now()
    for i in range(calls):
        call(i)
        ends[i + 1] = now()
    return since_each_other(ends, messages)


def since_each_other(ends: array[int], messages: int) -> Times:
    """What calls took that came one right after the other."""
    found = np.frombuffer(ends, np.int64)
    return Times.of(np.diff(found), (ends[-1] - ends[0]) / 1e9, messages)


def control(seconds: int) -> Times:
    """What the machine does to a thread that only reads the clock: the time between two looks."""
    looks = seconds * 1_000_000
    nanos = np.zeros(looks, np.int64)
    now = time.perf_counter_ns
    begin = before = now()
    used = 0
    while before - begin < seconds * 1e9 and used < looks:
        found = now()
        nanos[used] = found - before
        before = found
        used += 1
    return Times.of(nanos[:used], (before - begin) / 1e9, used)


def put_each(store: MessageStore, count: int, size: int, per_second: int) -> Times:
    """Messages that are built and put, as many a second or one after the other.

    The loops are written out: a call of a function more would cost as much as a put.
    """
    body = b"x" * size
    put = store.put
    now = time.perf_counter_ns
    if per_second:
        nanos = np.zeros(count, np.int64)
        begin = now()
        for i in range(count):
            due = begin + i * 1_000_000_000 // per_second
            while now() < due:
                pass
            before = now()
            put(Message(TOPIC, body, i % QUEUES, "TagA", f"k{i}"))
            nanos[i] = now() - before
        return Times.of(nanos, (now() - begin) / 1e9, count)
    ends = array("q", bytes(8 * (count + 1)))
    ends[0] = now()
    for i in range(count):
        put(Message(TOPIC, body, i % QUEUES, "TagA", f"k{i}"))
        ends[i + 1] = now()
    return since_each_other(ends, count)


def put_lists(store: MessageStore, count: int, size: int) -> Times:
    """Lists of messages that were built before: `put_many` is what is timed, as for a program that reads them from elsewhere."""
    body = b"x" * SMALL
    lists = [
        [Message(TOPIC, body, i % QUEUES, "TagA", f"k{i}") for i in range(size)] for _ in range(2)
    ]

    def call(i: int) -> None:
        store.put_many(lists[i % 2])

    return timed(count // size, count // size * size, call)


def put_tables(store: MessageStore, count: int, size: int) -> Times:
    table = pa.table(
        {
            "topic": [TOPIC] * size,
            "queue_id": pa.array([i % QUEUES for i in range(size)], pa.int32()),
            "body": [b"x" * SMALL] * size,
            "tags": ["TagA"] * size,
            "keys": [[f"k{i}"] for i in range(size)],
        }
    )
    return timed(count // size, count // size * size, lambda _: store.put_arrow(table))


def plain_writes(folder: pathlib.Path, count: int) -> Times:
    """The bytes of so many large records, written to a file by 64 KiB."""
    path = folder / "plain"
    chunk = b"x" * (1 << 16)
    calls = count * RECORD_LARGE // len(chunk)
    try:
        with path.open("wb", buffering=0) as file:
            return timed(calls, count, lambda _: file.write(chunk))
    finally:
        path.unlink()


def java_put(java: JavaSteps, count: int, size: int, per_second: int) -> Times:
    return Times.of_java(java.ask("put", count, size, per_second), count)


def java_batches(java: JavaSteps, size: int) -> Times:
    messages = SMALL_COUNT // size * size
    return Times.of_java(java.ask("batch", SMALL_COUNT, SMALL, size), messages)


# ---- the rows


def latency_rows(place: str, rounds: Rounds, per_second: int) -> list[Row]:
    rows = []
    for field, name in (("p999", "p99.9"), ("p9999", "p99.99"), ("worst", "worst")):
        ours, theirs, control_ = (
            rounds.range(side, field, 1e3) for side in ("paced", "java paced", "control")
        )
        measured = f"{ours} us, Java {theirs} us, clock alone {control_} us"
        ratio = rounds.median("java paced", field) / rounds.median("paced", field)
        title = f"{place}: put of 1 KiB, {per_second:,}/s, {name}"
        rows.append(Row("by the clock", title, measured, ratio, 1.0 if field == "worst" else None))
    return rows


def unpaced_rows(place: str, rounds: Rounds) -> list[Row]:
    sides = ("unpaced", "java unpaced", "plain")
    ours, theirs, plain = (rounds.range(side, "rate", 1e6) for side in sides)
    share = rounds.median("unpaced", "rate") / rounds.median("plain", "rate")
    rates = f"{ours} M/s, Java {theirs}, plain writes {plain}"
    ours, theirs, plain = (rounds.range(side, "worst", 1e6) for side in sides)
    worst = rounds.median("plain", "worst") / rounds.median("unpaced", "worst")
    return [
        Row("by the clock", f"{place}: put of 1 KiB, 3 GiB / plain writes", rates, share, 0.9),
        Row(
            "by the clock",
            f"{place}: put of 1 KiB, 3 GiB, worst",
            f"{ours} ms, Java {theirs} ms, plain writes {plain} ms",
            worst,
            1.0 if place == "disk" else None,
        ),
    ]


def rate_rows(place: str, rounds: Rounds) -> list[Row]:
    best = max(
        (f"java batch {size}" for size in JAVA_BATCHES), key=lambda n: rounds.median(n, "rate")
    )
    pairs = [("small", "java small", "put of 128 B, message built", 5.0)]
    pairs += [(f"many {size}", best, f"put_many of {size:,}", 10.0) for size in MANY]
    pairs += [("arrow", best, "put_arrow", 12.0)]
    rows = []
    for ours, theirs, name, required in pairs:
        measured = (
            f"{rounds.range(ours, 'rate', 1e6)} M/s, Java {rounds.range(theirs, 'rate', 1e6)}"
        )
        ratio = rounds.median(ours, "rate") / rounds.median(theirs, "rate")
        rows.append(Row("by the clock", f"{place}: {name}", measured, ratio, required))
        if ours != "small":
            spread = rounds.median(ours, "worst") / rounds.median(ours, "middle")
            measured = f"{rounds.range(ours, 'worst', 1e6)} ms, median {rounds.range(ours, 'middle', 1e6)} ms"
            rows.append(
                Row(
                    "by the clock",
                    f"{place}: {name}, worst call / median",
                    measured,
                    spread,
                    10.0,
                    at_most=True,
                )
            )
    return rows


def core_rows(place: str, rounds: Rounds) -> list[Row]:
    """What a message takes of all cores: divided by their number, no rate by the clock can be higher."""
    best = max(rounds.median(f"java batch {size}", "rate") for size in JAVA_BATCHES)
    wholes = [("unpaced", "put of 1 KiB", 1e9 / rounds.median("plain", "rate"))]
    wholes += [(f"many {MANY[-1]}", f"put_many of {MANY[-1]:,}", 1e9 / best)]
    rows = []
    for name, title, other in wholes:
        threads = rounds.cores_of(name)
        parts = ", ".join(f"{thread} {ran:.0f}" for thread, ran in threads.items() if ran >= 1)
        measured = f"{parts} ns a message; the other side takes {other:.0f} ns by the clock"
        bound = other * (os.cpu_count() or 1) / sum(threads.values())
        rows.append(
            Row("by the clock", f"{place}: {title}, most that all cores allow", measured, bound)
        )
    return rows


def stolen_row(place: str, rounds: Rounds) -> Row:
    """Time that the host kept a core from work that was ready: a slowest call may be nothing else."""
    sides = ("control", "paced", "java paced", "plain", "unpaced", "java unpaced")
    parts = [f"{side} {statistics.median(rounds.stolen[side]):.0f}" for side in sides]
    return Row("by the clock", f"{place}: kept back by the host", ", ".join(parts) + " ms a round")
