"""The scan of a recovery: records in order from a file's start to the end of the log.

A place without a sound record ends the log, with two exceptions, which are passed over: records whose only fault is in
a field that Java's recovery does not check (`misplaced.py`), and damage in files before Java's first file.

Source: RocketMQ 5.5.0 CommitLog#recoverNormally, #recoverAbnormally, #checkMessageAndReturnSize.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rmqcore._native.files.mapped_file import MappedFile
from rmqcore._native.scan import places, scan
from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.places import Place
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.log_window import LogWindow, WholeFile
from rmqcore.engine.recovery.file_scan import PassedOver
from rmqcore.engine.recovery.misplaced import Misplaced
from rmqcore.engine.recovery.unread_records import UnreadCount, UnreadRecords

Progress = Callable[[int, int], object]
BATCH_BYTES = 64 << 20
COUNTED = "msg_size", "store_timestamp_ms"
LEAST_ROWS, MOST_ROWS, ROWS_A_QUEUE = 8192, 65536, 64
WINDOW = 512 * 1024
"""Bytes of a window: with a batch of few rows it stays in a core's cache until the batch is compared."""

NOTHING_MORE, BLANK_LAST, BAD_RECORD, CALLER = "nothing more", "blank", "record", "caller"
"""Reasons for the end of a scan: only zeros follow; a BLANK ends the last file; the bytes are not a sound record; the
caller of the open ends the log there."""


@dataclass(frozen=True, slots=True)
class ScanStop:
    """End of a scan, and its reason.

    Attributes
    ----------
    reason : str
        ``nothing more``, ``blank`` (a BLANK ends the last file), ``record`` (no sound record) or ``caller`` (`ends_at`
        of a `RecoverMode`).
    field, expected, found : object
        Fault of the record there.
    """

    path: str
    phy_offset: int
    reason: str
    field: str = ""
    expected: object = None
    found: object = None

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes by name."""
        return asdict(self)

    def __str__(self) -> str:
        if self.reason == NOTHING_MORE:
            return "nothing was written behind it"
        if self.reason == BLANK_LAST:
            return "the last file is full"
        if self.reason == CALLER:
            return "the end that was requested"
        return f"{self.field} is {self.found}, expected {self.expected}"


@dataclass(frozen=True, slots=True)
class ScannedLog:
    """Result of a scan.

    Attributes
    ----------
    start_phy_offset, end_phy_offset : int
        Start of the first file, and end of the last sound record (before a BLANK that ends the last file).
    last_phy_offset, last_store_timestamp_ms : int
        Start and store time of the last record; -1 without records.
    records, record_bytes : int
    unread : UnreadRecords or None
        Records that the release of ``for_version`` cannot read; None if it can read all of them.
    """

    start_phy_offset: int
    end_phy_offset: int
    last_phy_offset: int
    last_store_timestamp_ms: int
    records: int
    record_bytes: int
    stop: ScanStop
    unread: UnreadRecords | None = None


def batch_rows(queue_count: int) -> int:
    """Return the number of records to compare in one batch: each queue that a batch touches costs a read."""
    return max(LEAST_ROWS, min(MOST_ROWS, ROWS_A_QUEUE * queue_count))


class RecoveryScan:
    """One scan with the configured checks.

    Parameters
    ----------
    files : sequence of MappedFile
        Ascending; their bytes are read, not mapped.
    file_size : int
    config : MessageStoreConfig
        ``check_crc_on_recover``, ``force_verify_prop_crc``, ``check_commit_log_offset_on_recover``.
    rows : ColumnScan
        Fills the batches, with the columns `COUNTED` and those that `UnreadCount` wants among others. If it has a stop
        offset, the log ends there.
    on_batch : callable
        Called with the scan, each batch, and the CommitLog offset of its first record; the other records follow without
        a gap.
    watch : callable, optional
        Called with ``(buf, begin, end)`` before the records of ``buf[begin:end]`` are in a batch.
    progress : callable, optional
        Called with (bytes done, bytes at most).
    batches_from : int
        Records that start before this CommitLog offset are only checked and counted: for `on_batch` and `watch` the
        scan starts behind them. Reading all of their columns would cost four times as much.
    passed_over : callable, optional
        Called with each `PassedOver`, before the records behind it are in a batch.
    known_to : int
        CommitLog offset up to which queues have messages: bytes before it are not the stale rest of an earlier log.
    ends_from : int
        CommitLog offset, the start of a file, at or behind which the log ends. Damage before it is passed over.

    Notes
    -----
    A BLANK ends its file for any size in it, as in Java, unless that size reaches past the file.
    """

    def __init__(
        self,
        files: Sequence[MappedFile],
        file_size: int,
        config: MessageStoreConfig,
        rows: ColumnScan,
        on_batch: Callable[[ColumnScan, Batch, int], object],
        progress: Progress | None = None,
        *,
        watch: Callable[[Any, int, int], object] | None = None,
        batches_from: int = 0,
        passed_over: Callable[[PassedOver], object] = lambda _: None,
        known_to: int = -1,
        ends_from: int = 0,
    ) -> None:
        self._files = files
        self._file_size = file_size
        self._check_place = config.check_commit_log_offset_on_recover
        self._check_prop_crc = config.check_crc_on_recover and config.force_verify_prop_crc
        self._check_crc = config.check_crc_on_recover and not config.force_verify_prop_crc
        self._rows = rows
        self._unread = UnreadCount(config.for_version)
        self._scan = ColumnScan(
            (*COUNTED, *self._unread.wanted), stop_offset=batches_from, batch_rows=MOST_ROWS
        )
        self._watch = watch
        self._on_batch = on_batch
        self._progress = progress
        self._passed_over = passed_over
        self._ends_from = ends_from
        self._misplaced = Misplaced(config, known_to)
        self._last_phy_offset = self._last_store_timestamp_ms = -1
        self._records = self._record_bytes = 0

    def run(self, first: int) -> ScannedLog:
        """Scan from the start of ``files[first]`` on."""
        start = self._files[first].file_from_offset
        stop = ScanStop("", start, NOTHING_MORE)
        for number, file in enumerate(self._files[first:], first):
            stop = self._scan_file(file, last=number + 1 == len(self._files))
            if self._progress is not None:
                done = (number + 1 - first) * self._file_size
                self._progress(done, (len(self._files) - first) * self._file_size)
            if stop.reason:
                break
        return ScannedLog(
            start,
            stop.phy_offset,
            self._last_phy_offset,
            self._last_store_timestamp_ms,
            self._records,
            self._record_bytes,
            stop,
            self._unread.found,
        )

    def _scan_file(self, file: MappedFile, *, last: bool) -> ScanStop:
        """Scan one file; the returned reason is empty if the log continues in the next file."""
        with WholeFile(file.path, self._file_size) as source:
            window = source.window(
                file.file_from_offset, room=WINDOW, check_place=self._check_place
            )
            pos = batch_pos = 0
            while True:
                place = window.feed(self._feed, pos)
                pos = place.pos
                if place.code == scan.END:
                    continue
                end = file.file_from_offset + pos
                self._take(file.file_from_offset + batch_pos, end)
                batch_pos = pos
                if place.code == scan.STOP:
                    if self._scan is self._rows:
                        return ScanStop(file.path, end, CALLER)
                    self._scan = self._rows
                    continue
                if place.code == scan.FULL:
                    continue
                if place.is_blank and not _goes_past_file(place):
                    return ScanStop(file.path, end, BLANK_LAST if last else "")
                behind = self._behind(source, window, file.file_from_offset, place)
                if behind is not None:
                    start = file.file_from_offset
                    self._passed_over(PassedOver(end, start + behind, *place.describe()))
                    if behind == self._file_size:
                        return ScanStop(file.path, start + behind, "")
                    pos = batch_pos = behind
                    continue
                if place.code == places.ZERO:
                    return ScanStop(file.path, end, NOTHING_MORE)
                return ScanStop(file.path, end, BAD_RECORD, *place.describe())

    def _behind(
        self, source: WholeFile, window: LogWindow, file_from_offset: int, place: Place
    ) -> int | None:
        """Return the position at which the scan continues behind a place without a sound record; None: the log ends."""
        if file_from_offset >= self._ends_from:
            return self._misplaced.end_of_run(source, file_from_offset, place)
        found, _ = window.next_proven(place.pos, after_zeros=place.code == places.ZERO)
        return self._file_size if found is None else found

    def _feed(self, buf: Any, length: int, pos: int, phy_offset: int, end_offset: int) -> Place:
        """Scan a window from `pos` on with the configured checks."""
        bad: tuple[int, int, int] | None = None
        if self._check_prop_crc:
            _, _, first = places.prop_crc_failures(buf, pos, length, 1, required=True)
            if first:
                bad = first[0]
                length = bad[0]
        place = self._scan.feed(
            buf,
            length,
            pos,
            phy_offset,
            end_offset,
            check_place=self._check_place,
            check_crc=self._check_crc,
        )
        if self._watch is not None and self._scan is self._rows:
            self._watch(buf, pos, place.pos)
        if bad is not None and place.code == scan.END and place.pos == length:
            return Place(length, places.PROPCRC, found=bad[2], expected=bad[1])
        return place

    def _take(self, begin: int, end: int) -> None:
        """Call `on_batch` with the gathered records of [begin, end)."""
        rows = self._scan.pending_rows
        if rows == 0:
            return
        batch = self._scan.take()
        sizes = np.frombuffer(batch.buffer("msg_size"), np.int32)
        times = np.frombuffer(batch.buffer("store_timestamp_ms"), np.int64)
        self._records += rows
        self._record_bytes += end - begin
        self._last_phy_offset = end - int(sizes[-1])
        self._last_store_timestamp_ms = int(times[-1])
        self._unread.add(batch)
        if self._scan is self._rows:
            self._on_batch(self._scan, batch, begin)


def _goes_past_file(blank: Place) -> bool:
    """Return True if a BLANK's size exceeds the rest of its file."""
    return blank.code == places.BLANKSIZE and blank.found > blank.expected
