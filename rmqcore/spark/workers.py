"""What a Python worker of Spark does once."""

from __future__ import annotations

import gc


def freeze_worker_heap() -> None:
    """Take what is loaded out of the garbage collector's sight, in a worker of Spark and nowhere else.

    PySpark's daemon collects after every task: with pandas and pyarrow loaded that is 20 ms over objects that stay.
    """
    from pyspark import TaskContext

    if TaskContext.get() is not None and gc.get_freeze_count() == 0:
        gc.collect()
        gc.freeze()
