"""The kernels in C: CRC-32 against zlib, and scans of a CommitLog file against a plain sum of its bytes."""

from __future__ import annotations

import dataclasses

from bench import build
from bench.data import LOG_SETS, Data, LogSet, read_through
from bench.report import Row

CRC_OVER_ZLIB_128 = 8.0
SCAN_OVER_SUM = 0.5
COLUMNS_OVER_SUM = 0.2
SPLIT_OVER_SUM = 0.1
ROUNDS = 9


def crc() -> list[Row]:
    """Measure each CRC kernel that this CPU can run; the requirement holds for the chosen kernel at 128 bytes."""
    ns: dict[tuple[str, str], float] = {}
    chosen = ""
    for words in build.output([build.program("crc")]):
        if words[0] == "chosen":
            chosen = words[1]
        else:
            ns[words[0], words[1]] = float(words[2])
    rows = []
    for (kernel, length), value in ns.items():
        if kernel == "zlib":
            continue
        required = CRC_OVER_ZLIB_128 if (kernel, length) == (chosen, "128") else None
        zlib = ns["zlib", length]
        rows.append(
            Row(
                "crc / zlib",
                f"{kernel} {length} B",
                f"{value:.1f} ns, zlib {zlib:.1f} ns",
                zlib / value,
                required,
            )
        )
    return rows


@dataclasses.dataclass(frozen=True)
class Job:
    """One way through a CommitLog file: median CPU seconds, and the plain sum's time over it, round by round."""

    name: str
    seconds: float
    records: int
    ratio: float

    @property
    def ns_a_record(self) -> float:
        return self.seconds / self.records * 1e9


def scan(data: Data, log_set: LogSet, rounds: int = ROUNDS) -> list[Job]:
    """Run the jobs of ``bench/native/scan.c`` on one set, the plain sum first."""
    path = data.log_file(log_set)
    read_through(path)
    lines = build.output([build.program("scan"), path, str(rounds)])
    return [
        Job(name, float(seconds), int(n), float(ratio))
        for name, seconds, n, ratio in reversed(lines)
    ]


def scans(data: Data) -> list[Row]:
    required = {"walk+crc": SCAN_OVER_SUM, "numbers+crc": COLUMNS_OVER_SUM}
    rows = []
    for log_set in LOG_SETS:
        for job in scan(data, log_set):
            measured = f"{job.seconds * 1e3:.1f} ms"
            if job.records:
                measured += f", {job.ns_a_record:.1f} ns a record"
            name = f"{log_set.name}: {job.name}"
            rows.append(Row("scan / sum", name, measured, job.ratio, required.get(job.name)))
    return rows


def splits() -> list[Row]:
    """Measure how long it takes to find where a split begins, from the bytes of the largest record before its boundary."""
    return [
        Row(
            "split start / sum",
            f"{bodies} bodies",
            f"{float(seconds) * 1e3:.2f} ms a boundary, {float(seconds) / int(n) * 1e9:.0f} ns a record",
            float(ratio),
            SPLIT_OVER_SUM if bodies == "text" else None,
        )
        for bodies, n, seconds, ratio in build.output([build.program("split")])
    ]
