"""Stores through PySpark: a data source, streams, Arrow UDFs, and whole jobs.

``rmqcore.spark.session()`` gives a Spark session with fitting settings, ``rmqcore.spark.register(spark)`` adds the data source
``rmqstore`` to any other. Importing this loads neither pyspark nor pyarrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rmqcore.spark.session import session

__all__ = ["session"]

_LATER = {
    "session": "rmqcore.spark.session",
}
"""Public name -> module: loaded when first asked for."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'rmqcore.spark' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_LATER[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_LATER])
