"""Decoding to all columns against Java's MessageDecoder.decode, the same file in the same run."""

from __future__ import annotations

from bench import build, native_benches
from bench.data import LOG_SETS, Data
from bench.report import Row

COLUMNS_OVER_JAVA = 8.0
ROUNDS = 3


def decoders(data: Data) -> list[Row]:
    command = build.java_command("DecodeBench")
    if command is None:
        return [Row("columns / Java", "skipped", "needs java, javac and mvn")]
    rows = []
    for log_set in LOG_SETS:
        jobs = native_benches.scan(data, log_set, ROUNDS)
        seconds, records = jobs["columns"]
        lines = build.output([*command, data.log_file(log_set), str(ROUNDS)])
        java, java_records = next(
            (float(line[1]), int(line[2])) for line in lines if line[0] == "decode"
        )
        if java_records != records:
            raise RuntimeError(f"{log_set.name}: Java decoded {java_records} records, we {records}")
        measured = f"{seconds / records * 1e9:.1f} ns a record, Java {java / records * 1e9:.0f} ns"
        rows.append(
            Row(
                "columns / Java",
                f"{log_set.name}: all columns",
                measured,
                java / seconds,
                COLUMNS_OVER_JAVA,
            )
        )
    return rows
