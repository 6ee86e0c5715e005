"""Where PySpark 4 looks for the data source ``rmqstore`` by itself: in a package ``pyspark_*`` with a ``DefaultSource``.

So every session knows the source where rmqcore is installed. This package needs PySpark when it is asked for the source, and
rmqcore when a store is read; PySpark asks for the first at the first use of any Python source.
"""

from __future__ import annotations

from typing import Any

__all__ = ["DefaultSource"]


def __getattr__(name: str) -> Any:
    if name != "DefaultSource":
        raise AttributeError(f"module 'pyspark_rmqstore' has no attribute {name!r}")
    from pyspark_rmqstore.source import DefaultSource

    return DefaultSource
