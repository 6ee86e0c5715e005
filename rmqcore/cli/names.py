"""Names of a store as people type them: the nearest to a wrong one, and those that a shell completes."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rmqcore.disk.paths import StorePaths
from rmqcore.disk.queue_files import queue_directories
from rmqcore.errors import StoreError
from rmqcore.offline.reader import store_paths

LEAST_LIKENESS = 0.6


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Give the known name that is most like another, letters in capitals or not; None where none is like it."""
    by_letters = {other.casefold(): str(other) for other in known}
    near = difflib.get_close_matches(name.casefold(), by_letters, n=1, cutoff=LEAST_LIKENESS)
    return by_letters[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Give ``; did you mean 'Orders'?``, or nothing where no known name is like it."""
    near = nearest(name, known)
    return "" if near is None else f"; did you mean {near!r}?"


def topics_with_queues(paths: StorePaths) -> set[str]:
    """Topics that have a queue in ``consumequeue/``; none where the store has no such folder."""
    return {topic for topic, _, _ in queue_directories(paths)}


def complete_topic(ctx: Any, incomplete: str) -> list[str]:
    """Give the topics of the store named before on the line that begin with some letters, for the shell.

    A shell shows nothing where there is no such store, or none that can be read: an error would land in the line being typed.
    """
    store = ctx.params.get("store")
    try:
        paths = store_paths(Path("." if store is None else store), leave_out_links=True)
        found = topics_with_queues(paths)
    except (StoreError, OSError, ValueError):
        return []
    return sorted(topic for topic in found if topic.startswith(incomplete))
