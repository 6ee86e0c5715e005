"""Decoding a file to columns against Java's MessageDecoder.decode over the same file in the same run."""

from __future__ import annotations

from bench import build, native_benches
from bench.data import LOG_SETS, Data
from bench.report import Row

# Neither side checks the CRC, except ours in "columns+crc". MessageDecoder copies the body and fills a map of properties,
# as "columns+crc" does. The requirement was set for fields of fixed width and 128-byte bodies, where the prototype of this
# scan reached it.
REQUIRED = {"numbers": 8.0, "columns+crc": None}
ROUNDS = 3


def decoders(data: Data) -> list[Row]:
    command = build.java_command("DecodeBench")
    if command is None:
        return [Row("decode / Java", "skipped", "needs java, javac and mvn")]
    rows = []
    for log_set in LOG_SETS:
        jobs = native_benches.scan(data, log_set, ROUNDS)
        lines = build.output([*command, data.log_file(log_set), str(ROUNDS)])
        java, java_records = next(
            (float(line[1]), int(line[2])) for line in lines if line[0] == "decode"
        )
        for job in jobs:
            if job.name not in REQUIRED:
                continue
            if java_records != job.records:
                raise RuntimeError(f"{log_set.name}: Java decoded {java_records}, we {job.records}")
            java_ns = java / java_records * 1e9
            measured = f"{job.ns_a_record:.1f} ns a record, Java {java_ns:.0f} ns"
            ratio = java / job.seconds
            name = f"{log_set.name}: {job.name}"
            rows.append(
                Row(
                    "decode / Java",
                    name,
                    measured,
                    ratio,
                    REQUIRED[job.name] if log_set.body == 128 else None,
                )
            )
    return rows
