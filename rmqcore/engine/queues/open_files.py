"""How many files of queues may be open at a time."""

from __future__ import annotations

MOST = 1024


def most_open_files() -> int:
    """How many files may stay open: a quarter of the process's limit."""
    try:
        import resource
    except ImportError:
        return 64
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MOST
    return max(16, min(MOST, soft // 4))
