"""Whole commands over a whole store: the peak memory of cat, fsck and export, and the time of fsck on one core."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

from bench.data import Data, read_through
from bench.report import Row

RSS_MIB = 400.0
FSCK_SECONDS_A_GIB = 10.0
RMQCORE = (sys.executable, "-m", "rmqcore.cli")


def _run(*arguments: str, one_core: bool = False) -> dict[str, float]:
    core = ("--one-core",) if one_core else ()
    command = [sys.executable, "-m", "bench.rusage", *core, *RMQCORE, *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    usage: dict[str, float] = json.loads(done.stdout)
    return usage


def commands(data: Data) -> list[Row]:
    store = str(data.store())
    read_through(pathlib.Path(store))
    out = pathlib.Path(tempfile.mkdtemp(dir=data.root))
    rows = []
    try:
        for name, arguments in (
            ("fsck", ("fsck", store, "--json")),
            ("cat", ("cat", store, "--format", "jsonl")),
            ("export", ("export", store, "--format", "parquet", "-o", str(out / "parquet"))),
        ):
            usage = _run(*arguments, one_core=name == "fsck")
            if usage["exit_code"] != 0:
                answer = f"answered {usage['exit_code']:.0f}"
                rows.append(
                    Row(
                        "resident",
                        name,
                        answer,
                        required=RSS_MIB,
                        unit="MiB",
                        at_most=True,
                        failed=True,
                    )
                )
                continue
            seconds, rss = usage["seconds"], usage["max_rss_mib"]
            measured = f"{rss:.0f} MiB, {seconds:.1f} s"
            rows.append(Row("resident", name, measured, rss, RSS_MIB, "MiB", at_most=True))
            if name == "fsck":
                a_gib = seconds / (data.mib / 1024)
                measured = f"{seconds:.1f} s, {data.mib} MiB with queues and index, one core"
                rows.append(
                    Row(
                        "seconds a GiB",
                        name,
                        measured,
                        a_gib,
                        FSCK_SECONDS_A_GIB,
                        "s",
                        at_most=True,
                    )
                )
    finally:
        shutil.rmtree(out)
    return rows
