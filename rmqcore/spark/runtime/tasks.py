"""Tasks of a Spark job: a function that runs over payloads, one task for each; only its results are sent to Spark.

Payloads are sent as rows, each to its own task, and not with the function: a plan of 100,000 splits is sent once, not
per task.
Spark needs only `mapInArrow` for that, which PySpark 3.5 has too.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from rmqcore.spark.runtime.failures import short_errors
from rmqcore.spark.runtime.shipping import part_reader, send_code_along
from rmqcore.spark.runtime.worker_check import check_workers

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Payload = TypeVar("Payload")
Result = TypeVar("Result")


def task_frame(
    spark: SparkSession,
    work: Callable[[Payload], Iterator[pa.RecordBatch]],
    payloads: Sequence[Payload],
    schema: Any,
) -> DataFrame:
    """Return a DataFrame of the batches that a function yields for each payload; nothing runs before an action.

    Parameters
    ----------
    spark : SparkSession
    work : callable
        A function of a module, or another object that pickle supports.
    payloads : sequence
        Sent by pickle, one task for each.
    schema : StructType or str
        Schema of the batches.

    Raises
    ------
    SparkJobError
        Spark's workers lack a package.
    """
    from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

    count = len(payloads)
    if count == 0:
        return spark.createDataFrame([], schema)
    rows = [(number, pickle.dumps(payload)) for number, payload in enumerate(payloads)]
    given = spark.createDataFrame(rows, "id bigint, payload binary")
    # `range` puts each number into a partition of its own. `repartition` hashes, and would put several into one
    # partition.
    tasks = spark.range(0, count, 1, count).join(F.broadcast(given), "id").select("payload")

    check_workers(spark)
    send_code_along()
    return tasks.mapInArrow(part_reader(pickle.dumps(_Work(work))), schema)


@dataclass(frozen=True)
class _Work:
    """A function behind the method `read`, which `rmqcore.spark.runtime.shipping` calls in a worker."""

    work: Callable[[Any], Iterator[Any]]

    def read(self, payload: Any) -> Iterator[Any]:
        return self.work(payload)


@dataclass(frozen=True)
class _Report:
    """Runs a function and yields its pickled result as a row."""

    work: Callable[[Any], Any]

    def __call__(self, numbered: tuple[int, Any]) -> Iterator[Any]:
        import pyarrow as pa

        number, payload = numbered
        answer = pickle.dumps(self.work(payload))
        yield pa.record_batch({"number": pa.array([number], pa.int64()), "answer": [answer]})


def run_tasks(
    spark: SparkSession, work: Callable[[Payload], Result], payloads: Sequence[Payload]
) -> list[Result]:
    """Run a function over payloads, one task for each, and return its results in the order of the payloads.

    Raises
    ------
    StoreError
        A task raised an error, or a worker lacks the package.
    """
    numbered = list(enumerate(payloads))
    frame = task_frame(spark, _Report(work), numbered, "number bigint, answer binary")
    found = {row["number"]: row["answer"] for row in collect(frame)}
    return [pickle.loads(found[number]) for number in range(len(payloads))]  # noqa: S301 - our tasks'


def collect(frame: DataFrame) -> list[Any]:
    """Return the rows of a DataFrame; raise an error of a task as the package's own error.

    Raises
    ------
    StoreError
        See `run_tasks`.
    """
    with short_errors(every=True):
        return frame.collect()
