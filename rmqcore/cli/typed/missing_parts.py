"""Notes about missing parts of a store that a search needs, instead of an empty result."""

from __future__ import annotations

import shlex

from rmqcore.cli.common.errors import say
from rmqcore.disk.paths import is_index_file_name
from rmqcore.disk.read_range import entries_of
from rmqcore.offline.queues.queues import queue_names
from rmqcore.offline.reader import StoreReader
from rmqcore.offline.remote.store_url import StoreUrl


def has_no_index(reader: StoreReader, topic: str, key: str, *, is_tag: bool) -> bool:
    """Return True if the store has messages but no index, and print a note about it."""
    paths = reader.paths
    if not reader.log_files() or any(
        is_index_file_name(entry.name) for entry in entries_of(paths.index)
    ):
        return False
    _say(reader, "no index", ["--topic", topic, "--tag" if is_tag else "--key", key], "--index")
    return True


def has_no_queues(reader: StoreReader, topic: str) -> bool:
    """Return True if the store has messages but no queues, and print a note about it."""
    unlisted: list[str] = []
    queues = queue_names(reader.paths, lambda path, error: unlisted.append(path))
    if not reader.log_files() or next(queues, None) is not None or unlisted:
        return False
    _say(reader, "no queues", ["--topic", topic], "--cq")
    return True


def _say(reader: StoreReader, what: str, conditions: list[str], part: str) -> None:
    store = str(reader.path)
    hint = f"`{shlex.join(['rmqcore', 'cat', store, *conditions])}` reads the whole log instead"
    if not isinstance(reader.path, StoreUrl):
        words = ["rmqcore", "rebuild", store, part, "--out", f"{store}.rebuilt"]
        hint += f"; `{shlex.join(words)}` creates the missing parts"
    say(f"{store} has {what}", hint)
