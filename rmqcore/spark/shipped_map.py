"""What Spark pickles and sends to its Python workers; the code of this module itself goes along (`send_code_along`).

So a worker without rmqcore can say so: were these functions only named, as pickle does it, the worker would fail before it ran
a line of ours. Nothing of rmqcore may be imported here at the top, nor what PySpark 3.5 lacks.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from typing import Any


def read_sent(sent: bytes, part: bytes) -> Iterator[Any]:
    """Read a part in a worker; both as pickled bytes."""
    prepare_worker()
    table, wanted = pickle.loads(sent), pickle.loads(part)  # noqa: S301 - from our own driver
    return table.read(wanted)  # type: ignore[no-any-return]


def prepare_worker() -> None:
    """See that this worker has rmqcore, and have it lose no time."""
    try:
        from rmqcore.spark.workers import freeze_worker_heap
    except ImportError as error:
        raise ImportError(
            f"the Python of Spark's workers ({sys.executable}) cannot import rmqcore.spark: {error}. Install it there too "
            "(pip install 'rmqcore[spark]' on every node, or spark.archives), or let spark.pyspark.python name a Python "
            "that has it"
        ) from error
    freeze_worker_heap()


def task_function(sent: bytes) -> Any:
    """A function for ``mapInArrow`` that calls what was pickled, with the batches."""

    def run_task(batches: Iterator[Any]) -> Iterator[Any]:
        prepare_worker()
        task = pickle.loads(sent)  # noqa: S301 - from our own driver
        yield from task(batches)

    return run_task


def part_reader(sent: bytes) -> Any:
    """A function for ``mapInArrow``: rows with one column of pickled parts into the rows of those parts."""

    def read_parts(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for part in batch.column(0).to_pylist():
                yield from read_sent(sent, part)

    return read_parts


def send_code_along(*modules: str) -> None:
    """Have this process pickle the code of this module and of others, not their names."""
    from pyspark.cloudpickle import register_pickle_by_value

    for name in (__name__, *modules):
        register_pickle_by_value(sys.modules[name])  # type: ignore[no-untyped-call]
