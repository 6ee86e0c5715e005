"""Numbers of a store, as `rmqcore info` shows them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rmqcore.disk.checkpoint import StoreCheckpoint, read_checkpoint
from rmqcore.disk.inside.skeletons import occupied_bytes
from rmqcore.disk.paths import StorePaths, is_index_file_name, is_utf8, parse_queue_id
from rmqcore.disk.read_range import Unreadable
from rmqcore.disk.store_kinds import StoreKind, find_kinds, rocksdb_place
from rmqcore.errors import (
    RemoteStorageError,
    RocksdbError,
    RocksdbMissingError,
    StoreError,
    is_unreadable,
)
from rmqcore.offline.log.log_files import LogFile, LogShape, mapped_file_size
from rmqcore.offline.log.store_times import first_stored, stored
from rmqcore.offline.rocksdb.database import QueueDatabase, queue_database
from rmqcore.offline.rocksdb.index_database import index_database
from rmqcore.shown.report import Report

MOST_DEEP = 64
"""Directories in each other that are looked into; a queue is the third."""


@dataclass(frozen=True)
class StoreInfo(Report):
    """Sizes, counts and offsets of a store.

    Attributes
    ----------
    min_phy_offset, max_phy_offset : int
        CommitLog bytes: start of the first file, and end of the last sound record.
    mapped_file_size : int
        Bytes a CommitLog file has (mappedFileSizeCommitLog).
    first_store_timestamp_ms, last_store_timestamp_ms : int or None
        Of the oldest and newest message.
    abort : bool
        The ``abort`` file is there: the store is in use, or was not cleanly closed.
    topic_count, queue_count : int or None
        None where the queues are in RocksDB and the package that reads it is not installed.
    rocksdb_index_entries : int or None
        About how many entries the index in RocksDB has; None without such an index, and where the package that reads it is not
        installed.
    kinds : tuple of StoreKind
        Parts of the store besides a log, queues and index in plain files; empty for most stores (docs/store-kinds.md).
    commitlog_bytes, consumequeue_bytes, index_bytes : int
        Bytes on disk (allocated blocks: the files are sparse); behind a URL the sizes of the files.
    """

    path: str
    mapped_file_size: int
    log_file_count: int
    commitlog_bytes: int
    consumequeue_bytes: int
    index_bytes: int
    min_phy_offset: int
    max_phy_offset: int
    first_store_timestamp_ms: int | None
    last_store_timestamp_ms: int | None
    topic_count: int | None
    queue_count: int | None
    index_file_count: int
    checkpoint: StoreCheckpoint | None
    checkpoint_error: str | None
    abort: bool
    kinds: tuple[StoreKind, ...] = ()
    rocksdb_index_entries: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """The attributes as plain JSON values."""
        return asdict(self)


def read_info(
    paths: StorePaths, files: list[LogFile], unreadable: Unreadable | None = None
) -> StoreInfo:
    """Gather a StoreInfo: directories are listed, the oldest and the newest CommitLog file are read.

    The log's end is where a walk over its last file ends; no body is looked at for it, so that this costs less than `cat`.
    Directories that cannot be listed, and a checkpoint that cannot be read, are told to `unreadable`; without that such a
    directory is an error.
    """
    first, last, end = log_times(files)
    checkpoint, checkpoint_error = None, None
    try:
        checkpoint = read_checkpoint(paths.checkpoint)
    except RemoteStorageError:
        raise  # it says nothing of what lies there
    except (StoreError, OSError) as error:
        checkpoint_error = str(error)
        if unreadable is not None and isinstance(error, OSError) and is_unreadable(error):
            unreadable(os.fspath(paths.checkpoint), error)
    topic_count, queue_count = _count_queues(paths, unreadable)
    return StoreInfo(
        path=paths.location,
        mapped_file_size=mapped_file_size(files),
        log_file_count=len(files),
        commitlog_bytes=sum(map(disk_bytes, paths.commitlogs)),
        consumequeue_bytes=disk_bytes(rocksdb_place(paths) or paths.consumequeue),
        index_bytes=disk_bytes(paths.index),
        min_phy_offset=files[0].file_from_offset if files else 0,
        max_phy_offset=end,
        first_store_timestamp_ms=first,
        last_store_timestamp_ms=last,
        topic_count=topic_count,
        queue_count=queue_count,
        index_file_count=sum(map(is_index_file_name, _names(paths.index, unreadable))),
        checkpoint=checkpoint,
        checkpoint_error=checkpoint_error,
        abort=paths.abort.exists(),
        kinds=find_kinds(paths),
        rocksdb_index_entries=_count_index(paths, unreadable),
    )


QUEUES_NOT_READ = f"in RocksDB, not read: {RocksdbMissingError.hint}"
LOG_ONLY = "there are no queues, index and checkpoint: rmqcore rebuild creates them"


def is_log_only(paths: StorePaths) -> bool:
    """True if the store is only a CommitLog, as after copying ``commitlog/`` alone.

    A broker that ran here left a checkpoint, and a crashed one its abort file.
    """
    others = (
        "consumequeue",
        "index",
        "checkpoint",
        "abort",
        "lock",
        "config",
        "consumequeue_rocksdb",
    )
    return not any(os.path.lexists(paths.root / name) for name in others)


class UnreadableFiles(list[dict[str, str]]):
    """Files and directories that could not be read, each a path within the store and the reason; each once.

    Parameters
    ----------
    paths : StorePaths
    """

    def __init__(self, paths: StorePaths) -> None:
        super().__init__()
        self._root = paths.root
        self._known: set[str] = set()

    def note(self, path: str | os.PathLike[str], error: OSError) -> None:
        """Note a file or directory."""
        place = Path(path)
        inside = place.relative_to(self._root) if place.is_relative_to(self._root) else place
        name = os.fspath(inside)
        if name not in self._known:
            self._known.add(name)
            self.append({"path": name, "error": error.strerror or str(error)})

    def look_at(self, files: list[LogFile]) -> None:
        """Note the CommitLog files that cannot be opened."""
        for file in files:
            try:
                with file.open(lambda start, end, error: None):
                    pass
            except FileNotFoundError:  # cleaned since it was listed
                continue
            except OSError as error:
                self.note(self._root / file.name, error)


def log_end(files: list[LogFile]) -> int:
    """CommitLog offset behind the last sound record."""
    return log_times(files)[2]


def log_times(files: list[LogFile]) -> tuple[int | None, int | None, int]:
    """Store timestamps of the first and last message, and where the log ends.

    The newest file may be allocated and empty, so older ones are asked until one holds a message.
    """
    first = None
    last = None
    end = files[-1].file_from_offset if files else 0
    newest, shape = len(files), LogShape.of(files)
    while newest and last is None:
        newest -= 1
        end = files[newest].file_from_offset
        for some in stored(files[newest], shape):
            first = some.first_ms if last is None else first
            last, end = some.last_ms, some.end_phy_offset
    # A file without a message was asked above, if it lies behind the newest message.
    for file in files[:newest]:
        oldest = first_stored(file, shape)
        if oldest is not None:
            return oldest.first_ms, last, end
    return first, last, end


def _names(directory: str | Path, unreadable: Unreadable | None) -> Iterator[str]:
    """Names in a directory, in no order; none where there is no such directory."""
    try:
        with os.scandir(directory) as found:
            for entry in found:
                yield entry.name
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        if unreadable is None or not is_unreadable(error):
            raise
        unreadable(os.fspath(directory), error)


def _count_queues(
    paths: StorePaths, unreadable: Unreadable | None
) -> tuple[int | None, int | None]:
    """How many topics have queues, and how many queues there are."""
    database = queue_database(paths)
    if database is not None:
        return _count_in(database, unreadable)
    topics = queues = 0
    for folder in (paths.consumequeue, paths.batchconsumequeue):
        found = _count_below(folder, unreadable)
        topics, queues = topics + found[0], queues + found[1]
    return topics, queues


def _count_below(consumequeue: Path, unreadable: Unreadable | None) -> tuple[int, int]:
    topics = queues = 0
    for topic in filter(is_utf8, _names(consumequeue, unreadable)):
        names = _names(f"{consumequeue}/{topic}", unreadable)
        count = sum(parse_queue_id(name) is not None for name in names)
        topics += count > 0
        queues += count
    return topics, queues


def _count_in(
    database: QueueDatabase, unreadable: Unreadable | None
) -> tuple[int | None, int | None]:
    try:
        queues = database.queues()
    except RocksdbMissingError:
        return None, None
    except RocksdbError as error:
        if unreadable is None:
            raise
        unreadable(str(error.filename), error)
        return 0, 0
    return len({queue.topic for queue in queues}), len(queues)


def _count_index(paths: StorePaths, unreadable: Unreadable | None) -> int | None:
    """About how many entries the index in RocksDB has."""
    database = index_database(paths)
    if database is None:
        return None
    try:
        return None if database.end() is None else database.estimated_entries()
    except RocksdbMissingError:
        return None
    except RocksdbError as error:
        if unreadable is None:
            raise
        unreadable(str(error.filename), error)
        return None


def disk_bytes(directory: str | Path, depth: int = 0) -> int:
    """Bytes that all files below a directory occupy."""
    total = 0
    try:
        found = os.scandir(directory)
    except OSError:  # it counts as nothing
        return total
    with found:
        for entry in found:
            if not entry.is_dir():
                # Cleaned meanwhile, or in a directory that may be listed and not be entered.
                with suppress(FileNotFoundError, PermissionError):
                    total += occupied_bytes(entry.path, entry.stat(follow_symlinks=False))
            elif depth < MOST_DEEP and not entry.is_symlink():
                total += disk_bytes(entry.path, depth + 1)
    return total
