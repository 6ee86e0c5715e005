"""Check that Spark's Python workers have the packages that tasks import: once, when a session is made."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING
from weakref import WeakSet

from rmqcore.spark.runtime.connect import is_connect
from rmqcore.spark.runtime.failures import short_errors
from rmqcore.spark.runtime.shipping import check_worker, send_code_along

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CHECKED: WeakSet[SparkSession] = WeakSet()


def check_workers(spark: SparkSession) -> None:
    """Let one task look for the packages that tasks import, once for each session.

    If the workers are this Python on this machine, no task is needed. A node of a cluster that lacks a package is found
    by its first task: the functions in `rmqcore.spark.runtime.shipping` check too.

    Raises
    ------
    SparkJobError
        The worker lacks a package; the message names its host, its Python and the line that installs the package.
    """
    if spark in _CHECKED or _runs_here(spark):
        return
    from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

    send_code_along()
    # A plain UDF: for all others PySpark imports pyarrow before it calls them.
    look = F.udf(lambda _number: check_worker(), "string", useArrow=False)
    with short_errors(every=True):
        spark.range(0, 1, 1, 1).select(look("id")).collect()
    _CHECKED.add(spark)


def _runs_here(spark: SparkSession) -> bool:
    """Return True if the workers are processes of this machine that run the Python of this process."""
    if is_connect(spark):
        return False
    context = spark.sparkContext
    is_local = (context.master or "").startswith("local")
    return is_local and shutil.which(context.pythonExec) == sys.executable
