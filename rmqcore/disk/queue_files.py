"""Files of ConsumeQueues, listed by their names and sizes; no file is mapped or stays open."""

from __future__ import annotations

import os
import stat
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rmqcore._native.format.layout import CQ_STORE_UNIT_SIZE
from rmqcore._native.queues.queue_table import is_directory_name
from rmqcore.disk.data_extents import used_end
from rmqcore.disk.inside.links import is_file, is_folder, link_error
from rmqcore.disk.load_files import load_files
from rmqcore.disk.paths import StorePaths, is_utf8, parse_file_name, parse_queue_id
from rmqcore.disk.read_range import Unreadable, entries_of, opened, read_range
from rmqcore.disk.topics_file import configured_batch_topics, configured_compaction
from rmqcore.errors import StoreFormatError

Entries = npt.NDArray[np.void]

MOST_NUMBERS = 10_000
MOST_TOPICS = 10_000
"""Most batch topics to hold in memory by name."""


@dataclass(frozen=True, slots=True)
class QueueFile:
    """One file of a queue.

    Its name is the byte of the queue at which it starts, `size` its bytes on disk; `entry_count` is the number of whole
    entries that belong to it.
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
        """True if the file lost its end."""
        return self.size < self.entry_count * CQ_STORE_UNIT_SIZE

    def read(self, start: int, count: int) -> bytes:
        """Read at most `count` whole entries, from the file's entry number `start` on."""
        count = min(count, self.entry_count - start)
        data = read_range(self.path, start * CQ_STORE_UNIT_SIZE, count * CQ_STORE_UNIT_SIZE)
        return data[: len(data) - len(data) % CQ_STORE_UNIT_SIZE]

    def used_end(self, begin: int, end: int) -> int:
        """Return the queue offset behind the last entry in [begin, end) that is not all zeros; `begin` without one.

        Raises
        ------
        FileNotFoundError, StoreFormatError
            The file was deleted or cut.
        """
        unit, first = CQ_STORE_UNIT_SIZE, self.first_offset
        used = used_end(self.path, (begin - first) * unit, (end - first) * unit)
        return first + -(-used // unit)

    def read_into(self, out: memoryview, start: int) -> None:
        """Fill `out` with entries from the file's entry number `start` on; leave the part behind the file's end."""
        pos = start * CQ_STORE_UNIT_SIZE
        with opened(self.path, os.O_RDONLY, part=(pos, len(out))) as fd:
            os.preadv(fd, [out], pos)


def queue_directories(
    paths: StorePaths, unreadable: Unreadable | None = None
) -> Iterator[tuple[str, int, str]]:
    """Yield every queue's topic, id and directory, sorted by topic and id.

    Light queues (``%LMQ%...``) are among them, batch queues (``batchconsumequeue/``) are not. A directory whose name is
    not UTF-8 is not a topic. `unreadable` receives a directory that cannot be listed, as in `entries_of`.

    Raises
    ------
    LinkError
        A topic or a queue is a link; with `StorePaths.leave_out_links` it is left out.
    """
    return _queue_directories(paths, paths.consumequeue, unreadable)


def batch_directories(
    paths: StorePaths, unreadable: Unreadable | None = None
) -> Iterator[tuple[str, int, str]]:
    """Topic, id and directory of each queue of batches (``batchconsumequeue/``); as `queue_directories`.

    A topic that has a directory in ``consumequeue/`` too is not a batch topic (`batch_topics`).
    """
    if paths.leave_out_links and paths.batchconsumequeue.is_symlink():
        return
    for found in _queue_directories(paths, paths.batchconsumequeue, unreadable):
        if not (paths.consumequeue / found[0]).is_dir():
            yield found


def compacted_directories(
    paths: StorePaths, unreadable: Unreadable | None = None
) -> Iterator[tuple[str, int, str]]:
    """Topic, id and directory of each queue in ``compaction/compactionLog/``; as `queue_directories`.

    A topic whose configuration has another ``cleanup.policy`` is left out: a broker does not read its directory.
    """
    if any(_is_link(paths, folder) for folder in (paths.compaction, paths.compaction_log)):
        return
    if not is_real_folder(paths.compaction_log):
        return  # and no file of topics is read
    configured = configured_compaction(paths)
    for found in _queue_directories(paths, paths.compaction_log, unreadable):
        if configured.get(found[0], True) and not _entries_are_linked(paths, *found[:2]):
            yield found


def is_compacted(paths: StorePaths, topic: str, queue_id: int) -> bool:
    """Return True if `compacted_directories` yields a queue; raises the same errors."""
    if not is_directory_name(topic) or queue_id < 0:
        return False
    queue = paths.compaction_log / topic / str(queue_id)
    for folder in (paths.compaction, paths.compaction_log, queue.parent, queue):
        if _is_link(paths, folder) or not is_real_folder(folder):
            return False
    return not _entries_are_linked(paths, topic, queue_id) and configured_compaction(paths).get(
        topic, True
    )


def _entries_are_linked(paths: StorePaths, topic: str, queue_id: int) -> bool:
    entries = paths.compaction_entries / topic / str(queue_id)
    folders = (paths.compaction_entries, entries.parent, entries)
    return any(_is_link(paths, folder) for folder in folders)


def _is_link(paths: StorePaths, folder: Path) -> bool:
    """Return True if a directory is a link that is left out; one that is not is an error."""
    if folder.is_symlink() and not paths.leave_out_links:
        raise link_error(folder)
    return folder.is_symlink()


def compacted_topics(paths: StorePaths, unreadable: Unreadable | None = None) -> frozenset[str]:
    """Compacted topics (``cleanup.policy=COMPACTION``), by the configuration and by their directories."""
    configured = (topic for topic, compacted in configured_compaction(paths).items() if compacted)
    found = (topic for topic, _, _ in compacted_directories(paths, unreadable))
    return frozenset((*configured, *found))


def _queue_directories(
    paths: StorePaths, folder: Path, unreadable: Unreadable | None
) -> Iterator[tuple[str, int, str]]:
    leave_out = paths.leave_out_links
    for topic in entries_of(folder, unreadable):
        if not is_folder(topic, leave_out_links=leave_out) or not is_utf8(topic.name):
            continue
        ids = (
            parse_queue_id(entry.name)
            for entry in entries_of(topic.path, unreadable)
            if is_folder(entry, leave_out_links=leave_out)
        )
        found = array("i", (queue_id for queue_id in ids if queue_id is not None))
        for queue_id in _ascending(found):
            yield topic.name, queue_id, os.path.join(topic.path, str(queue_id))


def has_queues(paths: StorePaths, topic: str, queue_id: int | None = None) -> bool:
    """Return True if a topic has a directory with queues in it, or with this queue; links do not count."""
    folder = paths.consumequeue / topic
    if not is_directory_name(topic) or not is_real_folder(folder):
        return False
    if queue_id is not None:
        return queue_id >= 0 and is_real_folder(folder / str(queue_id))
    with os.scandir(folder) as found:
        return any(
            parse_queue_id(entry.name) is not None and entry.is_dir(follow_symlinks=False)
            for entry in found
        )


def is_real_folder(path: Path) -> bool:
    """Return True if a path is a directory, not a link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except FileNotFoundError:
        return False


def _ascending(numbers: array[int]) -> Iterator[int]:
    """Yield the numbers in order, without holding millions of int objects at the same time."""
    ordered = np.sort(np.array(numbers, np.int32))
    for begin in range(0, len(ordered), MOST_NUMBERS):
        yield from ordered[begin : begin + MOST_NUMBERS].tolist()


def batch_topics(paths: StorePaths, unreadable: Unreadable | None = None) -> frozenset[str]:
    """Topics of batch queues (``queue.type=BatchCQ``), whose records have entries only below ``batchconsumequeue/``.

    The topic's configuration or its directory shows the kind: a broker refuses a store in which a topic's directory
    lies in the other place. A topic with a directory in ``consumequeue/`` is not a batch topic here. `unreadable` as in
    `entries_of`.
    """
    leave_out = paths.leave_out_links
    found = set(configured_batch_topics(paths))
    if not (leave_out and paths.batchconsumequeue.is_symlink()):
        found.update(
            entry.name
            for entry in entries_of(paths.batchconsumequeue, unreadable)
            if is_folder(entry, leave_out_links=leave_out)
        )
    return frozenset(topic for topic in found if not (paths.consumequeue / topic).is_dir())


class BatchTopics:
    """As `batch_topics`, for membership tests; false without batch topics.

    Of more than `MOST_TOPICS` topics no names are held, and each test reads the disk.
    """

    def __init__(self, paths: StorePaths, unreadable: Unreadable | None = None) -> None:
        self._paths = paths
        leave_out = paths.leave_out_links
        hidden = leave_out and paths.batchconsumequeue.is_symlink()
        entries = () if hidden else entries_of(paths.batchconsumequeue, unreadable)
        count = sum(is_folder(entry, leave_out_links=leave_out) for entry in entries)
        self._configured = configured_batch_topics(paths)
        count += len(self._configured)
        few = 0 < count <= MOST_TOPICS
        self._names = batch_topics(paths, unreadable) if few else frozenset[str]()
        self._many = count > MOST_TOPICS

    def __bool__(self) -> bool:
        return self._many or bool(self._names)

    def __contains__(self, topic: str) -> bool:
        if not self._many:
            return topic in self._names
        if not is_directory_name(topic):
            return False
        is_batch = topic in self._configured or is_real_folder(
            self._paths.batchconsumequeue / topic
        )
        return is_batch and not (self._paths.consumequeue / topic).is_dir()


@dataclass(frozen=True, slots=True)
class OddFiles:
    """Queue files whose length or name differs from the setting because of damage.

    Attributes
    ----------
    lengths : frozenset of str
        Paths of files that are shorter or longer than configured. They get their length after their entries are
        written.
    strays : frozenset of str
        Paths of files whose names no file of the configured size can have. They are deleted after their entries are
        made again from the log.
    """

    lengths: frozenset[str] = frozenset()
    strays: frozenset[str] = frozenset()

    @property
    def paths(self) -> frozenset[str]:
        """All of them."""
        return self.lengths | self.strays


NOT_ODD = OddFiles()


class _Found(NamedTuple):
    path: str
    start: int
    size: int

    def may_be_set(self) -> bool:
        """Return True if the file's length is a possible setting."""
        return self.size > 0 and self.size % CQ_STORE_UNIT_SIZE == 0


def ends_in_room(path: str, size: int) -> bool:
    """Return True if zeros follow the entries of a queue file, as in one created at its full length."""
    data = read_range(path, 0, size)
    return any(data) and not any(data[-CQ_STORE_UNIT_SIZE:])


def odd_files(paths: StorePaths, file_size: int, *, clean_exit: bool) -> OddFiles:
    """List the queue files whose length or name is damage, if the other files show that the setting is correct.

    A power cut can leave a file's name without its length, an interrupted copy a part of it. Missing entries are made
    again from the log. If the files have the size of another setting, the list is empty, and `load_queue_files` refuses
    the store:

    * No file has the configured size, and those of whole entries are shorter, all of one size. After an unclean exit a
      single file of this kind is damaged, unless it has room behind its entries, like a file made at its full length.
    * A file is longer, or starts at a byte where no file of this size can. After an unclean exit only if its size explains
      the files better than the configured one: by the number of files with that size, and of names that it allows.
    """
    found = [
        _Found(entry.path, start, entry.stat().st_size)
        for _, _, directory in queue_directories(paths)
        for entry in entries_of(directory)
        if (start := parse_file_name(entry.name)) is not None and is_file(entry)
    ]
    strays = [file for file in found if file.start % file_size]
    odd = [file for file in found if file.size != file_size and not file.start % file_size]
    contrary = strays + [file for file in odd if file.size > file_size]
    if contrary:
        known = _fitting(found, file_size)
        sizes = {file.size for file in contrary if file.may_be_set()}
        if clean_exit or any(_fitting(found, size) > known for size in sizes):
            return NOT_ODD
    if all(file.size != file_size for file in found):
        others = [file for file in odd if file.may_be_set()]
        one_size = len({file.size for file in others}) == 1
        if one_size and (
            clean_exit or len(others) > 1 or ends_in_room(others[0].path, others[0].size)
        ):
            return NOT_ODD
    return OddFiles(frozenset(file.path for file in odd), frozenset(file.path for file in strays))


def _fitting(found: list[_Found], size: int) -> int:
    """How well files of a size explain those that were found."""
    return sum((file.size == size) + (file.start % size == 0) for file in found)


def load_queue_files(
    directory: str | Path, file_size: int, odd: OddFiles = NOT_ODD
) -> tuple[list[QueueFile], list[str]]:
    """List the files of a queue that will be written, as `load_files` does, and its empty files, which may be deleted.

    Raises
    ------
    StoreFormatError
        The size of a file that is not in `odd` differs from the configured size, or a file starts at a byte at which no
        file of this size can start.
    """
    found, empty = load_files(directory, file_size, odd.paths)
    entry_count = file_size // CQ_STORE_UNIT_SIZE
    files = []
    for start, path in found:
        if path in odd.strays:
            continue
        if start % file_size:
            raise StoreFormatError(
                f"{path}: file starts at byte {start}, expected a multiple of {file_size}"
            )
        size = min(os.stat(path).st_size, file_size) if path in odd.lengths else file_size
        files.append(QueueFile(path, start, size, entry_count))
    return files, empty
