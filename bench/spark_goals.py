"""What a Spark session must not lose against one process with DuckDB: ``python -m bench.spark_goals STORE OUT``.

Prints one JSON object: wall seconds of each job, the quickest of some rounds in which the jobs take turns, so that what else this
machine does falls on all of them.
"""

from __future__ import annotations

import json
import math
import pathlib
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from bench.spark_sources import empty_stream, made_source

MASTER = "local[2]"
TASKS = 2
ROUNDS = 5
MADE_BATCH_ROWS = 10_000
TRIGGER = 64 << 20
TOTALS = "select topic, queue_id, count(*), sum(msg_size) from {} group by 1, 2"
COPIED = (
    "copy (select *, strftime(make_timestamp(store_timestamp_ms * 1000), '%Y-%m-%d') as day from found) "
    "to '{}' (format parquet, compression zstd, partition_by (topic, day))"
)


def in_turn(
    jobs: Mapping[str, Callable[[], object]],
    rounds: int,
    before: Callable[[], object] = lambda: None,
) -> dict[str, float]:
    """Run jobs one after the other, some rounds of them; give the least seconds of each, without what runs `before` it."""
    best: dict[str, float] = {}
    for _ in range(rounds):
        for name, job in jobs.items():
            before()
            begin = time.perf_counter()
            job()
            seconds = time.perf_counter() - begin
            best[name] = min(seconds, best.get(name, seconds))
    return best


class Goals:
    """The jobs over one store."""

    def __init__(self, spark: Any, store: str, out: pathlib.Path) -> None:
        self.spark, self.store, self.out = spark, store, out
        # One file of which half is written: the newest one, as a broker has it.
        self.single = out / "single"
        file = min((pathlib.Path(store) / "commitlog").iterdir())
        (self.single / "commitlog").mkdir(parents=True)
        shutil.copyfile(file, self.single / "commitlog" / file.name)
        self.trigger = math.inf
        self.empty_trigger = math.inf
        files = [file.stat().st_size for file in (pathlib.Path(store) / "commitlog").iterdir()]
        self.trigger_share = TRIGGER / sum(files)
        rows = sum(row[2] for row in self.duckdb_totals())
        spark.dataSource.register(made_source(8, rows, batch_rows=MADE_BATCH_ROWS))
        spark.dataSource.register(empty_stream(max(3, round(1 / self.trigger_share)), TASKS))

    def measure(self) -> dict[str, float]:
        queries = {
            "duckdb": self.duckdb_totals,
            "named": lambda: self.totals(columns=["topic", "queue_id", "msg_size"]),
            "optimized": self.optimized_totals,
            "made": self.made_totals,
        }
        in_turn(queries, 1)  # the first query pays for the JVM's compiler and the workers' imports
        found = in_turn(queries, ROUNDS)
        found |= in_turn(
            {
                "one_task": lambda: self.all_columns(str(self.single), splitMode="resync"),
                "one_file": lambda: self.all_columns(str(self.single)),
            },
            3,
        )
        streams = {
            "batch": lambda: self.all_columns(self.store),
            "stream": self.stream,
            "empty_stream": self.stream_without_rows,
        }
        found |= in_turn(streams, 3)
        found |= {
            "trigger": self.trigger,
            "empty_trigger": self.empty_trigger,
            "trigger_share": self.trigger_share,
        }
        copies = {"export": self.export, "duckdb_copy": self.duckdb_copy}
        return found | in_turn(copies, 2, before=self.remove_copies)

    # ---- named columns ------------------------------------------------------------------------------

    def totals(self, **options: Any) -> list[Any]:
        import rmqcore.spark

        rmqcore.spark.read(self.spark, self.store, **options).createOrReplaceTempView("named")
        rows: list[Any] = self.spark.sql(TOTALS.format("named")).collect()
        return rows

    def made_totals(self) -> list[Any]:
        """The same query over as many rows that no task reads: what Spark takes for them."""
        self.spark.read.format("made_rows").load().createOrReplaceTempView("made")
        rows: list[Any] = self.spark.sql(TOTALS.format("made")).collect()
        return rows

    def optimized_totals(self) -> list[Any]:
        import rmqcore.spark

        rmqcore.spark.read(self.spark, self.store).createOrReplaceTempView("unnamed")
        rows: list[Any] = rmqcore.spark.sql(self.spark, TOTALS.format("unnamed")).collect()
        return rows

    def duckdb_totals(self) -> list[Any]:
        import duckdb

        import rmqcore

        with rmqcore.read(self.store) as reader, duckdb.connect() as connection:
            found = reader.batches(["topic", "queue_id", "msg_size"])  # noqa: F841 - the query names it
            return connection.execute(TOTALS.format("found")).fetchall()

    # ---- all columns --------------------------------------------------------------------------------

    def all_columns(self, store: str, **options: Any) -> None:
        import rmqcore.spark

        frame = rmqcore.spark.read(self.spark, store, **options)
        frame.write.format("noop").mode("overwrite").save()

    def stream(self) -> None:
        """Read the store in triggers; keep the mean seconds of those that are full, of the quickest run."""
        stream = self.spark.readStream.format("rmqstore").option("maxBytesPerTrigger", TRIGGER)
        self.trigger = min(self.trigger, self.mean_trigger(stream.load(self.store)))

    def stream_without_rows(self) -> None:
        """Run as many triggers that have nothing to read."""
        stream = self.spark.readStream.format("empty_triggers").load()
        self.empty_trigger = min(self.empty_trigger, self.mean_trigger(stream))

    def mean_trigger(self, stream: Any) -> float:
        """Run a stream to its end; give the mean seconds of its triggers.

        The first trigger pays for the start of a query's processes, the last one has what is left.
        """
        checkpoint = self.out / "checkpoint"
        shutil.rmtree(checkpoint, ignore_errors=True)
        query = (
            stream.writeStream.format("noop")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        took: list[float] = [
            progress["durationMs"]["triggerExecution"] / 1e3 for progress in query.recentProgress
        ]
        return statistics.mean(took[1:-1] or took)

    # ---- copies -------------------------------------------------------------------------------------

    def remove_copies(self) -> None:
        for name in ("parquet", "copied"):
            shutil.rmtree(self.out / name, ignore_errors=True)

    def export(self) -> None:
        import rmqcore.spark

        rmqcore.spark.export_parquet(self.spark, self.store, self.out / "parquet")

    def duckdb_copy(self) -> None:
        import duckdb

        import rmqcore

        with rmqcore.read(self.store) as reader, duckdb.connect() as connection:
            found = reader.batches()  # noqa: F841 - the query names it
            connection.execute(COPIED.format(self.out / "copied"))


def main(store: str, out: str) -> int:
    import rmqcore.spark

    spark = rmqcore.spark.session(MASTER)
    found = Goals(spark, store, pathlib.Path(out)).measure()
    spark.stop()
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
