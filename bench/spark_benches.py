"""Whole stores through PySpark at local[2]: jobs against each other in one session, and the cost of an empty task.

Each Spark session is a process of its own, `bench.spark_run`. The rows compare wall time, since a JVM and several Python workers
share a job; they show the CPU seconds of both too.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
from typing import Any

from bench.data import Data, read_through
from bench.report import Row

OVER_TUPLES = 6.0
FOUR_OVER_ALL = 1.7
AUDIT_OVER_ALL = 1.6
EXPORT_OVER_SPARK = 3.0
EMPTY_TASK = 0.5
WORKER_RSS_MIB = 512.0
SINK_A_CORE = 0.5
NAMED_OVER_DUCKDB = 2.0
OPTIMIZED_OVER_NAMED = 1.3
EXPORT_OVER_DUCKDB = 2.0
STREAM_OVER_BATCH = 0.9
GROUP = "spark local[2]"
QUARTERS = ("tuples", "spark_parquet")
"""Jobs that read only a quarter of the store; they are compared with the others by rows a second."""


def _run(*arguments: str, module: str = "spark_run") -> dict[str, Any]:
    command = [sys.executable, "-m", f"bench.{module}", *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _text(job: dict[str, float], records: int) -> str:
    rate = records / job["seconds"] / 1e6
    return (
        f"{job['seconds']:.2f} s, {rate:.2f} M rows/s, "
        f"CPU {job['jvm']:.1f} s JVM + {job['python']:.1f} s Python"
    )


def jobs(data: Data) -> list[Row]:
    store = data.cluster_store()
    read_through(store)
    out = pathlib.Path(tempfile.mkdtemp(dir=data.root))
    try:
        found = _run("jobs", str(store), str(out / "parquet"))
    finally:
        shutil.rmtree(out)
    done = found["jobs"]
    counts = dict.fromkeys(done, found["records"])
    counts |= dict.fromkeys(QUARTERS, found["quarter_records"])
    text = {name: _text(job, counts[name]) for name, job in done.items()}
    rate = {name: counts[name] / job["seconds"] for name, job in done.items()}
    rss = found["peak_rss_mib"]
    return [
        Row(GROUP, "rows as tuples", text["tuples"]),
        Row(GROUP, "all columns / tuples", text["all"], rate["all"] / rate["tuples"], OVER_TUPLES),
        Row(GROUP, "4 columns / all", text["four"], rate["four"] / rate["all"], FOUR_OVER_ALL),
        Row(
            GROUP, "audit / all columns", text["audit"], rate["audit"] / rate["all"], AUDIT_OVER_ALL
        ),
        Row(GROUP, "Parquet by Spark, by topic and day", text["spark_parquet"]),
        Row(GROUP, "Parquet by Spark, in one directory", text["flat_parquet"]),
        Row(
            GROUP,
            "Parquet by workers / Spark, by topic and day",
            text["export"],
            rate["export"] / rate["spark_parquet"],
            EXPORT_OVER_SPARK,
        ),
        Row(
            GROUP,
            "Parquet by workers / Spark in one directory",
            text["export"],
            rate["export"] / rate["flat_parquet"],
        ),
        Row(
            GROUP,
            "stores by the sink / Parquet by Spark in one directory",
            text["sink"],
            rate["sink"] / rate["flat_parquet"],
        ),
        Row(
            GROUP,
            "stores by the sink, a core of its Python",
            text["sink"],
            found["records"] / (done["sink"]["python"] - done["whole_files"]["python"]) / 1e6,
            SINK_A_CORE,
            "M rows/s",
        ),
        Row(
            GROUP,
            "stores by the sink, without what a sink takes that drops its rows",
            text["dropped"],
            found["records"] / (done["sink"]["python"] - done["dropped"]["python"]) / 1e6,
            unit="M rows/s",
        ),
        Row(GROUP, "whole files as splits", text["whole_files"]),
        Row(
            GROUP,
            "peak of a Python worker",
            f"{rss:.0f} MiB",
            rss,
            WORKER_RSS_MIB,
            "MiB",
            at_most=True,
        ),
    ]


def goals(data: Data) -> list[Row]:
    """A session against one process with DuckDB, against itself, and a stream against a batch."""
    store = data.cluster_store()
    read_through(store)
    out = pathlib.Path(tempfile.mkdtemp(dir=data.root))
    try:
        took = _run(str(store), str(out), module="spark_goals")
    finally:
        shutil.rmtree(out)

    def text(name: str, other: str) -> str:
        return f"{took[name]:.2f} s, {took[other]:.2f} s"

    batch_trigger = took["batch"] * took["trigger_share"]
    return [
        Row(
            GROUP,
            "group by over named columns / DuckDB over batches()",
            text("named", "duckdb"),
            took["named"] / took["duckdb"],
            NAMED_OVER_DUCKDB,
            at_most=True,
        ),
        Row(
            GROUP,
            "group by over named columns / over rows that no task reads",
            text("named", "made"),
            took["named"] / took["made"],
        ),
        Row(
            GROUP,
            "group by that optimize() reads / named columns",
            text("optimized", "named"),
            took["optimized"] / took["named"],
            OPTIMIZED_OVER_NAMED,
            at_most=True,
        ),
        Row(
            GROUP,
            "one file, in all columns: cut / one task",
            text("one_file", "one_task"),
            took["one_task"] / took["one_file"],
        ),
        Row(
            GROUP,
            "stream in triggers of 64 MiB / batch",
            f"{took['trigger']:.2f} s a trigger, {batch_trigger:.2f} s of a batch",
            batch_trigger / took["trigger"],
            STREAM_OVER_BATCH,
        ),
        Row(
            GROUP,
            "trigger that reads nothing / trigger of 64 MiB",
            f"{took['empty_trigger']:.2f} s, {took['trigger']:.2f} s",
            took["empty_trigger"] / took["trigger"],
        ),
        Row(
            GROUP,
            "Parquet by workers / DuckDB's COPY, by topic and day",
            text("export", "duckdb_copy"),
            took["duckdb_copy"] / took["export"],
            EXPORT_OVER_DUCKDB,
        ),
    ]


def empty_tasks() -> list[Row]:
    default, ours = _run("empty", "default"), _run("empty", "ours")
    measured = (
        f"{ours['seconds'] * 1e3:.1f} ms a task, default {default['seconds'] * 1e3:.1f} ms; "
        f"CPU of Python {ours['python'] * 1e3:.1f} and {default['python'] * 1e3:.1f} ms"
    )
    ratio = ours["seconds"] / default["seconds"]
    return [Row(GROUP, "empty task / default settings", measured, ratio, EMPTY_TASK, at_most=True)]


def spark(data: Data) -> list[Row]:
    return [*jobs(data), *goals(data), *empty_tasks()]
