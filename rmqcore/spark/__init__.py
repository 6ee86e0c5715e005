"""Stores through PySpark: a data source, streams, Arrow UDFs, and whole jobs.

``rmqcore.spark.session()`` gives a Spark session with fitting settings, ``rmqcore.spark.register(spark)`` adds the data source
``rmqstore`` to any other. Importing this loads neither pyspark nor pyarrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rmqcore.spark.map_in_arrow import read_with_map
    from rmqcore.spark.rebuild_queues import rebuild_consume_queues
    from rmqcore.spark.registration import read, register
    from rmqcore.spark.sessions import session

__all__ = ["read", "read_with_map", "rebuild_consume_queues", "register", "session"]

_LATER = {
    "read": "rmqcore.spark.registration",
    "read_with_map": "rmqcore.spark.map_in_arrow",
    "rebuild_consume_queues": "rmqcore.spark.rebuild_queues",
    "register": "rmqcore.spark.registration",
    "session": "rmqcore.spark.sessions",
}
"""Public name -> module: loaded when first asked for. A module of a public name would take its place in the package."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'rmqcore.spark' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_LATER[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_LATER])
