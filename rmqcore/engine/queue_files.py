"""Files of ConsumeQueues as the names and sizes in a directory tell them; nothing is mapped, nothing stays open."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rmqcore._native.cq import CQ_STORE_UNIT_SIZE
from rmqcore.engine.paths import StorePaths, parse_file_name
from rmqcore.engine.ranges import entries_of, read_range
from rmqcore.errors import StoreFormatError

Entries = npt.NDArray[np.void]

MAX_QUEUE_ID = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class QueueFile:
    """One file of a queue.

    Its name says the logical byte that it starts at; `entry_count` is the number of whole entries that are its own.
    """

    path: str
    file_from_offset: int
    size: int
    entry_count: int

    @property
    def first_offset(self) -> int:
        """Queue offset of the first entry."""
        return self.file_from_offset // CQ_STORE_UNIT_SIZE

    def read(self, start: int, count: int) -> bytes:
        """Whole entries from the file's `start`-th on, at most `count` of them."""
        count = min(count, self.entry_count - start)
        data = read_range(self.path, start * CQ_STORE_UNIT_SIZE, count * CQ_STORE_UNIT_SIZE)
        return data[: len(data) - len(data) % CQ_STORE_UNIT_SIZE]


def queue_directories(paths: StorePaths) -> Iterator[tuple[str, int, str]]:
    """Every queue's topic, id and directory, by topic and id.

    Light queues (``%LMQ%...``) are among them, batch queues (``batchconsumequeue/``) are not. Java reads a directory's name as an
    int and finds the directory by that int again, so a name with leading zeros is none.
    """
    for topic in entries_of(paths.consumequeue):
        if not topic.is_dir():
            continue
        names = {entry.name for entry in entries_of(topic.path) if entry.is_dir()}
        for number in sorted(int(name) for name in names if name.isascii() and name.isdigit()):
            if number <= MAX_QUEUE_ID and str(number) in names:
                yield topic.name, number, os.path.join(topic.path, str(number))


def load_queue_files(directory: str | Path, file_size: int) -> tuple[list[QueueFile], list[str]]:
    """List the files of a queue that is going to be written, and the empty ones that may be deleted.

    As in Java a file of another size is an error, but an empty last one, which a crash between two system calls leaves, is
    not. Directories and names that are no offset are none of ours.

    Raises
    ------
    StoreFormatError
        A file of another size than configured, or one that starts where no file of this size can.

    Notes
    -----
    Source: RocketMQ 5.5.0 MappedFileQueue#doLoad.
    """
    found: list[QueueFile] = []
    empty: list[str] = []
    numbered = [
        (start, entry)
        for entry in entries_of(directory)
        if (start := parse_file_name(entry.name)) is not None and not entry.is_dir()
    ]
    for place, (start, entry) in enumerate(numbered):
        size = entry.stat().st_size
        if size == 0 and place == len(numbered) - 1:
            empty.append(entry.path)
        elif size != file_size:
            raise StoreFormatError(
                f"{entry.path}: file size is {size}, expected {file_size} as configured"
            )
        elif start % file_size:
            raise StoreFormatError(
                f"{entry.path}: file starts at byte {start}, expected a multiple of {file_size}"
            )
        else:
            found.append(QueueFile(entry.path, start, size, size // CQ_STORE_UNIT_SIZE))
    return found, empty
