"""Stores through PySpark: a data source, streams, Arrow UDFs, and whole jobs.

``rmqcore.spark.session()`` returns a Spark session with fitting settings, ``rmqcore.spark.register(spark)`` adds the
data source ``rmqstore`` to any other session. Importing this package loads neither pyspark nor pyarrow: a room is
imported when one of its names is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rmqcore.spark.jobs.audit import audit, run_audit
    from rmqcore.spark.jobs.compare import compare, run_compare
    from rmqcore.spark.jobs.export import export_parquet
    from rmqcore.spark.jobs.find import find
    from rmqcore.spark.jobs.topic_stats import topic_stats
    from rmqcore.spark.lake.compact import compact
    from rmqcore.spark.lake.export_table import export_table
    from rmqcore.spark.lake.manifest import table_files
    from rmqcore.spark.output.damage_folder import DamageCounter
    from rmqcore.spark.pruning.explained import explain
    from rmqcore.spark.pruning.frames import optimize, sql
    from rmqcore.spark.rebuild.index import rebuild_index
    from rmqcore.spark.rebuild.queues import rebuild_consume_queues
    from rmqcore.spark.runtime.failures import short_error
    from rmqcore.spark.sessions import session
    from rmqcore.spark.source.map_in_arrow import read_with_map
    from rmqcore.spark.source.registration import read, register
    from rmqcore.spark.stream.lag import StoreLag, stream_lag

__all__ = [
    "DamageCounter",
    "StoreLag",
    "audit",
    "compact",
    "compare",
    "explain",
    "export_parquet",
    "export_table",
    "find",
    "optimize",
    "read",
    "read_with_map",
    "rebuild_consume_queues",
    "rebuild_index",
    "register",
    "run_audit",
    "run_compare",
    "session",
    "short_error",
    "sql",
    "stream_lag",
    "table_files",
    "topic_stats",
]

_LATER = {
    "DamageCounter": "rmqcore.spark.output.damage_folder",
    "StoreLag": "rmqcore.spark.stream.lag",
    "audit": "rmqcore.spark.jobs.audit",
    "compact": "rmqcore.spark.lake.compact",
    "compare": "rmqcore.spark.jobs.compare",
    "explain": "rmqcore.spark.pruning.explained",
    "export_parquet": "rmqcore.spark.jobs.export",
    "export_table": "rmqcore.spark.lake.export_table",
    "find": "rmqcore.spark.jobs.find",
    "optimize": "rmqcore.spark.pruning.frames",
    "read": "rmqcore.spark.source.registration",
    "read_with_map": "rmqcore.spark.source.map_in_arrow",
    "rebuild_consume_queues": "rmqcore.spark.rebuild.queues",
    "rebuild_index": "rmqcore.spark.rebuild.index",
    "register": "rmqcore.spark.source.registration",
    "run_audit": "rmqcore.spark.jobs.audit",
    "run_compare": "rmqcore.spark.jobs.compare",
    "session": "rmqcore.spark.sessions",
    "short_error": "rmqcore.spark.runtime.failures",
    "sql": "rmqcore.spark.pruning.frames",
    "table_files": "rmqcore.spark.lake.manifest",
    "stream_lag": "rmqcore.spark.stream.lag",
    "topic_stats": "rmqcore.spark.jobs.topic_stats",
}
"""Public name -> module, which is loaded when the name is first asked for. No module here may bear a public name: importing it
would put the module in the function's place."""


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
