"""Setup of Spark's Python workers before their tasks."""

from __future__ import annotations

import functools
import gc
import sys


def freeze_worker_heap() -> None:
    """Exclude the loaded objects from garbage collection, in a worker of Spark and nowhere else.

    PySpark's daemon collects after every task: with pandas and pyarrow loaded that is 20 ms over objects that stay.
    """
    from pyspark import TaskContext

    if TaskContext.get() is not None:
        _freeze(len(sys.modules))


@functools.cache  # gc.get_freeze_count() would count the frozen objects one by one: 5 to 15 ms a task
def _freeze(_module_count: int) -> None:
    """Freeze once for each number of modules: a task loads some after its start, and a task of another kind loads more."""
    gc.collect()
    gc.freeze()
