"""How many files of queues may be open at a time."""

from __future__ import annotations

from rmqcore.disk.descriptors import most_descriptors

MOST = 1024


def most_open_files() -> int:
    """How many files may stay open: a quarter of the process's limit."""
    most = most_descriptors()
    return MOST if most is None else max(16, min(MOST, most // 4))
