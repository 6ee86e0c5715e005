"""Differences of Spark Connect: plans and Java are on a server, and a frame is the client's request."""

from __future__ import annotations

from typing import Any


def is_connect(session_or_frame: Any) -> bool:
    """Return True if a session or frame is one of Spark Connect; does not import packages that only Spark Connect needs."""
    return type(session_or_frame).__module__.startswith("pyspark.sql.connect.")
