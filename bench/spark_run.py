"""One Spark session of the bench, in a process of its own: ``python -m bench.spark_run jobs STORE OUT`` and ``... empty KIND``.

Prints one JSON object. A session's settings hold for a whole JVM, so each kind of session needs a process of its own.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import sys
import time
from collections.abc import Callable
from typing import Any

from bench.spark_processes import Processes
from bench.spark_sources import dropping_sink, empty_source, tuple_source

MASTER = "local[2]"
SPLIT = "64m"
FOUR_COLUMNS = "topic,queue_id,queue_offset,store_timestamp"
ROUNDS = 3
EMPTY_TASKS = 200
Measured = dict[str, float]


def noop(frame: Any) -> None:
    """Run a query for all of its rows, and let the JVM drop them."""
    frame.write.format("noop").mode("overwrite").save()


def measure(
    processes: Processes,
    job: Callable[[], object],
    rounds: int,
    before: Callable[[], object] = lambda: None,
) -> Measured:
    """Run a job several times; give the quickest round's wall seconds, and its CPU seconds of JVM and Python workers.

    What runs `before` each round is not measured.
    """
    best: Measured = {}
    for _ in range(rounds):
        before()
        cpu, begin = processes.cpu(), time.perf_counter()
        job()
        seconds, used = time.perf_counter() - begin, processes.cpu() - cpu
        if not best or seconds < best["seconds"]:
            best = {"seconds": seconds, "jvm": used.jvm, "python": used.python}
    return best


def jobs(store: str, out: str) -> dict[str, Any]:
    """Run every job over a store, one after the other in one session."""
    import rmqcore.spark
    from rmqcore.spark.source.datasource import RmqStoreDataSource

    spark = rmqcore.spark.session(MASTER)
    spark.dataSource.register(tuple_source(RmqStoreDataSource))
    spark.dataSource.register(dropping_sink())
    processes = Processes(spark)
    file_size = next((pathlib.Path(store) / "commitlog").iterdir()).stat().st_size
    target = pathlib.Path(out)

    def frame(source: str = "rmqstore", **options: Any) -> Any:
        return spark.read.format(source).options(maxPartitionBytes=SPLIT, **options).load(store)

    def remove_target() -> None:
        shutil.rmtree(target, ignore_errors=True)

    def written(write: Callable[[str], object]) -> None:
        write(str(target))

    def spark_writes(path: str) -> None:
        days = frame(endingPhyOffset=file_size).selectExpr(
            "*", "date_format(store_timestamp, 'yyyy-MM-dd') day"
        )
        days.write.partitionBy("topic", "day").option("compression", "zstd").parquet(path)

    def spark_writes_flat(path: str) -> None:
        frame().write.option("compression", "zstd").parquet(path)

    def whole_files() -> Any:
        return spark.read.format("rmqstore").option("maxPartitionBytes", "4g").load(store)

    def sink_writes(path: str) -> None:
        # A store for each file that is read: one of a thousand queues costs the same to make and to close whatever it holds.
        whole_files().write.format("rmqstore").mode("append").save(path)

    def rows_dropped() -> None:
        whole_files().write.format("dropping").mode("append").save()

    def workers_write(path: str) -> None:
        rmqcore.spark.export_parquet(spark, store, path)

    queries: dict[str, tuple[Callable[[], object], int]] = {
        "all": (lambda: noop(frame()), ROUNDS),
        "four": (lambda: noop(frame(columns=FOUR_COLUMNS)), ROUNDS),
        "audit": (
            lambda: rmqcore.spark.audit(spark, store, maxPartitionBytes=SPLIT).count(),
            ROUNDS,
        ),
        "export": (lambda: written(workers_write), 2),
        "sink": (lambda: written(sink_writes), 2),
        "dropped": (rows_dropped, 2),
        "flat_parquet": (lambda: written(spark_writes_flat), 1),
        # A quarter of the store: the whole of it takes minutes.
        "spark_parquet": (lambda: written(spark_writes), 1),
        "tuples": (lambda: noop(frame("rmqstore_tuples", endingPhyOffset=file_size)), 1),
        "whole_files": (lambda: noop(whole_files()), 1),
    }
    noop(frame())  # the first query pays for the JVM's compiler and the workers' imports
    found = {
        name: measure(processes, job, rounds, remove_target)
        for name, (job, rounds) in queries.items()
    }
    result = {
        "jobs": found,
        "records": frame(columns="phy_offset").count(),
        "quarter_records": frame(columns="phy_offset", endingPhyOffset=file_size).count(),
        "peak_rss_mib": processes.peak_rss_mib(),
    }
    remove_target()
    spark.stop()
    return result


def empty(kind: str) -> dict[str, Any]:
    """Measure the seconds of a task that does nothing, in a session of ours or in one with PySpark's defaults."""
    if kind == "ours":
        import rmqcore.spark

        spark = rmqcore.spark.session(MASTER)
    else:
        from pyspark.sql import SparkSession

        os.environ["PYSPARK_PYTHON"] = (
            sys.executable
        )  # where Python is in an environment of its own, `python3` is another one
        builder = SparkSession.builder.master(MASTER)
        spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.dataSource.register(empty_source(EMPTY_TASKS, freeze=kind == "ours"))
    frame = spark.read.format("empty_tasks").load()
    noop(frame)
    found = measure(Processes(spark), lambda: noop(frame), ROUNDS)
    spark.stop()
    return {name: seconds / EMPTY_TASKS for name, seconds in found.items()}


def main(arguments: list[str]) -> int:
    from rmqcore.spark.runtime.java import set_java_home

    set_java_home()  # rmqcore.spark.session() does this itself, PySpark's own session does not
    result = jobs(*arguments[1:]) if arguments[0] == "jobs" else empty(*arguments[1:])
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
