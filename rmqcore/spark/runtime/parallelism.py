"""The number of tasks that run at once."""

from __future__ import annotations

import os
from typing import Any


def parallelism_of(spark: Any) -> int | None:
    """Return ``spark.sparkContext.defaultParallelism`` of a session; None if it has none (Spark Connect)."""
    context = getattr(spark, "sparkContext", None)
    return None if context is None else int(context.defaultParallelism)


def driver_cores() -> int:
    """Return the number of cores that this process may use, as ``local[*]`` does."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
