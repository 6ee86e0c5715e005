"""The log's part of a check: one pass over the CommitLog in batches of columns.

All other checks use these batches, so the log is read once. Nothing here grows with the number of
records.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from rmqcore._native.format import codec
from rmqcore._native.format.codec import DelayLevels, MessageView, topic_bytes
from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.places import Gaps
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.disk.paths import StorePaths
from rmqcore.errors import CorruptMessageError, is_unreadable
from rmqcore.offline.fsck.findings import ERROR, Findings
from rmqcore.offline.fsck.log_batch import (
    BATCH_BYTES,
    BATCH_ROWS,
    COLUMNS,
    TOPIC_ROOM,
    LogBatch,
    as_log_batch,
)
from rmqcore.offline.fsck.log_damage import DRAIN_AT, DamageAudit
from rmqcore.offline.fsck.prop_crc import PropCrcAudit
from rmqcore.offline.fsck.property_area import check_property_areas
from rmqcore.offline.log.damage import DamageList
from rmqcore.offline.log.log_files import LogFile, list_log_files
from rmqcore.offline.log.long_record import MOST_WHOLE, LongRecords
from rmqcore.offline.log.walk import Blank, LogWalk, Progress
from rmqcore.offline.log.watched_scan import WatchedScan
from rmqcore.offline.log.window import record_at
from rmqcore.offline.missing_log import closed_at

QUICK_SIZE = 1 << 16
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class LogAudit:
    """The pass over the log, and lookups in it.

    Parameters
    ----------
    paths : StorePaths
    findings : Findings
    levels : DelayLevels or None
    key_hashes : bool
        Also compute the hashes of index keys.
    progress : callable, optional
        As for `LogWalk`, of the first pass.

    Attributes
    ----------
    files : list of LogFile
    log_min, log_end : int
        CommitLog offsets of the log's first byte and behind its last sound record so far.
    records, record_bytes : int
        Sound records and their bytes; records that only fail a CRC are among them.
    newest_ms : int
        The greatest store timestamp.
    end_unreadable : bool
        The newest file cannot be read: `log_end` is that file's end.
    damage : DamageAudit
    """

    def __init__(
        self,
        paths: StorePaths,
        findings: Findings,
        levels: DelayLevels | None,
        *,
        key_hashes: bool,
        progress: Progress | None = None,
    ) -> None:
        self.files: list[LogFile] = []
        self.records = self.record_bytes = 0
        self.newest_ms = 0
        self.end_unreadable = False
        self.damage = DamageAudit(findings, partial(closed_at, paths))
        self._paths = paths
        self._findings = findings
        self._levels = levels
        self._progress = progress
        self._scan = self._new_scan((*COLUMNS, "key_hashes") if key_hashes else COLUMNS)
        self._prop_crc = PropCrcAudit(findings, self.file_name)
        self._sink = WatchedScan(self._scan, self._watch)
        self._walked = False
        self._known_topics = self._numbering = 0
        self._file_names: dict[int, str] = {}
        self._list_files()
        self.log_min = self.log_end = self.files[0].file_from_offset if self.files else 0

    def _new_scan(self, columns: tuple[str, ...], stop_offset: int | None = None) -> ColumnScan:
        return ColumnScan(
            columns,
            delay_levels=self._levels,
            stop_offset=stop_offset,
            batch_rows=BATCH_ROWS,
            batch_bytes=BATCH_BYTES,
            topic_room=TOPIC_ROOM,
        )

    def _list_files(self) -> None:
        self.files = list_log_files(self._paths)
        self._file_names.update((file.file_from_offset, file.name) for file in self.files)
        self._file_starts = sorted(self._file_names)

    @property
    def prop_crcs(self) -> int:
        """Records whose property CRC was checked."""
        return self._prop_crc.checked

    def _watch(self, buf: Any, begin: int, end: int, phy_offset: int, gaps: Gaps | None) -> None:
        """Look at a window's records while their bytes are in the cache, and keep the walk's list of damage short."""
        if len(self.damage.fresh) > DRAIN_AT:
            self.damage.drain()
        if 0 < end - begin <= MOST_WHOLE:  # the body of a longer record is not all here
            self._prop_crc.check(buf, begin, end, phy_offset, gaps)

    # ---- the pass -----------------------------------------------------------------------------------

    def batches(self) -> Iterator[LogBatch]:
        """Walk to the log's end as it is now; a second call goes on with what was written meanwhile.

        A batch's arrays lie in memory that is used again: do not keep them.
        """
        again, self._walked = self._walked, True
        if again:
            self._list_files()
            self.damage.walk_again()
        walk: LogWalk[Batch] = LogWalk(
            self.files,
            self._sink,
            self.damage.fresh,
            start=self.log_end if again else None,
            aligned_start=again,
            long_records=LongRecords(),
            progress=None if again else self._progress,
            unreadable_files=True,
        )
        for found in walk.run():
            if isinstance(found, Blank) or not found.num_rows:
                continue
            self.damage.drain()
            batch = as_log_batch(found, self._scan)
            self.damage.count_before(batch, self.records)
            self.records += len(batch)
            self.record_bytes += int(batch.msg_size.sum(dtype=np.int64))
            self.newest_ms = max(self.newest_ms, int(batch.store_timestamp_ms.max()))
            self.log_end = batch.end_phy_offset
            self._check_topics(batch)
            check_property_areas(batch, self._findings, self.record, self.file_name)
            yield batch
        self.damage.drain()
        last = self.damage.ranges[-1] if self.damage.ranges else None
        if last is not None and last.kind == "unreadable" and last.end_phy_offset > self.log_end:
            # Where the log ends lies in what cannot be read: nothing is said to point behind it.
            self.log_end, self.end_unreadable = last.end_phy_offset, True

    def batches_again(self) -> Iterator[LogBatch]:
        """The records of all passes once more, with which nothing else is done."""
        scan = self._new_scan(COLUMNS, self.log_end)
        walk = LogWalk(
            self.files,
            scan,
            DamageList(most=0),
            stop=self.log_end,
            long_records=LongRecords(),
            unreadable_files=True,
        )
        for found in walk.run():
            if not isinstance(found, Blank) and found.num_rows:
                yield as_log_batch(found, scan)

    def settle(self) -> None:
        """Note the damage that waited for the end of the log."""
        first = list_log_files(self._paths)[:1]
        self.log_min = max([self.log_min, *(file.file_from_offset for file in first)])
        self.damage.settle(self.log_min)

    def _check_topics(self, batch: LogBatch) -> None:
        if batch.numbering != self._numbering:
            self._numbering, self._known_topics = batch.numbering, 0
        for topic_id in range(self._known_topics, len(batch.topics)):
            if REPLACEMENT not in batch.topics[topic_id]:
                continue
            rows = np.flatnonzero(batch.topic_id == topic_id)
            view = self.record(int(batch.phy_offset[rows[0]])) if len(rows) else None
            if view is not None and not _is_utf8(topic_bytes(view)):
                self._findings.add(
                    "topic_utf8",
                    ERROR,
                    self.file_name(view.phy_offset),
                    f"the topic is not UTF-8: {topic_bytes(view)!r}; Java reads it as {view.topic!r}",
                    phy_offset=view.phy_offset,
                    field="TOPIC",
                    expected="UTF-8",
                    found=topic_bytes(view).hex(),
                )
        self._known_topics = len(batch.topics)

    # ---- places -------------------------------------------------------------------------------------

    def file_name(self, phy_offset: int) -> str:
        """The file that holds a CommitLog offset, as findings name it."""
        at = bisect_right(self._file_starts, phy_offset) - 1
        return "commitlog" if at < 0 else self._file_names[self._file_starts[at]]

    def file_of(self, phy_offset: int) -> LogFile | None:
        """The file in which a CommitLog offset lies; None when no file holds it."""
        at = bisect_right(self.files, phy_offset, key=lambda file: file.file_from_offset) - 1
        return self.files[at] if at >= 0 and phy_offset < self.files[at].end_offset else None

    def has_expired(self, phy_offset: int) -> bool:
        """Return True if the file of a CommitLog offset was deleted while the store was checked."""
        file = self.file_of(phy_offset)
        return file is not None and not file.exists()

    def record(
        self, phy_offset: int, size: int = 0, *, most_whole: int = QUICK_SIZE
    ) -> MessageView | None:
        """The well-formed record that starts at a CommitLog offset, or None; quick when `size` is its size.

        The body of one above `most_whole` bytes reads as zeros: thousands of entries may point to a record of 30 MiB.
        """
        try:
            return self._record(phy_offset, size, most_whole)
        except OSError as error:
            if not is_unreadable(error):
                raise
            return None  # the walk has noted the file

    def record_of_any_place(self, phy_offset: int, end_phy_offset: int) -> MessageView | None:
        """The well-formed record that starts at an offset and ends before another, whatever its PHYSICALOFFSET says, or None.

        A record above `MOST_WHOLE` bytes is not read: a damaged length may span a whole file.
        """
        file = self.file_of(phy_offset)
        if file is None:
            return None
        pos = phy_offset - file.file_from_offset
        try:
            size = int.from_bytes(file.read_range(pos, 4), "big")
            room = min(end_phy_offset, file.end_offset) - phy_offset
            if not 0 < size <= min(room, MOST_WHOLE):
                return None
            view: MessageView = codec.decode_with_levels(
                file.read_range(pos, size), 0, self._levels
            )
        except CorruptMessageError:
            return None
        except OSError as error:
            if not is_unreadable(error):
                raise
            return None
        return view

    def _record(self, phy_offset: int, size: int, most_whole: int) -> MessageView | None:
        file = self.file_of(phy_offset)
        if file is not None and 0 < size <= QUICK_SIZE:
            data = file.read_range(phy_offset - file.file_from_offset, size)
            view: MessageView | None
            try:
                view = codec.decode_with_levels(data, 0, self._levels)
            except CorruptMessageError:
                view = None  # the size may be wrong, or the record
            if view is not None and view.msg_size == len(data) and view.phy_offset == phy_offset:
                return view
        return record_at(self.files, phy_offset, self._levels, most_whole=most_whole)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
