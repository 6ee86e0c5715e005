"""Whether the index files of a store cover the messages of its log: without reading more than a few records of each file."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import NamedTuple

from rmqcore._native.format.codec import MessageView
from rmqcore._native.index.index_reader import IndexHeader
from rmqcore._native.scan.scan import ViewScan
from rmqcore.disk.paths import StorePaths
from rmqcore.offline.index.index_files import IndexFileReader
from rmqcore.offline.log.log_files import LogFile
from rmqcore.offline.log.walk import Blank, LogWalk
from rmqcore.offline.log.window import record_at
from rmqcore.offline.remote.remote_paths import RemotePaths
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

    def lacking(
        self,
        paths: StorePaths,
        readers: Sequence[IndexFileReader],
        log_files: list[LogFile],
        asked: Collection[AskedKey],
    ) -> list[str]:
        """Return a line for each index file of another log, and for each part of the log whose asked keys no file has.

        A file belongs to another log if the records of its first and last message are others than its header says. A part of the
        log between the last message of a file and the first one of the next is searched for the keys; of a part above 16 MiB the
        first MiB shows whether it has keys at all. Behind the newest file a broker may not have come so far: there, the store
        must be closed. A store behind a URL is not looked at. RocketMQ before 5.4 has no tags in its index: a query for one finds
        no such part.

        Parameters
        ----------
        paths : StorePaths
        readers : sequence of IndexFileReader
            Oldest first.
        log_files : list of LogFile
        asked : collection of AskedKey

        Raises
        ------
        OSError
            A file cannot be read.
        """
        if isinstance(paths, RemotePaths) or not log_files:
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
        if not os.path.lexists(paths.abort):
            gaps.append((covered, log_files[-1].end_offset))
        keys = [one for one in asked if one.index_type != TAG_TYPE]
        for begin, end in gaps if keys else ():
            if begin is not None and begin < end:
                lines += _keys_between(log_files, begin, end, keys)
        return lines


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
    log_files: list[LogFile], begin: int, end: int, keys: Collection[AskedKey]
) -> list[str]:
    """Look for a message with a key in a part of the log that no index file covers."""
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
            if large or any(has_key(view, *one) for one in keys):
                return [f"index: no file has the keys of the message at {view.phy_offset}"]
    return []


def _is_indexed(view: MessageView) -> bool:
    """Return True if RocketMQ indexes a message by key; one that rolls back a transaction has no entry."""
    if transaction_type(view.sys_flag) == TRANSACTION_ROLLBACK:
        return False
    return bool(view.keys) or view.uniq_key is not None
