"""The scan of a recovery: records in order from a file's start to the first place that is none.

Source: RocketMQ 5.5.0 CommitLog#recoverNormally, #recoverAbnormally, #checkMessageAndReturnSize.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rmqcore._native import scan
from rmqcore._native.codec import describe
from rmqcore._native.mapped_file import MappedFile
from rmqcore._native.scan import Batch, ColumnScan
from rmqcore.config import MessageStoreConfig
from rmqcore.engine.log_window import LogWindow

Progress = Callable[[int, int], object]
BLANK_MAGIC = 0xCBD43194.to_bytes(4, "big")
HEADER = 8
BATCH_ROWS = 65536

NOTHING_MORE, BLANK_LAST, BAD_RECORD = "nothing more", "blank", "record"
"""Why a scan ends: nothing was written there; a BLANK ends the last file; what is there is no sound record."""


@dataclass(frozen=True, slots=True)
class ScanStop:
    """Where a scan ended and why.

    Attributes
    ----------
    reason : str
        ``nothing more``, ``blank`` (a BLANK ends the last file) or ``record`` (no sound record).
    field, expected, found : object
        What is wrong with the record there.
    """

    path: str
    phy_offset: int
    reason: str
    field: str = ""
    expected: object = None
    found: object = None

    def as_dict(self) -> dict[str, Any]:
        """The attributes by name."""
        return asdict(self)

    def __str__(self) -> str:
        if self.reason == NOTHING_MORE:
            return "nothing was written behind it"
        if self.reason == BLANK_LAST:
            return "the last file is full"
        return f"{self.field} is {self.found}, expected {self.expected}"


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What a scan went over.

    Attributes
    ----------
    start_phy_offset, end_phy_offset : int
        From the first file's start to behind the last sound record (before a BLANK that ends the last file).
    last_phy_offset, last_store_timestamp_ms : int
        Start and store time of the last record; -1 without any.
    records, record_bytes : int
    """

    start_phy_offset: int
    end_phy_offset: int
    last_phy_offset: int
    last_store_timestamp_ms: int
    records: int
    record_bytes: int
    stop: ScanStop


class RecoveryScan:
    """One scan with the checks that the configuration asks for.

    Parameters
    ----------
    files : sequence of MappedFile
        Ascending; their bytes are read, not mapped.
    file_size : int
    config : MessageStoreConfig
        ``check_crc_on_recover``, ``force_verify_prop_crc``, ``check_commit_log_offset_on_recover``.
    columns : iterable of str
        Of the batches; ``msg_size`` and ``store_timestamp_ms`` among them.
    on_batch : callable
        Told each batch, and the CommitLog offset where its first record lies; the others follow without a gap.
    progress : callable, optional
        Called with (bytes done, bytes at most).

    Notes
    -----
    A BLANK ends its file whatever its size says, as in Java, as long as that does not go past the file.
    """

    def __init__(
        self,
        files: Sequence[MappedFile],
        file_size: int,
        config: MessageStoreConfig,
        columns: Sequence[str],
        on_batch: Callable[[Batch, int], object],
        progress: Progress | None = None,
    ) -> None:
        self._files = files
        self._file_size = file_size
        self._check_place = config.check_commit_log_offset_on_recover
        self._check_prop_crc = config.check_crc_on_recover and config.force_verify_prop_crc
        self._check_crc = config.check_crc_on_recover and not config.force_verify_prop_crc
        self._scan = ColumnScan(columns, batch_rows=BATCH_ROWS, batch_bytes=64 << 20)
        self._on_batch = on_batch
        self._progress = progress
        self._last_phy_offset = self._last_store_timestamp_ms = -1
        self._records = self._record_bytes = 0

    def run(self, first: int) -> ScanResult:
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
        return ScanResult(
            start,
            stop.phy_offset,
            self._last_phy_offset,
            self._last_store_timestamp_ms,
            self._records,
            self._record_bytes,
            stop,
        )

    def _scan_file(self, file: MappedFile, *, last: bool) -> ScanStop:
        """Scan one file; the answer has no reason when the next file goes on."""
        with LogWindow(file.path, self._file_size) as window:
            pos = batch_pos = 0
            while True:
                window.cover(pos)
                begin = pos
                pos, code, found, expected = self._feed(file, window, pos)
                if code == scan.END or (
                    code == scan.SHORT and self._goes_on(window, begin, pos, expected)
                ):
                    continue
                end = file.file_from_offset + pos
                self._take(file.file_from_offset + batch_pos, end)
                batch_pos = pos
                if code == scan.FULL:
                    continue
                if code == scan.BLANK or self._is_blank(window, pos):
                    return ScanStop(file.path, end, BLANK_LAST if last else "")
                if code == scan.ZERO:
                    return ScanStop(file.path, end, NOTHING_MORE)
                if code == scan.SHORT:  # a large record whose two ends do not fit together
                    wrong: tuple[str, object, object] = (
                        "TOTALSIZE",
                        "the sum of its lengths",
                        expected,
                    )
                else:
                    wrong = describe(code, found, expected)
                return ScanStop(file.path, end, BAD_RECORD, *wrong)

    def _feed(self, file: MappedFile, window: LogWindow, pos: int) -> tuple[int, int, int, int]:
        """Scan the window from `pos` on; positions in the file."""
        length = window.length
        bad: tuple[int, int, int] | None = None
        if self._check_prop_crc:
            _, _, first = scan.prop_crc_failures(
                window.buf, pos - window.start, length, 1, required=True
            )
            if first:
                bad = first[0]
                length = bad[0]
        at, code, found, expected = self._scan.feed(
            window.buf,
            length,
            pos - window.start,
            file.file_from_offset + window.start,
            file.file_from_offset + self._file_size,
            check_place=self._check_place,
            check_crc=self._check_crc,
        )
        if bad is not None and code == scan.END and at == length:
            code, expected, found = scan.PROPCRC, bad[1], bad[2]
        return window.start + at, code, found, expected

    @staticmethod
    def _goes_on(window: LogWindow, begin: int, pos: int, size: int) -> bool:
        """Whether the record at `pos` only needs a window that is further on, or larger."""
        return pos > begin or window.holds(pos, size)

    def _is_blank(self, window: LogWindow, pos: int) -> bool:
        """Whether a BLANK of an unexpected size lies here."""
        at = pos - window.start
        header = bytes(window.buf[at : min(at + HEADER, window.length)])
        if len(header) < HEADER or header[4:] != BLANK_MAGIC:
            return False
        return int.from_bytes(header[:4], "big", signed=True) <= self._file_size - pos

    def _take(self, begin: int, end: int) -> None:
        """Hand on what was gathered: the records of [begin, end)."""
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
        self._on_batch(batch, begin)
