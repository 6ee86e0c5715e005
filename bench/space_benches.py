"""Ways to give the log its pages, over more than the memory that is at hand: rates, stalls and what each way takes of the cores.

``bench/native/space_ways.c`` does the work, a process each; the ways take turns. Plain writes of the same bytes, 64 KiB each, are
the yardstick; a call is a record of 1,153 bytes in the other ways. Paced, the writer's own processor time is that of its waiting.
"""

from __future__ import annotations

import pathlib
import statistics
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass

from bench import build
from bench.report import Row

GIB = 1 << 30
FILE_SIZE = GIB
PACE = 200_000_000  # bytes a second
PACED_S = 20
ROUNDS = 2
TMPFS = pathlib.Path("/dev/shm")
BYTES = {"disk": 10 * GIB, "tmpfs": 3 * GIB}  # tmpfs is memory
YARDSTICK = "writes"
# The first is what the store does.
WAYS = {
    "zeros+populate+forget": "zeros, populated, and out of the page table before the sync",
    "populate": "pages populated ahead",
    "zeros": "64 KiB of zeros written ahead",
    "zeros+populate": "the same, then populated",
    "random": "single pages, each at its first store",
    "populate+forget": "populated, and out of the page table before the sync",
    "random+populate": "single pages, populated ahead",
    "writes+sync": "64 KiB writes, fdatasync every 500 ms",
    YARDSTICK: "64 KiB writes, never synced",
}


@dataclass(frozen=True)
class Run:
    """One run of one way; times of calls in nanoseconds, `cpu` as user and system seconds of writer, ahead and sync."""

    rate: float
    middle: float
    p999: float
    p9999: float
    worst: float
    stalls: float
    stalled: float
    cpu: tuple[float, ...]

    @classmethod
    def of(cls, words: list[str]) -> Run:
        seconds, written, _, middle, p999, p9999, worst, stalls, stalled, *cpu = map(
            float, words[1:]
        )
        return cls(written / seconds, middle, p999, p9999, worst, stalls, stalled, tuple(cpu))


Runs = dict[tuple[str, bool, str], list[Run]]
"""By place, whether it was paced, and way."""


def space() -> list[Row]:
    runs: Runs = {}
    for _ in range(ROUNDS):
        for place, paced in (("disk", False), ("disk", True), ("tmpfs", False)):
            play(runs, place, paced, WAYS)
    return rows(runs)


def play(runs: Runs, place: str, paced: bool, ways: Iterable[str]) -> None:
    """One run of each way."""
    length = min(BYTES[place], PACE * PACED_S) if paced else BYTES[place]
    build.BUILD.mkdir(parents=True, exist_ok=True)
    for way in ways:
        with tempfile.TemporaryDirectory(dir=TMPFS if place == "tmpfs" else build.BUILD) as folder:
            pace = str(PACE if paced else 0)
            program = build.program("space_ways")
            [words] = build.output([program, way, folder, str(length), str(FILE_SIZE), pace])
        runs.setdefault((place, paced, way), []).append(Run.of(words))


def rows(runs: Runs) -> list[Row]:
    found = []
    for (place, paced, way), its in runs.items():
        group, name = f"space, {place}", f"{'200 MB/s' if paced else 'unpaced'}: {WAYS[way]}"
        share = middle(its, "rate") / middle(runs[place, paced, YARDSTICK], "rate")
        found.append(Row(group, name, f"{ranged(its, 'rate', 1e9)} GB/s", share))
        calls = (("median", "middle"), ("p99.9", "p999"), ("p99.99", "p9999"), ("worst", "worst"))
        took = ", ".join(f"{title} {ranged(its, field, 1e3)}" for title, field in calls)
        found.append(Row(group, f"{name}, a call", f"{took} us"))
        stalls = f"{ranged(its, 'stalls', 1)}, together {ranged(its, 'stalled', 1e9)} s"
        found.append(Row(group, f"{name}, calls above 1 ms", stalls))
        found.append(Row(group, f"{name}, cores", f"{cpu(its)} s"))
    return found


def middle(runs: list[Run], field: str) -> float:
    return float(statistics.median(getattr(run, field) for run in runs))


def ranged(runs: list[Run], field: str, unit: float) -> str:
    """Median, with the least and the most of the rounds."""
    values = [getattr(run, field) / unit for run in runs]
    return f"{short(statistics.median(values))} [{short(min(values))}-{short(max(values))}]"


def short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def cpu(runs: list[Run]) -> str:
    """Means of user + system seconds of each thread."""
    user_system = [statistics.mean(run.cpu[i] for run in runs) for i in range(6)]
    names = ("writer", "ahead", "sync")
    return ", ".join(
        f"{name} {user_system[2 * i]:.2f} + {user_system[2 * i + 1]:.2f}"
        for i, name in enumerate(names)
    )
