"""What is different with Spark Connect: plans and Java are on a server, and a frame is what the client has asked for."""

from __future__ import annotations

from typing import Any


def is_connect(session_or_frame: Any) -> bool:
    """Whether a session, or a frame, is one of Spark Connect. Needs no package that only Spark Connect needs."""
    return type(session_or_frame).__module__.startswith("pyspark.sql.connect.")
