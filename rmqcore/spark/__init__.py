"""Stores through PySpark: a data source, streams, Arrow UDFs, and whole jobs.

``rmqcore.spark.session()`` gives a Spark session with fitting settings, ``rmqcore.spark.register(spark)`` adds the data source
``rmqstore`` to any other. Importing this loads neither pyspark nor pyarrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rmqcore.spark.job_audit import audit, run_audit
    from rmqcore.spark.job_compare import compare, run_compare
    from rmqcore.spark.job_export import export_parquet
    from rmqcore.spark.job_find import find
    from rmqcore.spark.job_topic_stats import topic_stats
    from rmqcore.spark.map_in_arrow import read_with_map
    from rmqcore.spark.rebuild_index_job import rebuild_index
    from rmqcore.spark.rebuild_queues import rebuild_consume_queues
    from rmqcore.spark.registration import read, register
    from rmqcore.spark.sessions import session

__all__ = [
    "audit",
    "compare",
    "export_parquet",
    "find",
    "read",
    "read_with_map",
    "rebuild_consume_queues",
    "rebuild_index",
    "register",
    "run_audit",
    "run_compare",
    "session",
    "topic_stats",
]

_LATER = {
    "audit": "rmqcore.spark.job_audit",
    "compare": "rmqcore.spark.job_compare",
    "export_parquet": "rmqcore.spark.job_export",
    "find": "rmqcore.spark.job_find",
    "read": "rmqcore.spark.registration",
    "read_with_map": "rmqcore.spark.map_in_arrow",
    "rebuild_consume_queues": "rmqcore.spark.rebuild_queues",
    "rebuild_index": "rmqcore.spark.rebuild_index_job",
    "register": "rmqcore.spark.registration",
    "run_audit": "rmqcore.spark.job_audit",
    "run_compare": "rmqcore.spark.job_compare",
    "session": "rmqcore.spark.sessions",
    "topic_stats": "rmqcore.spark.job_topic_stats",
}
"""Public name -> module: loaded when first asked for. A module of a public name would take its place in the package."""


def __getattr__(name: str) -> Any:
    import importlib

    if name == "udf":
        return importlib.import_module("rmqcore.spark.udf")
    if name not in _LATER:
        raise AttributeError(f"module 'rmqcore.spark' has no attribute {name!r}")
    value = getattr(importlib.import_module(_LATER[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_LATER])
