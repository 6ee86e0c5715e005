"""Tasks of a Spark job: a function over payloads, one task each, of which only what it answers crosses to Spark.

Payloads travel as rows, each to its own task, and not with the function: a plan of 100,000 splits is sent once, not once a task.
That needs no more of Spark than `mapInArrow`, which 3.5 has too.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from rmqcore import errors
from rmqcore.errors import SparkJobError, StoreError
from rmqcore.spark.workers import freeze_worker_heap

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Payload = TypeVar("Payload")
Result = TypeVar("Result")

_MISSING = re.compile(r"ModuleNotFoundError: No module named '(rmqcore|pyarrow|numpy)")
_LAST_LINE = re.compile(
    r"^((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception)): (.*)$", re.MULTILINE
)


def task_frame(
    spark: SparkSession,
    work: Callable[[Payload], Iterator[pa.RecordBatch]],
    payloads: Sequence[Payload],
    schema: Any,
) -> DataFrame:
    """Give a DataFrame of what a function yields for each payload; nothing runs before an action.

    Parameters
    ----------
    spark : SparkSession
    work : callable
        Of a module that the workers can import.
    payloads : sequence
        Sent by pickle, one task for each.
    schema : StructType or str
        Of the batches.
    """
    from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

    count = len(payloads)
    if count == 0:
        return spark.createDataFrame([], schema)
    rows = [(number, pickle.dumps(payload)) for number, payload in enumerate(payloads)]
    given = spark.createDataFrame(rows, "id bigint, payload binary")
    # A range gives each number a partition of its own; which rows a repartition puts together is up to their hashes.
    tasks = spark.range(0, count, 1, count).join(F.broadcast(given), "id").select("payload")

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        freeze_worker_heap()
        for batch in batches:
            for payload in batch.column(0):
                yield from work(pickle.loads(payload.as_py()))  # noqa: S301 - the driver's

    return tasks.mapInArrow(run, schema)


def run_tasks(
    spark: SparkSession, work: Callable[[Payload], Result], payloads: Sequence[Payload]
) -> list[Result]:
    """Run a function over payloads, a task each, and give what it answers, in their order.

    Raises
    ------
    StoreError
        What a task raised; also where a worker lacks the package.
    """

    def report(numbered: tuple[int, Payload]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        number, payload = numbered
        answer = pickle.dumps(work(payload))
        yield pa.record_batch({"number": pa.array([number], pa.int64()), "answer": [answer]})

    frame = task_frame(spark, report, list(enumerate(payloads)), "number bigint, answer binary")
    with_numbers = collect(frame)
    found = {row["number"]: row["answer"] for row in with_numbers}
    return [pickle.loads(found[number]) for number in range(len(payloads))]  # noqa: S301 - our tasks'


def collect(frame: DataFrame) -> list[Any]:
    """Give the rows of a DataFrame, with errors of its tasks as ours.

    Raises
    ------
    StoreError
        See `run_tasks`.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        return frame.collect()
    except (PySparkException, Py4JJavaError) as error:
        raise job_error(str(error)) from error


def job_error(text: str) -> StoreError:
    """What a task raised, from the traceback in Spark's message."""
    missing = _MISSING.search(text)
    if missing is not None:
        return SparkJobError(
            f"the Python of Spark's workers has no {missing[1]}: install rmqcore[spark] there, or name a Python that has it "
            "(spark.pyspark.python, PYSPARK_PYTHON)"
        )
    lines = _LAST_LINE.findall(text)
    name, message = lines[-1] if lines else ("", text.strip().splitlines()[0] if text else "")
    kind = getattr(errors, name.rpartition(".")[2], None)
    failed = SparkJobError(message if kind is not None or not name else f"{name}: {message}")
    if isinstance(kind, type) and issubclass(kind, StoreError):
        failed.hint, failed.exit_code = kind.hint, kind.exit_code
    return failed
