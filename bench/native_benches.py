"""The kernels in C: CRC-32 against zlib, scans of a CommitLog file against a plain sum of its bytes."""

from __future__ import annotations

from bench import build
from bench.data import LOG_SETS, Data, LogSet, read_through
from bench.report import Row

CRC_OVER_ZLIB_128 = 8.0
SCAN_OVER_SUM = 0.5
COLUMNS_OVER_SUM = 0.2
ROUNDS = 9


def crc() -> list[Row]:
    """Every kernel this CPU runs; the requirement is on the chosen one at 128 bytes."""
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


def scan(data: Data, log_set: LogSet, rounds: int = ROUNDS) -> dict[str, tuple[float, int]]:
    """Seconds and records of each job of ``bench/native/scan.c`` on one set."""
    path = data.log_file(log_set)
    read_through(path)
    lines = build.output([build.program("scan"), path, str(rounds)])
    return {job: (float(seconds), int(records)) for job, seconds, records in lines}


def scans(data: Data) -> list[Row]:
    required = {"walk+crc": SCAN_OVER_SUM, "columns": COLUMNS_OVER_SUM}
    rows = []
    for log_set in LOG_SETS:
        jobs = scan(data, log_set)
        for job, (seconds, records) in jobs.items():
            measured = f"{seconds * 1e3:.1f} ms"
            if records:
                measured += f", {seconds / records * 1e9:.1f} ns a record"
            ratio = None if job == "sum" else jobs["sum"][0] / seconds
            rows.append(
                Row("scan / sum", f"{log_set.name}: {job}", measured, ratio, required.get(job))
            )
    return rows
