"""Messages that queues, index or checkpoint know and the log does not have: its disk is not mounted, or it lies elsewhere.

One rule for all that read a log. It compares the newest message that is known with where the log ends. A store that is in use
appends while it is read, and its queues follow: so the message is looked for once more before it is missing.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from rmqcore._native.format.layout import MAGIC_BLANK, REC_MAGIC
from rmqcore.disk.checkpoint import StoreCheckpoint, read_checkpoint
from rmqcore.disk.data_extents import used_end
from rmqcore.disk.index.header import read_header
from rmqcore.disk.paths import PATH_SPLITTER, StorePaths, is_index_file_name, parse_file_name
from rmqcore.disk.queue_ends import end_of_message, newest_by_bisection
from rmqcore.disk.read_range import entries_of
from rmqcore.errors import (
    RemoteStorageError,
    RocksdbError,
    RocksdbMissingError,
    StoreError,
    is_unreadable,
)
from rmqcore.offline.info import log_end as end_of_log
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.log_files import LogFile, is_log_file, list_log_files
from rmqcore.offline.log.window import record_at
from rmqcore.offline.queues.queue_reader import QueueFiles
from rmqcore.offline.queues.queues import each_queue
from rmqcore.offline.remote.remote_paths import RemotePaths
from rmqcore.offline.rocksdb.index_database import index_database

LOG_MISSING = "log_missing"
MOST_QUEUES = 10_000
"""Queues whose ends are looked at; some seconds for that many."""
FARTHEST = 1 << 50
"""No log has come so far, a pebibyte: an offset behind it is damage of whatever says it."""
OTHER_PARTS = frozenset(
    {"batchconsumequeue", "config", "consumequeue", "consumequeue_ext", "cut", "index", "timerlog"}
)
"""Directories in a root whose files are not those of a log, though they may have such names."""


class KnownMessage(NamedTuple):
    """A message that some part of a store knows.

    Attributes
    ----------
    phy_offset : int
        Where its record starts.
    end_phy_offset : int
        A CommitLog offset behind which the record does not end; its end where the size is known.
    source : str
        What knows it: ``consumequeue/TopicA/0``, ``index/20260101000000000``, ``checkpoint``.
    """

    phy_offset: int
    end_phy_offset: int
    source: str


def missing_log(
    paths: StorePaths,
    log_end: int | None = None,
    start: int | None = None,
    stop: int | None = None,
    *,
    list_files: Callable[[], list[LogFile]] | None = None,
) -> list[DamageRange]:
    """Find what a log lacks at its end: an empty list, or one range ``log_missing`` up to the end of the newest known message.

    Parameters
    ----------
    paths : StorePaths
    log_end : int, optional
        CommitLog offset behind the last record, and behind damage that is known. None: a walk over the newest file finds the
        end, if the newest known message is not in the log.
    start, stop : int, optional
        CommitLog offsets outside of which nothing is asked for.
    list_files : callable, optional
        Lists the files of the log, where they do not lie in `paths`.

    Notes
    -----
    A cleanly closed store with its whole log costs one look at the checkpoint, another one a few reads for each of at most
    10,000 queues. Behind a URL queues and index are asked only if the log has no file at all; else the checkpoint tells.
    """
    if stop is not None and log_end is not None and stop <= log_end:
        return []
    if log_end is not None and closed_at(paths, log_end):
        return []  # all that was dispatched lies before it
    least = log_end or 0
    beyond = known_messages(paths, least)
    if not beyond:
        return []
    newest = max(beyond)
    files = list_log_files(paths) if list_files is None else list_files()
    if _may_be_there(files, newest.phy_offset):
        return []  # appended since the end was read
    if log_end is None:
        log_end = _used_end(files, _behind_blank(files, end_of_log(files)))
        beyond = [one for one in beyond if one.phy_offset >= log_end]
        if not beyond or (stop is not None and stop <= log_end):
            return []
    log_end = _behind_blank(files, log_end)
    end = max(one.end_phy_offset for one in beyond)
    if start is not None and end <= start:
        return []
    path = files[-1].name if files else paths.commitlog.name
    return [
        DamageRange(
            log_end,
            end,
            LOG_MISSING,
            path,
            "end of the log",
            f"{end} ({newest.source} names a message at {newest.phy_offset})",
            f"{log_end} ({_what_lies_there(paths, files)})",
        )
    ]


class StoreEnd:
    """End of the log according to the store's other parts (`LogEnd`); the parameters are those of `missing_log`."""

    def __init__(
        self, paths: StorePaths, start: int | None = None, stop: int | None = None
    ) -> None:
        self._paths = paths
        self._start = start
        self._stop = stop

    def missing(self, log_end: int) -> list[DamageRange]:
        """Return the ranges that the log lacks behind `log_end` and before its first file."""
        self._paths.check_open()
        emptied = emptied_files(self._paths, self._start, self._stop)
        return [*emptied, *missing_log(self._paths, log_end, self._start, self._stop)]

    def is_stale(self, phy_offset: int) -> bool:
        """Return True if a clean exit left the log's end there."""
        self._paths.check_open()
        return closed_at(self._paths, phy_offset)


def emptied_files(
    paths: StorePaths, start: int | None = None, stop: int | None = None
) -> list[DamageRange]:
    """Find files of no bytes before the first file of a log that has some: the log seems to start behind them.

    A cleaner deletes files, and a broker that is killed leaves a file of no bytes at the end of the log alone.

    Parameters
    ----------
    paths : StorePaths
    start, stop : int, optional
        CommitLog offsets outside of which nothing is asked for.
    """
    files = list_log_files(paths)
    found: list[tuple[int, str]] = []
    for folder in paths.commitlogs if files else ():
        for entry in entries_of(folder):
            place = parse_file_name(entry.name)
            if (
                place is None
                or place >= files[0].file_from_offset
                or not entry.is_file(follow_symlinks=False)
            ):
                continue
            with suppress(FileNotFoundError):  # the cleaner has deleted it
                if entry.stat().st_size == 0:
                    found.append((place, entry.name))
    return emptied_ranges(files, found, start, stop)


def emptied_ranges(
    files: list[LogFile],
    emptied: Iterable[tuple[int, str]],
    start: int | None = None,
    stop: int | None = None,
) -> list[DamageRange]:
    """Return the ranges of `emptied_files`.

    Parameters
    ----------
    files : list of LogFile
        Of the log, without those of no bytes.
    emptied : iterable of (int, str)
        CommitLog offset and name of each file of no bytes.
    start, stop : int, optional
        As of `emptied_files`.
    """
    if not files:
        return []
    first = files[0].file_from_offset
    found = sorted(one for one in emptied if one[0] < first)
    places = [*(place for place, _ in found), first]
    ranges = [
        DamageRange(begin, end, "missing_file", name, "file", f"{end - begin} bytes", "0 bytes")
        for (begin, name), end in zip(found, places[1:], strict=True)
    ]
    return [
        one
        for one in ranges
        if one.end_phy_offset > (start or 0) and (stop is None or one.start_phy_offset < stop)
    ]


def closed_at(
    paths: StorePaths,
    phy_offset: int,
    *,
    list_files: Callable[[], list[LogFile]] | None = None,
) -> bool:
    """Return True if the store was cleanly closed with the end of its log at this offset, by its checkpoint and last record.

    Bytes from there on that begin no record are then what a writer left that does not map its files (writeWithoutMmap).
    """
    if os.path.lexists(paths.abort):
        return False
    checkpoint = _checkpoint_of(paths)
    if checkpoint is None:
        return False
    try:
        files = list_log_files(paths) if list_files is None else list_files()
        newest = record_at(files, checkpoint.logics_physical_offset, most_whole=0)
    except OSError as error:
        if not is_unreadable(error):
            raise
        return False
    return (
        newest is not None
        and newest.phy_offset + newest.msg_size == phy_offset
        and checkpoint.closed_with(newest.phy_offset, newest.store_timestamp_ms)
    )


def _used_end(files: list[LogFile], log_end: int) -> int:
    """Where the bytes of the newest file end, behind a damaged tail: a walk reports that."""
    for file in files[-1:]:
        begin = max(0, log_end - file.file_from_offset)
        if begin < file.size and Path(file.location).is_file():
            return max(log_end, file.file_from_offset + used_end(file.location, begin, file.size))
    return log_end


def _behind_blank(files: list[LogFile], log_end: int) -> int:
    """The end of the file whose BLANK lies at an offset; else the offset."""
    for file in files:
        left = file.file_from_offset + file.size - log_end
        if 0 < left <= file.size:
            head = file.read_range(file.size - left, REC_MAGIC + 4)
            size = int.from_bytes(head[:4], "big")
            magic = int.from_bytes(head[REC_MAGIC:], "big", signed=True)
            return log_end + left if (size, magic) == (left, MAGIC_BLANK) else log_end
    return log_end


def _may_be_there(files: list[LogFile], phy_offset: int) -> bool:
    """Return True if a record lies at an offset, or in a file that cannot be read: a walk reports that."""
    try:
        return record_at(files, phy_offset, most_whole=0) is not None
    except OSError as error:
        if not is_unreadable(error):
            raise
        return True


# ---- what is known ----------------------------------------------------------------------------------


def known_messages(paths: StorePaths, least: int = 0) -> list[KnownMessage]:
    """List the newest message that each part of a store knows, as far as it lies at `least` or behind it.

    The first 10,000 queues are asked. Behind a URL with `least` above 0 the checkpoint alone is.
    """
    return [one for one in _newest_of_each(paths, least) if least <= one.phy_offset < FARTHEST]


def _newest_of_each(paths: StorePaths, log_end: int) -> Iterator[KnownMessage]:
    """The newest message of each part, queue by queue."""
    yield from _of_checkpoint(paths)
    if isinstance(paths, RemotePaths) and log_end > 0:
        return
    yield from _of_index(paths)
    yield from _of_index_database(paths)
    for queue in _queues_of(paths):
        newest = newest_by_bisection(queue.files)
        if newest is not None:
            source = f"{paths.consumequeue.name}/{queue.topic}/{queue.queue_id}"
            yield KnownMessage(int(newest["phy_offset"]), end_of_message(newest), source)


def _queues_of(paths: StorePaths) -> Iterator[QueueFiles]:
    """The first queues; none where they lie in a database that cannot be read."""
    try:
        yield from islice(each_queue(paths, unreadable=_told_elsewhere), MOST_QUEUES)
    except (RocksdbError, RocksdbMissingError) as error:
        _told_elsewhere(os.fspath(paths.consumequeue), error)


def _of_checkpoint(paths: StorePaths) -> Iterator[KnownMessage]:
    checkpoint = _checkpoint_of(paths)
    if checkpoint is not None and checkpoint.newest_known_phy_offset > 0:
        known = checkpoint.newest_known_phy_offset
        yield KnownMessage(known, known + 1, paths.checkpoint.name)


def _checkpoint_of(paths: StorePaths) -> StoreCheckpoint | None:
    """Read the checkpoint; None for one that is missing or cannot be read."""
    try:
        return read_checkpoint(paths.checkpoint)
    except RemoteStorageError:
        raise
    except (StoreError, OSError) as error:
        _told_elsewhere(os.fspath(paths.checkpoint), error)
        return None


def _of_index(paths: StorePaths) -> Iterator[KnownMessage]:
    """The newest message of the newest file that has any."""
    paths.bring_in(paths.index, beginnings=True)
    names = [
        entry.name
        for entry in entries_of(paths.index, _told_elsewhere)
        if is_index_file_name(entry.name) and entry.is_file(follow_symlinks=False)
    ]
    for name in sorted(names, key=int, reverse=True):
        try:
            header = read_header(paths.index / name)
        except OSError as error:
            _told_elsewhere(name, error)
            continue
        if header.index_count > 1:
            end = header.end_phy_offset
            yield KnownMessage(end, end + 1, f"{paths.index.name}/{name}")
            return


def _of_index_database(paths: StorePaths) -> Iterator[KnownMessage]:
    """The newest message of the index in RocksDB."""
    database = index_database(paths)
    if database is None:
        return
    try:
        newest = database.end()
    except (RocksdbError, RocksdbMissingError) as error:
        _told_elsewhere(os.fspath(database.place), error)
        return
    if newest is not None:
        yield KnownMessage(newest.phy_offset, newest.phy_offset + 1, database.place.name)


def _told_elsewhere(path: str, error: Exception) -> None:
    """A part that cannot be read tells nothing of the log: `info`, `doctor` and `fsck` report it."""
    del path, error


# ---- where the log may be ---------------------------------------------------------------------------


def _what_lies_there(paths: StorePaths, files: list[LogFile]) -> str:
    here = "the log has nothing behind it" if files else "the log has no file"
    others = log_directories_beside(paths)
    if not others and files:
        return f"{here}: files are missing, or its end was lost in a power cut"
    if not others:
        return (
            f"{here}: its disk is not mounted, or it is in another directory: name it with "
            "--commitlog"
        )
    named = [*(paths.commitlogs if files else ()), *others]
    shown = ", ".join(f"{os.path.relpath(one, paths.root)}/" for one in others)
    option = shlex.quote(PATH_SPLITTER.join(map(str, named)))
    return f"{here}; {shown} has CommitLog files: --commitlog {option} reads them"


def log_directories_beside(paths: StorePaths) -> list[Path]:
    """Directories in a store's root that hold files of a log, and are not its CommitLog's: ``log2``, ``dledger-n0/data``."""
    known = {os.path.realpath(directory) for directory in paths.commitlogs}
    found = []
    for entry in entries_of(paths.root, _told_elsewhere):
        if entry.name in OTHER_PARTS or not entry.is_dir(follow_symlinks=False):
            continue
        for place in (Path(entry.path), Path(entry.path) / "data"):
            names = entries_of(place, _told_elsewhere)
            is_log = any(is_log_file(one.name) and one.is_file() for one in names)
            if is_log and os.path.realpath(place) not in known:
                found.append(place)
    return found
