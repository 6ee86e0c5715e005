"""Writes into a folder of stores, to be killed: batch writes by name, then a stream, until all of it is there.

It tells by lines that begin with ## where it is, and does again what failed because a worker was killed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from support.spark.killed_query import answer
from support.spark.sink_writes import SMALL

ROWS = 6000
"""Rows of a batch write, in four tasks."""


def main(folder: str, writes: list[int]) -> None:
    from rmqcore.spark import session

    conf = {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": 2,
    }
    spark = session("local[2,3]", conf=conf)  # a task is tried three times
    out = f"{folder}/out"

    def batch(number: int) -> None:
        rows = spark.range(number * ROWS, (number + 1) * ROWS, 1, 4)
        frame = rows.selectExpr("'Batch' topic", "cast(id as string) body", "concat('K', id) keys")
        sink = frame.write.format("rmqstore").options(**SMALL, writeId=f"write-{number}")
        sink.mode("append").save(out)

    def stream() -> None:
        source = spark.readStream.format("rmqstore").option("maxRecordsPerTrigger", "500")
        sink = source.load(f"{folder}/store").writeStream.format("rmqstore").options(**SMALL)
        query = sink.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
        query.start(out).awaitTermination()

    answer("ready")
    for number in writes:
        until_done(lambda number=number: batch(number))  # type: ignore[misc]
        answer(f"wrote {number}")
    until_done(stream)
    answer("done")


def until_done(write: Callable[[], None]) -> None:
    """Write again whenever it fails, and tell."""
    while True:
        try:
            return write()
        except Exception as error:  # noqa: BLE001 - whatever a killed worker makes Spark say
            answer(f"failed {error}".splitlines()[0])


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
