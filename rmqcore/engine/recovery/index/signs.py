"""Signs of damage in the shape of index files, few bytes each: sizes, headers, neighbours, the ends of the log.

Every open looks for them. They show missing, short, exchanged or doubled files, and wrong headers; index_compare.py
compares the entries of a file.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rmqcore._native.format.ids import index_key_hash
from rmqcore._native.format.layout import (
    INDEX_ENTRY_PHYOFFSET,
    index_file_size,
)
from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.index.index_entries import read_entries
from rmqcore.disk.paths import MAX_OFFSET
from rmqcore.disk.read_range import opened
from rmqcore.engine.dispatch.dispatcher import Dispatcher
from rmqcore.engine.index.index_file import IndexFile
from rmqcore.engine.recovery.index.log_look import LogLook

LOOK_BYTES = 1 << 20
"""Bytes of log to search for a message with a key at an open."""
TAG_ENTRIES = 512
"""Entries at the end of an index file to search for one of a message with a tag."""


@dataclass(frozen=True, slots=True)
class IndexDamage:
    """Place from which an index differs from the log.

    Attributes
    ----------
    number : int
        Number of the first wrong file, counted from the oldest; the number of files if only keys behind them are
        missing.
    reason : str
    """

    number: int
    reason: str


def find_signs(
    files: Sequence[IndexFile],
    log: LogLook,
    config: MessageStoreConfig,
    log_end: int,
    *,
    most_bytes: int = LOOK_BYTES,
    behind: bool = True,
) -> IndexDamage | None:
    """Check each file's header, its first and last entry with their records, and the log between two files.

    Parameters
    ----------
    files : sequence of IndexFile
        Oldest first, none with an entry at or behind `log_end`.
    log : CommitLog
    config : MessageStoreConfig
    log_end : int
        CommitLog offset behind the last record.
    most_bytes : int
        Most bytes of log to search for a message with a key before the first file, between two files and behind the
        last one.
    behind : bool
        Search behind the last file. Otherwise its keys are put again, after an unclean exit or because the caller asks;
        then a last file whose size no other file has is damage.

    Raises
    ------
    OSError
        A file cannot be read.
    """
    indexed, complete, believed = log.min_offset, -1, 0
    for number, file in enumerate(files):
        reason = _size_sign(files, number, config, sure=not behind)
        if reason is None:
            reason = _header_sign(file, complete if number else None)
        if reason is None and file.found.index_count > 1:
            reason = _end_sign(file, log, proven=places_proven(config))
            begin = file.found.begin_phy_offset
            if reason is None:
                before = TagEvidence(files[: max(number, 1)], log)
                keyed = find_keyed(log, config, indexed, begin, most_bytes, before, after=complete)
                if keyed is not None:
                    # Files without an entry before this one are deleted too: a lost header looks like theirs.
                    return IndexDamage(believed, _missing(keyed))
        if reason is not None:
            return IndexDamage(number, f"index/{file.name}: {reason}")
        complete = max(complete, file.found.end_phy_offset)
        indexed = max(indexed, complete)
        if file.found.index_count > 1:
            believed = number + 1
    if behind:
        tags = TagEvidence(files, log)
        keyed = find_keyed(log, config, indexed, log_end, most_bytes, tags, after=complete)
        if keyed is not None:
            return IndexDamage(believed, _missing(keyed))
    return None


def places_proven(config: MessageStoreConfig) -> bool:
    """True if records must name their own offsets; otherwise stale records are accepted, and entries may name any."""
    return config.check_commit_log_offset_on_recover


def _missing(keyed: int) -> str:
    return f"index: no file covers the keys of the message at {keyed}"


def _size_sign(
    files: Sequence[IndexFile], number: int, config: MessageStoreConfig, *, sure: bool
) -> str | None:
    """Return the fault of a file whose size is not the configured one; None if an older ``max_index_num`` explains it.

    Damage made a file that has the configured number of entries and room for more. Damage also made the last file, if
    no other file has its size and it follows a file of the configured size, or if `sure` is set.
    """
    file, most = files[number], config.max_index_num
    usual = index_file_size(config.max_hash_slot_num, most)
    if file.file_size == usual or file.found.index_count > most:
        return None
    sizes = [other.file_size for other in files]
    last = number == len(files) - 1 and sizes.count(file.file_size) == 1
    alone = last and (sure or usual in sizes[-2:])
    same_slots = file.native.slot_count == config.max_hash_slot_num
    grew = same_slots and file.found.index_count == most < file.native.capacity
    if alone or grew:
        return f"file size is {file.file_size}, expected {usual}"
    return None


def _header_sign(file: IndexFile, end_before: int | None) -> str | None:
    """Return the fault of a header, or None; `end_before` is the end of the files before, None for the first one."""
    header, capacity = file.found, file.native.capacity
    if not 0 <= header.index_count <= capacity:
        return f"indexCount is {header.index_count}, expected at most {capacity}"
    if not 0 <= header.hash_slot_count <= max(header.index_count - 1, 0):
        return f"hashSlotCount is {header.hash_slot_count} with {header.index_count - 1} entries"
    begin, end = header.begin_phy_offset, header.end_phy_offset
    if not 0 <= begin <= end:
        return f"beginPhyOffset is {begin}, endPhyOffset {end}"
    if header.index_count <= 1:
        # A new file's header holds the end of the file before, until its first entry.
        return (
            None
            if begin == end and end_before in (None, end)
            else f"has no entries, but ends at {end}"
        )
    if end_before is not None and begin < end_before:
        return f"beginPhyOffset is {begin}, the file before ends at {end_before}"
    return None


def _end_sign(file: IndexFile, log: LogLook, *, proven: bool) -> str | None:
    """Return the fault of a file's first or last entry by its header and by the log; None if both are sound."""
    header = file.found
    ends = (
        ("first", 1, header.begin_phy_offset, header.begin_timestamp_ms),
        ("last", header.index_count - 1, header.end_phy_offset, header.end_timestamp_ms),
    )
    with opened(file.path, os.O_RDONLY) as fd:
        for which, index, phy_offset, store_timestamp_ms in ends:
            pos = index_file_size(file.native.slot_count, index) + INDEX_ENTRY_PHYOFFSET
            found = int.from_bytes(os.pread(fd, 8, pos), "big", signed=True)
            if found != phy_offset:
                return f"the {which} entry has phyOffset {found}, the header {phy_offset}"
            if phy_offset < log.min_offset or not proven:
                continue
            view = log.view_at(phy_offset)
            if view is None:
                return f"no record starts at the {which} entry's phyOffset {phy_offset}"
            if view.store_timestamp_ms != store_timestamp_ms:
                return (
                    f"the header has the time {store_timestamp_ms} for the {which} message, which was stored at "
                    f"{view.store_timestamp_ms}"
                )
    return None


# ---- between files ----------------------------------------------------------------------------------


class NoQueues:
    """Replaces the queues of a dispatcher that feeds only another sink."""

    def put_batch(
        self, scan: ColumnScan, batch: Batch, from_phy_offset: int, covered_from: int
    ) -> None:
        """Accept nothing."""

    def put_entry(self, *entry: Any) -> None:
        """Accept nothing."""


class TagEvidence:
    """Finds out whether index files contain tags, which RocketMQ before 5.4 left out.

    Parameters
    ----------
    files : sequence of IndexFile
        Oldest first. The newest file with a message that has a tag decides.
    log : LogLook
    """

    def __init__(self, files: Sequence[IndexFile], log: LogLook) -> None:
        self._files = files
        self._log = log
        self._indexed: bool | None = None

    def indexed(self) -> bool:
        """Return True if index files contain tags, or no message has one. The files are read at the first call."""
        if self._indexed is None:
            found = (self._of_file(file) for file in reversed(self._files))
            self._indexed = next((each for each in found if each is not None), True)
        return self._indexed

    def _of_file(self, file: IndexFile) -> bool | None:
        stop = file.found.index_count
        for _, entries in read_entries(
            file.path, file.native.slot_count, max(1, stop - TAG_ENTRIES), stop
        ):
            # Other keys of a full file's last message may be in the next file, its tag with them.
            full = stop >= file.native.capacity
            places = np.unique(entries["phy_offset"])[: -1 if full else None]
            for phy_offset in reversed(places.tolist()):
                view = self._log.view_at(phy_offset)
                if view is not None and view.tags is not None:
                    held = entries["key_hash"][entries["phy_offset"] == phy_offset]
                    return index_key_hash(view.topic, f"T#{view.tags}") in held.tolist()
        return None


class _FirstKey:
    """Notes the first message behind an offset with a key that an index has."""

    def __init__(self, log: LogLook, tags: TagEvidence, after: int) -> None:
        self.log = log
        self.tags = tags
        self.after = after
        self.found: int | None = None

    def put_batch(self, scan: ColumnScan, batch: Batch, from_phy_offset: int) -> None:  # noqa: ARG002
        if self.found is not None:
            return
        phy_offset = np.frombuffer(batch.buffer("phy_offset"), np.int64)
        tags_code = np.frombuffer(batch.buffer("tags_code"), np.int64)
        keys = np.diff(np.frombuffer(batch.buffer("key_hashes", "offsets"), np.int32))
        rows = np.flatnonzero(
            (keys > 0) & (phy_offset > self.after) & (phy_offset >= from_phy_offset)
        )
        for row in rows:
            at = int(phy_offset[row])
            perhaps_tag = keys[row] == 1 and tags_code[row] != 0
            if not (perhaps_tag and not self.tags.indexed() and self._has_tag(at)):
                self.found = at
                return

    def _has_tag(self, phy_offset: int) -> bool:
        """Return True if a message has a tag; its tags code does not show that if it is a deliver time."""
        view = self.log.view_at(phy_offset)
        return view is not None and view.tags is not None


def find_keyed(
    log: LogLook,
    config: MessageStoreConfig,
    begin: int,
    end: int,
    most_bytes: int,
    tags: TagEvidence,
    *,
    after: int,
) -> int | None:
    """Find the first message with a key in [begin, end) whose offset is above `after`; read about `most_bytes`.

    `begin` is the start of a record. A tag counts as a key where `tags` finds tags in the index.
    """
    if begin >= end or not places_proven(config):
        return None
    view = log.view_at(begin) if begin <= after else None
    if view is not None and begin + view.msg_size >= end:
        return None  # the usual case: no message lies between the two
    first = _FirstKey(log, tags, after)
    feed = Dispatcher(log, NoQueues(), first, config)
    feed.cq_from, feed.index_from = MAX_OFFSET, begin
    last = min(end, begin + most_bytes)
    while first.found is None and feed.index_from < last:
        if not feed.dispatch_once(min(last, feed.index_from + LOOK_BYTES)):
            break
    return None if first.found is None or first.found >= end else first.found
