"""What single puts take, as a picture and as a table: of a store's first ten seconds, and of the tenth file of its log.

``python -m bench.latency_plot docs/img/put-latency.svg`` measures, writes the picture and prints the table of
docs/performance.md, in Markdown. Ours, Java's store, a plain ``write`` of as many bytes for each message, and a call that does
nothing take turns, each on new files on the disk below ``build/bench``. With ``--kept FILE`` the histograms of earlier calls are
taken into account, and those of this call are kept there too; ``--rounds 0`` only draws.

Files of the log have 256 MiB instead of 1 GiB, so that the tenth comes soon; else the configurations are the default ones.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import tempfile
import time
from array import array
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
from hdrh.histogram import HdrHistogram

from bench import build
from bench.clock_benches import LARGE, QUEUES, TOPIC
from bench.java_steps import JavaSteps
from bench.latency_picture import Line, picture
from rmqcore import Message
from rmqcore import open as open_store

FILE_SIZE = 256 << 20
FILES = 10
SECONDS = 10
PER_SECOND = 100_000
MOST = 24_000_000  # calls of a run
LOOK_EVERY = 1_024  # calls
ROUNDS = 2
WARM_UP = 200_000  # messages, for Java's compiler
BARE_RECORD = 1_146  # bytes of a record before the digits of its key
NOTHING = "nothing"

PACES = {"paced": PER_SECOND, "unpaced": 0}
PARTS = ("first", "tenth")
SHOWN = (50.0, 90.0, 99.0, 99.9, 99.99, 100.0)
TITLES = {
    ("paced", "first"): f"{PER_SECOND:,} a second: the first {SECONDS} s",
    ("paced", "tenth"): f"{PER_SECOND:,} a second: the tenth file",
    ("unpaced", "first"): f"one after the other: the first {SECONDS} s",
    ("unpaced", "tenth"): "one after the other: the tenth file",
}

Nanos = npt.NDArray[np.int64]


class Histograms:
    """A histogram for each pace, part and side, in the form of HdrHistogram: small, exact to three digits, and they add."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str, str], HdrHistogram] = {}

    def of(self, *key: str) -> HdrHistogram:
        pace, part, side = key
        return self.found.setdefault((pace, part, side), HdrHistogram(1, 60_000_000_000, 3))

    def note(self, pace: str, side: str, nanos: Nanos) -> None:
        for part, chosen in parts_of(nanos, PACES[pace]).items():
            if part == "tenth" and side == NOTHING:
                continue
            values, counts = np.unique(chosen, return_counts=True)
            for value, count in zip(values.tolist(), counts.tolist(), strict=True):
                self.of(pace, part, side).record_value(value, count)

    def add(self, path: pathlib.Path) -> None:
        for name, text in json.loads(path.read_text()).items():
            self.of(*name.split("/")).decode_and_add(text)

    def keep(self, path: pathlib.Path) -> None:
        texts = {"/".join(key): found.encode().decode() for key, found in self.found.items()}
        path.write_text(json.dumps(texts))


def parts_of(nanos: Nanos, per_second: int) -> dict[str, Nanos]:
    """The calls of the first seconds, and those that wrote to the tenth file."""
    number = np.arange(len(nanos))
    digits = 1 + np.floor(np.log10(np.maximum(number, 1))).astype(np.int64)
    ends = np.cumsum(BARE_RECORD + digits)
    began = number / per_second if per_second else np.cumsum(nanos) / 1e9
    tenth = (ends > (FILES - 1) * FILE_SIZE) & (ends <= FILES * FILE_SIZE)
    return {"first": nanos[began < SECONDS], "tenth": nanos[tenth]}


# ---- the work


def play(found: Histograms, java: JavaSteps, folder: pathlib.Path) -> None:
    """One round of everything, the sides in turn."""
    for pace, per_second in PACES.items():
        found.note(pace, "rmqcore", our_puts(folder / "ours", per_second))
        found.note(pace, "Java", java_puts(java, folder / "times", per_second))
        found.note(pace, "plain write", plain_writes(folder / "plain", per_second))
        found.note(pace, NOTHING, timed(lambda _: None, lambda: FILES * FILE_SIZE, per_second))


def timed(call: Callable[[int], object], size: Callable[[], int], per_second: int) -> Nanos:
    """Make calls until the seconds are over and the files are full; answer what each took."""
    nanos = array("q", bytes(8 * MOST))
    now = time.perf_counter_ns
    begin = now()
    done = 0
    while done < MOST:
        before = now()
        for i in range(done, min(done + LOOK_EVERY, MOST)):
            if per_second:
                due = begin + i * 1_000_000_000 // per_second
                while (before := now()) < due:
                    pass
            call(i)
            after = now()
            nanos[i] = after - before
            before = after
        done = min(done + LOOK_EVERY, MOST)
        if now() - begin >= SECONDS * 1e9 and size() >= FILES * FILE_SIZE:
            break
    return np.frombuffer(nanos, np.int64)[:done]


def our_puts(root: pathlib.Path, per_second: int) -> Nanos:
    body = b"x" * LARGE
    try:
        with open_store(root, mapped_file_size_commit_log=FILE_SIZE) as store:
            put = store.put
            return timed(
                lambda i: put(Message(TOPIC, body, i % QUEUES, "TagA", f"k{i}")),
                lambda: store.max_phy_offset,
                per_second,
            )
    finally:
        shutil.rmtree(root)


def java_puts(java: JavaSteps, times: pathlib.Path, per_second: int) -> Nanos:
    java.ask("log", MOST, LARGE, per_second, FILE_SIZE, SECONDS, FILES * FILE_SIZE, times)
    try:
        return np.fromfile(times, ">i8").astype(np.int64)
    finally:
        times.unlink()


def plain_writes(folder: pathlib.Path, per_second: int) -> Nanos:
    """A file after the other, one write a message."""
    folder.mkdir()
    record = b"x" * (BARE_RECORD + len("1000000"))
    a_file = FILE_SIZE // len(record)
    files: list[int] = []
    written = 0

    def call(i: int) -> None:
        nonlocal written
        if i % a_file == 0:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            files.append(os.open(folder / str(len(files)), flags))
        written += os.write(files[-1], record)

    try:
        return timed(call, lambda: written + FILES * len(record), per_second)
    finally:
        for file in files:
            os.close(file)
        shutil.rmtree(folder)


def measure(found: Histograms, rounds: int) -> None:
    command = build.java_command("ClockBench")
    if command is None:
        raise SystemExit("needs java, javac and mvn")
    build.BUILD.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build.BUILD) as folder:
        java = JavaSteps([*command, pathlib.Path(folder, "java")])
        try:
            java.ask("put", WARM_UP, LARGE, 0)
            for _ in range(rounds):
                play(found, java, pathlib.Path(folder))
        finally:
            java.stop()


# ---- what is shown


def percentile(histogram: HdrHistogram, value: float) -> float:
    """Nanoseconds."""
    return float(histogram.get_value_at_percentile(value))


def shown(nanos: float) -> str:
    return f"{nanos / 1e3:.3g} us" if nanos < 1e6 else f"{nanos / 1e6:.3g} ms"


def table(found: Histograms) -> str:
    heads = ["", "", "median", "90 %", "99 %", "99.9 %", "99.99 %", "worst", "calls"]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for (pace, part, side), histogram in sorted(found.found.items(), key=lambda item: item[0][:2]):
        times = (shown(percentile(histogram, value)) for value in SHOWN)
        calls = f"{histogram.get_total_count():,}"
        lines.append(f"| {' | '.join([TITLES[pace, part], side, *times, calls])} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.latency_plot", description=__doc__)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--kept", type=pathlib.Path, help="histograms of earlier calls")
    args = parser.parse_args()
    found = Histograms()
    if args.kept is not None and args.kept.exists():
        found.add(args.kept)
    if args.rounds:
        measure(found, args.rounds)
    if args.kept is not None:
        found.keep(args.kept)
    lines: dict[tuple[str, str], Line] = {
        (TITLES[pace, part], side): partial(percentile, histogram)
        for (pace, part, side), histogram in found.found.items()
    }
    args.out.write_text(picture(list(TITLES.values()), lines))
    print(table(found))


if __name__ == "__main__":
    main()
