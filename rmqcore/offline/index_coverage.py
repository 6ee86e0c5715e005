"""Whether the index files of a store cover the messages of its log: without reading more than a few records of each file."""

from __future__ import annotations

import os
from collections.abc import Sequence

from rmqcore._native.format.codec import MessageView
from rmqcore._native.index.index_reader import IndexHeader
from rmqcore._native.scan.scan import ViewScan
from rmqcore.disk.paths import StorePaths
from rmqcore.offline.index.index_files import IndexFileReader
from rmqcore.offline.log.log_files import LogFile
from rmqcore.offline.log.walk import Blank, LogWalk
from rmqcore.offline.log.window import record_at
from rmqcore.offline.remote.remote_paths import RemotePaths
from rmqcore.vocabulary.sysflag import TRANSACTION_ROLLBACK, transaction_type

LOOK_BYTES = 1 << 20
"""Bytes of the log in which a message with a key is looked for, before each index file and behind the last one."""


class IndexCoverage:
    """Remembers which index files were compared with the log, so that a further query compares only those that changed."""

    def __init__(self) -> None:
        self._known: dict[tuple[int | None, str, IndexHeader], int | None] = {}

    def lacking(
        self, paths: StorePaths, readers: Sequence[IndexFileReader], log_files: list[LogFile]
    ) -> list[str]:
        """Return a line for each index file of another log, and for each place between files that lacks keys.

        A file belongs to another log if the records of its first and last message are others than its header says. Keys are
        missing if a message with a key lies behind the last message of a file and before the first one of the next. Behind the
        newest file a broker may not have come so far: there, the store must be closed. A store behind a URL is not looked at.

        Parameters
        ----------
        paths : StorePaths
        readers : sequence of IndexFileReader
            Oldest first.
        log_files : list of LogFile

        Raises
        ------
        OSError
            A file cannot be read.
        """
        if isinstance(paths, RemotePaths) or not log_files:
            return []
        log_min, log_end = log_files[0].file_from_offset, log_files[-1].end_offset
        lines: list[str] = []
        covered: int | None = None
        known: dict[tuple[int | None, str, IndexHeader], int | None] = {}
        first = True
        for reader in readers:
            header = reader.header
            if reader.link_of is not None or header.index_count <= 1:
                continue
            if header.end_phy_offset < log_min:
                continue
            key = covered, reader.path.name, header
            if key not in self._known:
                if _is_of_another_log(reader, log_files):
                    lines.append(
                        f"index/{reader.path.name}: its header has other store times than the messages at "
                        f"{header.begin_phy_offset} and {header.end_phy_offset} have; the file belongs to another log"
                    )
                    continue
                found = _keys_between(
                    log_files, log_min if first else covered, header.begin_phy_offset
                )
                lines += found
                end = _end_of(log_files, header.end_phy_offset)
                if not found:
                    known[key] = end
            else:
                end = known[key] = self._known[key]
            first, covered = False, end
        self._known = known
        if not os.path.lexists(paths.abort):
            lines += _keys_between(log_files, log_min if first else covered, log_end)
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


def _keys_between(log_files: list[LogFile], begin: int | None, end: int) -> list[str]:
    """Look for a message with a key in a part of the log that no index file covers; None: the start of the part is not known."""
    if begin is None or begin >= end:
        return []
    walk: LogWalk[list[MessageView]] = LogWalk(
        log_files,
        ViewScan(),
        [],
        start=begin,
        stop=min(end, begin + LOOK_BYTES),
        aligned_start=True,
    )
    for views in walk.run():
        for view in () if isinstance(views, Blank) else views:
            if begin <= view.phy_offset < end and _is_indexed(view):
                return [f"index: no file has the keys of the message at {view.phy_offset}"]
    return []


def _is_indexed(view: MessageView) -> bool:
    """Return True if RocketMQ indexes a message by key; one that rolls back a transaction has no entry."""
    if transaction_type(view.sys_flag) == TRANSACTION_ROLLBACK:
        return False
    return bool(view.keys) or view.uniq_key is not None
