"""Files of ConsumeQueues known by their names and sizes in a directory; nothing is mapped, nothing stays open."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rmqcore._native.format.layout import CQ_STORE_UNIT_SIZE
from rmqcore.disk.load_files import load_files
from rmqcore.disk.paths import StorePaths, parse_file_name, parse_queue_id
from rmqcore.disk.read_range import entries_of, read_range
from rmqcore.errors import StoreFormatError

Entries = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class QueueFile:
    """One file of a queue.

    Its name is the byte of the queue at which it starts, `size` its bytes on disk; `entry_count` is the number of whole entries
    that belong to it.
    """

    path: str
    file_from_offset: int
    size: int
    entry_count: int

    @property
    def first_offset(self) -> int:
        """Queue offset of the first entry."""
        return self.file_from_offset // CQ_STORE_UNIT_SIZE

    @property
    def is_short(self) -> bool:
        """Whether the file lost its end."""
        return self.size < self.entry_count * CQ_STORE_UNIT_SIZE

    def read(self, start: int, count: int) -> bytes:
        """Read at most `count` whole entries, from the file's entry number `start` on."""
        count = min(count, self.entry_count - start)
        data = read_range(self.path, start * CQ_STORE_UNIT_SIZE, count * CQ_STORE_UNIT_SIZE)
        return data[: len(data) - len(data) % CQ_STORE_UNIT_SIZE]


def queue_directories(paths: StorePaths) -> Iterator[tuple[str, int, str]]:
    """Every queue's topic, id and directory, by topic and id.

    Light queues (``%LMQ%...``) are among them, batch queues (``batchconsumequeue/``) are not.
    """
    for topic in entries_of(paths.consumequeue):
        if not topic.is_dir():
            continue
        ids = (parse_queue_id(entry.name) for entry in entries_of(topic.path) if entry.is_dir())
        for queue_id in sorted(found for found in ids if found is not None):
            yield topic.name, queue_id, os.path.join(topic.path, str(queue_id))


def batch_topics(paths: StorePaths) -> frozenset[str]:
    """Topics of batch queues (``queue.type=BatchCQ``), whose records have entries only below ``batchconsumequeue/``.

    A broker asks the topic's configuration. The directories show what that was, for a broker refuses a store in which a topic
    has its directory in the other place. A topic with both directories is no batch topic here.
    """
    found = {entry.name for entry in entries_of(paths.batchconsumequeue) if entry.is_dir()}
    return frozenset(topic for topic in found if not (paths.consumequeue / topic).is_dir())


def short_files(paths: StorePaths, file_size: int) -> frozenset[str]:
    """List the queue files that lost their ends: they are shorter than configured, and the others show that the setting is right.

    A power cut can leave a file's name without its length, an interrupted copy a part of it. What is missing comes from the log.
    The setting is another store's, and nothing is listed, where a file is larger or starts at a byte where no file of this size
    can, or where files of whole entries are shorter, all of one size, and no file has the configured one.
    """
    short: list[str] = []
    whole = False
    sizes: set[int] = set()  # that another setting may have made
    for _, _, directory in queue_directories(paths):
        for entry in entries_of(directory):
            start = parse_file_name(entry.name)
            if start is None or not entry.is_file():
                continue
            size = entry.stat().st_size
            if size > file_size or start % file_size:
                return frozenset()
            if size == file_size:
                whole = True
                continue
            short.append(entry.path)
            if size > 0 and size % CQ_STORE_UNIT_SIZE == 0:
                sizes.add(size)
    return frozenset(short) if whole or len(sizes) != 1 else frozenset()


def load_queue_files(
    directory: str | Path, file_size: int, short: Collection[str] = ()
) -> tuple[list[QueueFile], list[str]]:
    """List the files of a queue that will be written, as `load_files` does, and its empty files, which may be deleted.

    Raises
    ------
    StoreFormatError
        A file that is not one of `short` has another size than configured, or one starts at a byte at which no file of this
        size can start.
    """
    found, empty = load_files(directory, file_size, short)
    for start, path in found:
        if start % file_size:
            raise StoreFormatError(
                f"{path}: file starts at byte {start}, expected a multiple of {file_size}"
            )
    entry_count = file_size // CQ_STORE_UNIT_SIZE
    return [
        QueueFile(path, start, os.stat(path).st_size if path in short else file_size, entry_count)
        for start, path in found
    ], empty
