"""File descriptors: how many a process may have, and whether some are free."""

from __future__ import annotations

import errno
import os

from rmqcore.errors import is_no_descriptor

MOST_QUEUE_FILES = 1024
TO_GO_ON = 8
"""Most descriptors that a store needs at the same time: two for the log's next file, the rest for its other parts."""


def most_descriptors() -> int | None:
    """Return the process's limit of descriptors; None if it has no limit, or the system does not report it."""
    try:
        import resource
    except ImportError:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def most_open_files() -> int:
    """Return how many files of queues may stay open: a quarter of the process's limit."""
    most = most_descriptors()
    return MOST_QUEUE_FILES if most is None else max(16, min(MOST_QUEUE_FILES, most // 4))


def files_limit(number: int | None) -> str:
    """Return the limit that an error of this number (EMFILE, ENFILE) met, in words."""
    most = most_descriptors()
    if number == errno.ENFILE or most is None:
        return "the system has no descriptors left"
    return f"this process may have {most:,} open files and connections (ulimit -n)"


def descriptors_are_free(count: int = TO_GO_ON) -> bool:
    """Return True if this process can open `count` more descriptors now; it closes them again."""
    held: list[int] = []
    try:
        while len(held) < count:
            held += os.pipe()
    except OSError as error:
        if not is_no_descriptor(error):
            raise
        return False
    finally:
        for descriptor in held:
            os.close(descriptor)
    return True
