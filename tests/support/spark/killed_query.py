"""A streaming query to be killed: it does what lines on standard input say, and answers each with a line that begins with ##.

``start`` the query into Parquet, ``rest`` until all that is there is done, ``stop`` it in whatever it is doing, ``drain`` with
Trigger.AvailableNow, ``rows FILE`` writes what the Parquet table holds.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

SLOW_START = "Python worker failed to connect back"
"""Spark gives the process of a source ten seconds to come up, and no setting for more; a busy machine needs longer."""
COLUMNS = "queue_id, queue_offset, phy_offset, body"


def ask(port: int) -> None:
    """Tell the test that a task of the stream runs, and wait until it may go on."""
    with socket.create_connection(("127.0.0.1", port)) as gate:
        gate.recv(1)


class Query:
    """A query that is started again as often as its source's process came up too late for Spark, and for no other reason."""

    def __init__(self, start: Callable[[], Any]) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._wanted = True
        self._query = patiently(start)
        threading.Thread(target=patiently, args=(self._keep,), daemon=True).start()

    def _keep(self) -> None:
        with self._lock:
            if self._wanted and not self._query.isActive:
                self._query = patiently(self._start)
        self._query.awaitTermination()

    def rest(self) -> None:
        """Return when all that is there is done."""
        patiently(self._process)

    def _process(self) -> None:
        self._query.processAllAvailable()

    def stop(self) -> None:
        with self._lock:
            self._wanted = False
            self._query.stop()


def patiently(call: Callable[[], Any]) -> Any:
    """Call until it does not fail for a slow start; any other failure is raised."""
    while True:
        try:
            return call()
        except Exception as error:
            if SLOW_START not in str(error):
                raise
            time.sleep(0.1)  # it may fail at once until the query's thread has started it again


def main(folder: str, path: str, port: int, options: dict[str, str]) -> None:
    from rmqcore.spark import register, session

    spark = session(
        "local[2]",
        conf={
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.sql.shuffle.partitions": 2,
            "spark.python.task.killTimeout": "1s",
        },
    )
    register(spark)

    def gated(batches: Iterator[Any]) -> Iterator[Any]:
        ask(port)
        yield from batches

    def start(**trigger: Any) -> Any:
        stream = spark.readStream.format("rmqstore").options(path=path, **options).load()
        rows = stream.selectExpr(*COLUMNS.split(", "))
        rows = rows.mapInArrow(gated, rows.schema)
        writer = rows.writeStream.format("parquet").trigger(**trigger)
        return writer.option("checkpointLocation", f"{folder}/checkpoint").start(f"{folder}/table")

    answer("ready")
    query: Query
    for line in sys.stdin:
        verb, *words = line.split()
        if verb == "start":
            query = Query(lambda: start(processingTime="0 seconds"))
        elif verb == "rest":
            query.rest()
        elif verb == "stop":
            query.stop()
        elif verb == "drain":
            patiently(lambda: start(availableNow=True).awaitTermination())
        elif verb == "rows":
            table = spark.read.parquet(f"{folder}/table").selectExpr(*COLUMNS.split(", "))
            rows = [[*row[:3], row[3].decode()] for row in table.collect()]
            with open(words[0], "w") as file:
                json.dump(rows, file)
        answer(verb)


def answer(text: str) -> None:
    """One line that the parent tells from what Spark prints."""
    os.write(1, f"## {text}\n".encode())


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4]))
    except Exception as error:
        answer(f"failed {error}".replace("\n", " "))
        raise
