"""Where the queues of a store come from: files, or RocksDB. Everything else asks here and knows only `QueueFiles`."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Protocol

from rmqcore.disk.paths import StorePaths
from rmqcore.disk.queue_files import has_queues, queue_directories
from rmqcore.disk.read_range import Unreadable
from rmqcore.errors import is_unreadable
from rmqcore.offline.queues.queue_reader import QueueFiles
from rmqcore.offline.queues.rocksdb_queue import RocksdbQueue
from rmqcore.offline.rocksdb.database import Queue, QueueDatabase, queue_database


class QueueSource(Protocol):
    """The queues of one store."""

    @property
    def place(self) -> str:
        """The directory in the store that holds the queues, as messages name it."""

    def names(self, unreadable: Unreadable | None = None) -> Iterator[tuple[str, int]]:
        """Return topic and queue id of every queue, in this order."""

    def each(
        self, left_out: Container[str] = (), unreadable: Unreadable | None = None
    ) -> Iterator[QueueFiles]:
        """Return every queue, by topic and queue id; see `each_queue`."""

    def queue(self, topic: str, queue_id: int, *, leave_out_links: bool = False) -> QueueFiles:
        """Return a queue; an unknown one has no files."""

    def has(self, topic: str, queue_id: int | None = None) -> bool:
        """Return True if a topic has queues, or this queue."""


def queue_source(paths: StorePaths) -> QueueSource:
    """Find out where a store's queues are.

    Raises
    ------
    RocksdbMissingError
        From what is asked of it: the queues are in RocksDB, and the package that reads it is not installed.
    RocksdbError
        From what is asked of it: the database cannot be read.
    """
    database = queue_database(paths)
    return _FileQueues(paths) if database is None else _RocksdbQueues(paths, database)


class _FileQueues:
    """Queues below ``consumequeue/``."""

    place = "consumequeue"

    def __init__(self, paths: StorePaths) -> None:
        self._paths = paths

    def names(self, unreadable: Unreadable | None = None) -> Iterator[tuple[str, int]]:
        for topic, queue_id, _ in queue_directories(self._paths, unreadable):
            yield topic, queue_id

    def each(
        self, left_out: Container[str] = (), unreadable: Unreadable | None = None
    ) -> Iterator[QueueFiles]:
        paths = self._paths
        paths.bring_in(paths.consumequeue, beginnings=True)
        for topic, queue_id, directory in queue_directories(paths, unreadable):
            try:
                queue = QueueFiles(
                    topic,
                    queue_id,
                    directory,
                    leave_out_links=paths.leave_out_links,
                    left_out=left_out,
                )
            except OSError as error:
                if unreadable is None or not is_unreadable(error):
                    raise
                unreadable(directory, error)
            else:
                yield queue

    def queue(self, topic: str, queue_id: int, *, leave_out_links: bool = False) -> QueueFiles:
        paths = self._paths
        return QueueFiles(
            topic,
            queue_id,
            paths.queue(topic, queue_id),
            leave_out_links=leave_out_links or paths.leave_out_links,
        )

    def has(self, topic: str, queue_id: int | None = None) -> bool:
        return has_queues(self._paths, topic, queue_id)


class _RocksdbQueues:
    """Queues in a database."""

    def __init__(self, paths: StorePaths, database: QueueDatabase) -> None:
        self._paths = paths
        self._database = database
        self._topics: frozenset[str] | None = None

    @property
    def place(self) -> str:
        return self._database.place.name

    def names(self, unreadable: Unreadable | None = None) -> Iterator[tuple[str, int]]:
        for found in self._queues(unreadable):
            yield found.topic, found.queue_id

    def each(
        self, left_out: Container[str] = (), unreadable: Unreadable | None = None
    ) -> Iterator[QueueFiles]:
        del left_out  # no file is a queue's own
        for found in self._queues(unreadable):
            try:
                queue = RocksdbQueue(self._database, found.topic, found.queue_id, found)
            except OSError as error:
                if unreadable is None or not is_unreadable(error):
                    raise
                unreadable(f"{self._database.place}/{found.topic}/{found.queue_id}", error)
            else:
                yield queue

    def _queues(self, unreadable: Unreadable | None) -> list[Queue]:
        try:
            return self._database.queues()
        except OSError as error:
            if unreadable is None or not is_unreadable(error):
                raise
            unreadable(str(self._database.place), error)
            return []

    def queue(self, topic: str, queue_id: int, *, leave_out_links: bool = False) -> QueueFiles:
        del leave_out_links
        self._paths.queue(topic, queue_id)  # refuses what is not a name
        return RocksdbQueue(self._database, topic, queue_id)

    def has(self, topic: str, queue_id: int | None = None) -> bool:
        if queue_id is not None:
            return self._database.queue(topic, queue_id) is not None
        if self._topics is None:
            self._topics = frozenset(one.topic for one in self._database.queues())
        return topic in self._topics
