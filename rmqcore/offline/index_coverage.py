"""Whether the index of a store covers the messages of its log: without reading more than a few records of each part."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from rmqcore._native.format.codec import MessageView
from rmqcore._native.index.index_reader import IndexHeader
from rmqcore._native.scan.scan import ViewScan
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.store_kinds import INDEX_DATABASE
from rmqcore.errors import RocksdbError
from rmqcore.offline.index.index_files import IndexFileReader
from rmqcore.offline.log.log_files import LogFile
from rmqcore.offline.log.walk import Blank, LogWalk
from rmqcore.offline.log.window import record_at
from rmqcore.offline.rocksdb.index_database import IndexDatabase, IndexStart, damage_of
from rmqcore.queries.index_query import TAG_TYPE, has_key
from rmqcore.vocabulary.sysflag import TRANSACTION_ROLLBACK, transaction_type

LOOK_BYTES = 1 << 20
"""Bytes of a large uncovered part of the log in which a message with any key is looked for."""
SEARCH_BYTES = 16 << 20
"""An uncovered part of at most this size is searched for messages with the asked key."""


class AskedKey(NamedTuple):
    """What a query asks for; the fields are those of `has_key`."""

    topic: str
    key: str
    index_type: str | None


class IndexCoverage:
    """Remembers which index files were compared with the log, so that a further query compares only those that changed."""

    def __init__(self) -> None:
        self._known: dict[tuple[int | None, str, IndexHeader], int | None] = {}
        self._database_start: IndexStart | None = None

    def lacking(
        self,
        paths: StorePaths,
        readers: Sequence[IndexFileReader],
        log_files: list[LogFile],
        asked: Collection[AskedKey],
        database: IndexDatabase | None = None,
        *,
        to_end: bool = False,
    ) -> list[str]:
        """Return a line for each index file of another log, and for each part of the log whose asked keys no file has.

        A file belongs to another log if the records of its first and last message are others than its header says. A part of the
        log between the last message of a file and the first one of the next is searched for the keys; of a part above 16 MiB the
        first MiB shows whether it has keys at all. Behind the newest file a broker may not have come so far: there, the store
        must be closed. RocketMQ before 5.4 has no tags in its index: a query for one finds no such part. Behind a URL this costs
        two small requests for each index file, and up to 16 MiB of the log.

        What the database covers is not searched. RocketMQ enters no message without UNIQ_KEY there: if the index continues in the
        database alone, such messages are not looked for.

        Parameters
        ----------
        paths : StorePaths
        readers : sequence of IndexFileReader
            Oldest first.
        log_files : list of LogFile
        asked : collection of AskedKey
        database : IndexDatabase, optional
            One with entries.
        to_end : bool
            Also look behind the newest file of a store in use: files alone answer, and a broker may enter new messages elsewhere.

        Raises
        ------
        OSError
            A file cannot be read.
        """
        if not log_files:
            return []
        covered: int | None = log_files[0].file_from_offset
        log_min = log_files[0].file_from_offset
        lines: list[str] = []
        gaps: list[tuple[int | None, int]] = []
        known: dict[tuple[int | None, str, IndexHeader], int | None] = {}
        for reader in readers:
            header = reader.header
            if reader.link_of is not None or header.index_count <= 1:
                continue
            if header.end_phy_offset < log_min:
                continue
            key = covered, reader.path.name, header
            if key not in self._known and _is_of_another_log(reader, log_files):
                lines.append(
                    f"index/{reader.path.name}: its header has other store times than the messages at "
                    f"{header.begin_phy_offset} and {header.end_phy_offset} have; the file belongs to another log"
                )
                continue
            gaps.append((covered, header.begin_phy_offset))
            if key in self._known:
                covered = known[key] = self._known[key]
            else:
                covered = known[key] = _end_of(log_files, header.end_phy_offset)
        self._known = known
        if to_end or not os.path.lexists(paths.abort):
            gaps.append((covered, log_files[-1].end_offset))
        keys = [one for one in asked if one.index_type != TAG_TYPE]
        in_database = _Covered() if database is None else self._covered_by(database, log_files)
        lines += in_database.lines
        # Behind its newest message the database lacks those without UNIQ_KEY, unless files go on there.
        uniq_only = database is not None and (covered is None or covered <= in_database.end)
        for begin, end in in_database.outside(gaps) if keys else ():
            lines += _keys_between(log_files, begin, end, keys, uniq_only=uniq_only)
        return lines

    def _covered_by(self, database: IndexDatabase, log_files: list[LogFile]) -> _Covered:
        """Find the part of the log whose messages are in the database."""
        try:
            newest = database.end()
            self._database_start = self._database_start or database.start()
        except RocksdbError as error:
            return _Covered(lines=(damage_of(error),))
        start, log_min = self._database_start, log_files[0].file_from_offset
        if newest is None or start is None or newest.phy_offset < log_min:
            return _Covered()
        end = _end_of(log_files, newest.phy_offset)
        if end is None:
            return _Covered(
                lines=(
                    f"{INDEX_DATABASE}: its newest message is at {newest.phy_offset}, where the log has no record",
                )
            )
        begin = start.phy_offset
        return _Covered(_begin_of_hour(log_files, start.hour_ms) if begin is None else begin, end)


class _Covered(NamedTuple):
    """A part of the log whose messages are in a database."""

    begin: int = 0
    end: int = 0
    lines: tuple[str, ...] = ()

    def outside(self, gaps: list[tuple[int | None, int]]) -> Iterator[tuple[int, int]]:
        """Yield what is left of parts of the log."""
        for begin, end in gaps:
            if begin is None:
                continue
            for first, stop in ((begin, min(end, self.begin)), (max(begin, self.end), end)):
                if first < stop:
                    yield first, stop


def _begin_of_hour(log_files: list[LogFile], hour_ms: int) -> int:
    """CommitLog offset of the file in which the first message of an hour may lie."""
    begin = log_files[0].file_from_offset
    for file in log_files:
        view = record_at(log_files, file.file_from_offset, most_whole=0)
        if view is not None and view.store_timestamp_ms >= hour_ms:
            break
        begin = file.file_from_offset
    return begin


def _end_of(log_files: list[LogFile], phy_offset: int) -> int | None:
    """CommitLog offset behind a record; None if it is damaged, or not in the log."""
    view = record_at(log_files, phy_offset, most_whole=0)
    return None if view is None else phy_offset + view.msg_size


def _is_of_another_log(reader: IndexFileReader, log_files: list[LogFile]) -> bool:
    header, log_min = reader.header, log_files[0].file_from_offset
    places = (
        (header.begin_phy_offset, header.begin_timestamp_ms),
        (header.end_phy_offset, header.end_timestamp_ms),
    )
    missing = 0
    for phy_offset, stored_ms in places:
        if phy_offset < log_min:
            continue
        view = record_at(log_files, phy_offset, most_whole=0)
        if view is not None and view.store_timestamp_ms != stored_ms:
            return True
        # One of the two may be damaged, or lie in a file that is missing.
        held = any(file.file_from_offset <= phy_offset < file.end_offset for file in log_files)
        missing += view is None and held
    return missing == len(places) and header.begin_phy_offset != header.end_phy_offset


def _keys_between(
    log_files: list[LogFile], begin: int, end: int, keys: Collection[AskedKey], *, uniq_only: bool
) -> list[str]:
    """Look for a message with a key in a part of the log that no index covers; with `uniq_only` it must have a UNIQ_KEY."""
    large = end - begin > SEARCH_BYTES
    walk: LogWalk[list[MessageView]] = LogWalk(
        log_files,
        ViewScan(),
        [],
        start=begin,
        stop=begin + LOOK_BYTES if large else end,
        aligned_start=True,
    )
    for views in walk.run():
        for view in () if isinstance(views, Blank) else views:
            if not begin <= view.phy_offset < end or not _is_indexed(view):
                continue
            if uniq_only and view.uniq_key is None:
                continue
            if large or any(has_key(view, *one) for one in keys):
                return [f"index: no file has the keys of the message at {view.phy_offset}"]
    return []


def _is_indexed(view: MessageView) -> bool:
    """Return True if RocketMQ indexes a message by key; one that rolls back a transaction has no entry."""
    if transaction_type(view.sys_flag) == TRANSACTION_ROLLBACK:
        return False
    return bool(view.keys) or view.uniq_key is not None
