"""Notes about missing parts of a store that a search needs, instead of an empty result."""

from __future__ import annotations

import shlex

from rmqcore.cli.common.errors import say
from rmqcore.disk.paths import is_index_file_name
from rmqcore.disk.read_range import entries_of, left_out
from rmqcore.disk.topics_file import configured_queues
from rmqcore.offline.queues.queues import queue_names
from rmqcore.offline.reader import StoreReader
from rmqcore.offline.remote.store_url import StoreUrl
from rmqcore.offline.rocksdb.index_database import asked_index

MOST_NAMED = 8


def has_no_index(reader: StoreReader, topic: str, key: str, *, is_tag: bool) -> bool:
    """Return True if the store has messages but no index, and print a note about it."""
    paths = reader.paths
    files = (is_index_file_name(entry.name) for entry in entries_of(paths.index))
    if (
        not reader.log_files()
        or any(files)
        or asked_index(paths, has_files=False).database is not None
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


def has_no_queue(reader: StoreReader, topic: str, queue_id: int) -> bool:
    """Return True if a store with messages lacks a queue, also in its broker's table, and print a note about it."""
    if not reader.log_files():
        return False
    found = [known for name, known in queue_names(reader.paths, left_out) if name == topic]
    if queue_id in found or queue_id < configured_queues(reader.paths, topic):
        return False
    queues = ", ".join(map(str, found[:MOST_NAMED])) + (", ..." if len(found) > MOST_NAMED else "")
    words = ["rmqcore", "cat", str(reader.path), "--topic", topic, "--queue", str(queue_id)]
    say(
        f"{reader.path} has no queue {queue_id} of topic {topic!r}; its queues: {queues or 'none'}",
        f"`{shlex.join(words)}` reads the whole log instead",
    )
    return True


def _say(reader: StoreReader, what: str, conditions: list[str], part: str) -> None:
    store = str(reader.path)
    hint = f"`{shlex.join(['rmqcore', 'cat', store, *conditions])}` reads the whole log instead"
    if not isinstance(reader.path, StoreUrl):
        words = ["rmqcore", "rebuild", store, part, "--out", f"{store}.rebuilt"]
        hint += f"; `{shlex.join(words)}` creates the missing parts"
    say(f"{store} has {what}", hint)
