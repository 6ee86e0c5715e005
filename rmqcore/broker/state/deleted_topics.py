"""Where the queues of a topic begin that was deleted and created again: ``config/deletedTopics.json``, not in Java.

Java deletes the files of a topic's queues. This broker keeps them, so that a queue offset never belongs to two
messages, and a recovery finds that queues and log agree. It hides the messages that were sent before the deletion. The
file has a CommitLog offset for each topic, because queue offsets start again at 0 when cleaning deletes a queue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rmqcore.broker.config_files import ConfigFiles
from rmqcore.disk.config_files import read_config_file
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.store.store import MessageStore
from rmqcore.remoting.bodies.json_object import JsonObject

FILE = "deletedTopics.json"
ANSWERED = "deletedTopics"
"""The member of the answer to GET_ALL_TOPIC_CONFIG that has the contents of the file."""
DISPATCH_SECONDS = 60.0


class DeletedTopics:
    """The topics whose queues begin behind messages that the log still has. Its methods are called by the loop's thread only.

    Parameters
    ----------
    files : ConfigFiles
    store : MessageStore
        The messages that the file names are hidden in it at once.

    Raises
    ------
    StoreFormatError
        The file exists, and neither it nor its ``.bak`` can be read.
    """

    def __init__(self, files: ConfigFiles, store: MessageStore) -> None:
        self._files = files
        self._store = store
        self._begins: dict[str, int] = {}
        self._first_offsets: dict[tuple[str, int], int] = {}
        saved = files.load_as(FILE, _parse)
        if not saved:
            return
        self._begins = self._still_true(saved)
        if store.dispatch_behind_bytes:
            store.wait_dispatched(DISPATCH_SECONDS)
        self._apply(self._begins)
        if self._begins != saved:
            files.save(FILE, self._saved)

    def first_offset(self, topic: str, queue_id: int) -> int:
        """Return a queue's first offset since its topic was created: 0 unless the topic was deleted before."""
        return self._first_offsets.get((topic, queue_id), 0)

    def hide(self, topic: str, phy_offset: int, then: Callable[[], object]) -> None:
        """Hide the messages of a topic before a CommitLog offset, and call `then` when that is on disk.

        The log must be on disk and dispatched up to the offset.
        """
        if not self._apply({topic: phy_offset}):
            then()
            return
        self._begins = self._still_true({**self._begins, topic: phy_offset})
        self._files.save(FILE, self._saved, then)

    def for_slaves(self) -> dict[str, Any]:
        """Return the field that a master adds to its topics for slaves, mostly empty; a Java slave ignores it."""
        return {ANSWERED: self._saved()} if self._begins else {}

    def lacking(self, begins: Mapping[str, int]) -> dict[str, int]:
        """Return the topics of a master, with offsets, whose messages are not yet hidden here as at the master."""
        first = self._store.min_phy_offset
        return {
            topic: begin
            for topic, begin in begins.items()
            if begin > first and self._begins.get(topic) != begin
        }

    def adopt(self, begins: Mapping[str, int]) -> None:
        """Hide the messages that a master hides. The log must be on disk and dispatched up to the last offset."""
        self._apply(begins)
        self._begins = self._still_true({**self._begins, **begins})
        self._files.save(FILE, self._saved)

    def _still_true(self, begins: dict[str, int]) -> dict[str, int]:
        """Drop offsets before the log's start, and lower those behind its end, where the next message goes."""
        first, end = self._store.min_phy_offset, self._store.max_phy_offset
        return {topic: min(begin, end) for topic, begin in begins.items() if begin > first}

    def _apply(self, begins: Mapping[str, int]) -> bool:
        """Hide messages; return False if the topics have no queue."""
        for topic, phy_offset in begins.items():
            self._store.hide_before(topic, phy_offset)
        queues = [queue for queue in self._store.queues() if queue.topic in begins]
        for queue in queues:
            self._first_offsets[queue.topic, queue.queue_id] = queue.min_offset
        return bool(queues)

    def _saved(self) -> dict[str, Any]:
        return {"beginPhyOffsetTable": dict(self._begins)}


def begin_phy_offset(paths: StorePaths, topic: str) -> int:
    """Return the CommitLog offset behind the messages that the last deletion of a topic hid; 0 without one.

    Like a broker, it reads the ``.bak`` if a kill has left no file.

    Raises
    ------
    StoreFormatError
        The file cannot be read.
    """
    for name in (FILE, f"{FILE}.bak"):
        saved = read_config_file(paths, f"config/{name}")
        if saved is not None:
            return _parse(saved).get(topic, 0)
    return 0


def begin_phy_offsets(found: JsonObject) -> dict[str, int]:
    """Read the CommitLog offset behind the hidden messages by topic, as the file and the answer of a master have it."""
    return found.child("beginPhyOffsetTable").number_table()


def _parse(saved: dict[str, Any]) -> dict[str, int]:
    return begin_phy_offsets(JsonObject(FILE, "", saved))
