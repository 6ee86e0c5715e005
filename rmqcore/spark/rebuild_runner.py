"""How the tasks of a rebuild get their work and give their results: through `mapInArrow`, which every PySpark from 3.5 on has.

The input of a first stage is a range of numbers, one a partition; what they stand for travels with the function. Results are
pickled Python objects in one binary column.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from rmqcore.errors import StoreError
from rmqcore.spark.rebuild_items import SCHEMA, Piece, batches_of, pieces_of
from rmqcore.spark.shipped_map import send_code_along, task_function
from rmqcore.spark.versions import MAP_IN_ARROW, check_versions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Work = TypeVar("Work")
Result = TypeVar("Result")
Work_contra = TypeVar("Work_contra", contravariant=True)

RESULT_SCHEMA = "result binary"
BATCH_PIECES = 32


class Mapper(Protocol[Work_contra]):
    """The first half of a shuffle."""

    def pieces(self, number: int, item: Work_contra, /) -> Iterator[Piece]:
        """What item `number` gives."""


class Reducer(Protocol):
    """The second half."""

    def results(self, pieces: Iterable[Piece], /) -> Iterator[object]:
        """What is made of the pieces of some keys, sorted by key and sequence."""


class Runner(Protocol):
    """Who runs the tasks of a job; what they raise of a store's errors comes out as it was."""

    def tasks(self, function: Callable[[Work], Result], work: Sequence[Work]) -> list[Result]:
        """Call a function once for each item; give the results in the order of the items."""

    def shuffle(
        self, mapper: Mapper[Work], work: Sequence[Work], reducer: Reducer, keys: Sequence[str]
    ) -> list[Any]:
        """Map each item, sort the pieces by keys and sequence, reduce; give the results in no order.

        Parameters
        ----------
        keys : sequence of str
            Fields of `Piece`: all pieces that agree in them meet in one task.
        """


class SparkRunner:
    """Runs tasks in the workers of a Spark application.

    Parameters
    ----------
    spark : SparkSession
    reduce_tasks : int
        Into how many tasks a shuffle divides the pieces.
    """

    def __init__(self, spark: SparkSession, reduce_tasks: int) -> None:
        check_versions(MAP_IN_ARROW)
        send_code_along()
        self._spark = spark.newSession()  # its settings are ours to make
        # A row of a shuffle has up to a mebibyte: the default, 10,000 to a batch, would ask a worker for gigabytes at once.
        self._spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(BATCH_PIECES))
        self._reduce_tasks = reduce_tasks

    def tasks(self, function: Callable[[Work], Result], work: Sequence[Work]) -> list[Result]:
        """See `Runner`."""
        if not work:
            return []
        results = dict(self._collect(self._frame(CallTask(function), work, RESULT_SCHEMA)))
        return [results[number] for number in range(len(work))]

    def shuffle(
        self, mapper: Mapper[Work], work: Sequence[Work], reducer: Reducer, keys: Sequence[str]
    ) -> list[Any]:
        """See `Runner`."""
        if not work:
            return []
        pieces = self._frame(MapTask(mapper), work, SCHEMA)
        pieces = pieces.repartition(self._reduce_tasks, *keys)
        pieces = pieces.sortWithinPartitions(*keys, "sequence")
        return self._collect(pieces.mapInArrow(_sent(ReduceTask(reducer)), RESULT_SCHEMA))

    def _frame(
        self,
        task: Callable[[int, Work], Iterator[pa.RecordBatch]],
        work: Sequence[Work],
        schema: str,
    ) -> DataFrame:
        numbers = self._spark.range(0, len(work), 1, len(work))
        return numbers.mapInArrow(_sent(WorkTask(task, work)), schema)

    def _collect(self, frame: DataFrame) -> list[Any]:
        results = [pickle.loads(row[0]) for row in frame.collect()]  # noqa: S301 - our tasks' bytes
        for result in results:
            if isinstance(result, StoreError):
                raise result
        return results


def _sent(task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]) -> Any:
    return task_function(pickle.dumps(task))


# ---- what runs in a worker --------------------------------------------------------------------------


class WorkTask:
    """Finds the item that a number stands for."""

    def __init__(
        self, task: Callable[[int, Any], Iterator[pa.RecordBatch]], work: Sequence[Any]
    ) -> None:
        self._task = task
        # One by one: each task is given all of them, and opens its own.
        self._work = [pickle.dumps(item) for item in work]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What `mapInArrow` calls."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                item = pickle.loads(self._work[number])  # noqa: S301 - our driver's bytes
                yield from self._task(number, item)


class CallTask:
    """Gives a function's answer, with the number of the item.

    An error of the store is an answer too: no further attempt would mend it.
    """

    def __init__(self, function: Callable[[Any], object]) -> None:
        self._function = function

    def __call__(self, number: int, item: object) -> Iterator[pa.RecordBatch]:
        """Do it for one item."""
        try:
            result: object = (number, self._function(item))
        except StoreError as error:
            result = error
        yield result_batch([result])


class MapTask:
    """Gives the pieces of an item as record batches."""

    def __init__(self, mapper: Mapper[Any]) -> None:
        self._mapper = mapper

    def __call__(self, number: int, item: object) -> Iterator[pa.RecordBatch]:
        """Do it for one item."""
        yield from batches_of(self._mapper.pieces(number, item))


class ReduceTask:
    """Gives what a reducer makes of its pieces."""

    def __init__(self, reducer: Reducer) -> None:
        self._reducer = reducer

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What `mapInArrow` calls."""
        yield result_batch(self._reducer.results(pieces_of(batches)))


def result_batch(results: Iterable[object]) -> pa.RecordBatch:
    """A batch of the schema `RESULT_SCHEMA`."""
    import pyarrow as pa

    pickled = [pickle.dumps(result) for result in results]
    return pa.RecordBatch.from_arrays([pa.array(pickled, pa.binary())], names=["result"])
