"""Runs the benches and prints one table; exit code 1 when a requirement does not hold."""

from __future__ import annotations

import argparse
import importlib
import pathlib
import sys

from bench import build, report
from bench.data import Data

# name -> module, function, whether it needs the data. A module is imported when its bench runs: the native benches need
# neither the built package nor pyarrow.
BENCHES = {
    "crc": ("native_benches", "crc", False),
    "scan": ("native_benches", "scans", True),
    "columns": ("scan_benches", "scans", True),
    "split": ("native_benches", "splits", False),
    "arrow": ("arrow_benches", "streams", True),
    "rows": ("row_benches", "rows", False),
    "codec": ("codec_benches", "codecs", False),
    "java": ("java_benches", "decoders", True),
    "engine": ("engine_benches", "engine", False),
    "instructions": ("instruction_benches", "instructions", False),
    "beside": ("beside_benches", "beside", False),
    "clock": ("clock_benches", "clock", False),
    "broker": ("broker_benches", "broker", False),
    "ha": ("ha_benches", "ha", True),
    "cold": ("cold_benches", "cold", False),
    "space": ("space_benches", "space", False),
    "disk": ("disk_benches", "disk", False),
    "processes": ("process_benches", "commands", True),
    "backup": ("backup_benches", "backups", False),
    "hostile": ("hostile_benches", "hostile", False),
    "estate": ("estate_benches", "estate", False),
    "spark": ("spark_benches", "spark", True),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--mib", type=int, default=1024, help="MiB of data a set (default 1024)")
    parser.add_argument(
        "--only", default=",".join(BENCHES), help="benches to run (default %(default)s)"
    )
    parser.add_argument(
        "--data", type=pathlib.Path, default=build.BUILD / "data", help="where the data is kept"
    )
    parser.add_argument(
        "--json",
        type=pathlib.Path,
        default=build.BUILD / "result.json",
        help="where the result goes",
    )
    args = parser.parse_args()
    chosen = args.only.split(",")
    unknown = [name for name in chosen if name not in BENCHES]
    if unknown:
        parser.error(f"unknown bench: {', '.join(unknown)}")

    where = report.machine()
    print("\n".join(f"{key:8}{value}" for key, value in where.items()), file=sys.stderr)
    data = Data(args.data, args.mib)
    rows: list[report.Row] = []
    for name in chosen:
        print(f"running {name} ...", file=sys.stderr)
        module, function, needs_data = BENCHES[name]
        run = getattr(importlib.import_module(f"bench.{module}"), function)
        rows += run(data) if needs_data else run()
    report.write_json(args.json, rows, where, args.mib)
    print(report.table(rows))
    failed = [row for row in rows if row.holds is False]
    print(
        f"\n{len(failed)} of {sum(row.holds is not None for row in rows)} requirements do not hold; {args.json}"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
