"""Runners of the tasks of a rebuild: Spark, through `mapInArrow`, which every PySpark from 3.5 on has, or a test."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from rmqcore.spark.rebuild.queue_pieces import SCHEMA, Piece, batches_of, pieces_of
from rmqcore.spark.runtime.shipping import task_function
from rmqcore.spark.runtime.tasks import collect, run_tasks, task_frame
from rmqcore.spark.runtime.versions import MAP_IN_ARROW, check_versions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

Work = TypeVar("Work")
Result = TypeVar("Result")
Work_contra = TypeVar("Work_contra", contravariant=True)

BATCH_SETTING = "spark.sql.execution.arrow.maxRecordsPerBatch"
BATCH_PIECES = 32


class Mapper(Protocol[Work_contra]):
    """The first half of a shuffle."""

    def pieces(self, number: int, item: Work_contra, /) -> Iterator[Piece]:
        """Return the pieces of item `number`."""


class Reducer(Protocol):
    """The second half of a shuffle."""

    def results(self, pieces: Iterable[Piece], /) -> Iterator[object]:
        """Return the results of the pieces of some keys, which come sorted by key and sequence."""


class Runner(Protocol):
    """Runs the tasks of a job."""

    def tasks(self, function: Callable[[Work], Result], work: Sequence[Work]) -> list[Result]:
        """Call a function once for each item; return the results in the order of the items."""

    def shuffle(
        self, mapper: Mapper[Work], work: Sequence[Work], reducer: Reducer, keys: Sequence[str]
    ) -> list[Any]:
        """Map each item, sort the pieces by keys and sequence, reduce; return the results in any order.

        Parameters
        ----------
        keys : sequence of str
            Fields of `Piece`: one task receives all pieces that are equal in these fields.
        """


class SparkRunner:
    """Runs tasks in the workers of a Spark application.

    Parameters
    ----------
    spark : SparkSession
    reduce_tasks : int
        Number of tasks among which a shuffle divides the pieces.
    """

    def __init__(self, spark: SparkSession, reduce_tasks: int) -> None:
        check_versions(MAP_IN_ARROW)
        self._spark = spark
        self._reduce_tasks = reduce_tasks

    def tasks(self, function: Callable[[Work], Result], work: Sequence[Work]) -> list[Result]:
        """See `Runner`."""
        return run_tasks(self._spark, function, work)

    def shuffle(
        self, mapper: Mapper[Work], work: Sequence[Work], reducer: Reducer, keys: Sequence[str]
    ) -> list[Any]:
        """See `Runner`."""
        pieces = task_frame(self._spark, MapTask(mapper), list(enumerate(work)), SCHEMA)
        pieces = pieces.repartition(self._reduce_tasks, *keys)
        pieces = pieces.sortWithinPartitions(*keys, "sequence")
        reduced = task_function(pickle.dumps(ReduceTask(reducer)))
        with self._small_batches():
            rows = collect(pieces.mapInArrow(reduced, "result binary"))
        return [pickle.loads(row[0]) for row in rows]  # noqa: S301 - our tasks' bytes

    @contextmanager
    def _small_batches(self) -> Iterator[None]:
        """Limit the rows of a batch: each has up to a mebibyte, so the default of 10,000 would need gigabytes in a worker."""
        before = self._spark.conf.get(BATCH_SETTING, None)
        self._spark.conf.set(BATCH_SETTING, str(BATCH_PIECES))
        try:
            yield
        finally:
            if before is None:
                self._spark.conf.unset(BATCH_SETTING)
            else:
                self._spark.conf.set(BATCH_SETTING, before)


# ---- what runs in a worker --------------------------------------------------------------------------


class MapTask:
    """Yields the pieces of a numbered item as record batches."""

    def __init__(self, mapper: Mapper[Any]) -> None:
        self._mapper = mapper

    def __call__(self, numbered: tuple[int, Any]) -> Iterator[pa.RecordBatch]:
        """Yield the pieces; called by a `task_frame`."""
        return batches_of(self._mapper.pieces(*numbered))


class ReduceTask:
    """Yields the results of a reducer, pickled in one column."""

    def __init__(self, reducer: Reducer) -> None:
        self._reducer = reducer

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the results; called by `mapInArrow`."""
        import pyarrow as pa

        results = [pickle.dumps(result) for result in self._reducer.results(pieces_of(batches))]
        yield pa.record_batch({"result": pa.array(results, pa.binary())})
