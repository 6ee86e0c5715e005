"""Dispatch: records of the CommitLog into consume queues and index.

Source: RocketMQ 5.5.0 DefaultMessageStore.ReputMessageService#doReput, CommitLogDispatcherBuildConsumeQueue,
CommitLogDispatcherBuildIndex.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rmqcore._native import scan
from rmqcore._native.codec import DelayLevels, describe
from rmqcore._native.scan import Batch, ColumnScan
from rmqcore.config import MessageStoreConfig
from rmqcore.engine.multi_dispatch import EntrySink, MultiDispatch
from rmqcore.engine.paths import file_name
from rmqcore.errors import CorruptMessageError

QUEUE_COLUMNS = (
    "phy_offset",
    "msg_size",
    "queue_id",
    "queue_offset",
    "sys_flag",
    "store_timestamp_ms",
    "tags_code",
    "topic_id",
)
INDEX_COLUMNS = ("key_hashes",)
BLANK_MAGIC = 0xCBD43194.to_bytes(4, "big")
HEADER = 8

NEAR_ROWS, NEAR_BYTES = 8192, 2 << 20
FAR_ROWS, FAR_BYTES = 262_144, 64 << 20
"""A batch costs one write for each queue that it touches: who is far behind takes large ones, who is not keeps memory small."""

FAR_BEHIND, NEAR_AGAIN = 16 << 20, 1 << 20
"""Bytes behind at which the batches become large, and small again."""


class DispatchLog(Protocol):
    """What dispatch needs of a CommitLog."""

    delay_levels: DelayLevels

    @property
    def min_offset(self) -> int:
        """Start of the first file."""

    @property
    def max_offset(self) -> int:
        """End of the last record."""

    def file_starts(self) -> list[int]:
        """Offsets at which the files begin."""

    def window(self, phy_offset: int) -> tuple[memoryview, int, int] | None:
        """Bytes of the file that holds an offset, where it begins and where it ends."""


class BatchSink(Protocol):
    """What takes batches: the index."""

    def put_batch(self, scan: ColumnScan, batch: Batch, from_phy_offset: int) -> None:
        """Take the rows at `from_phy_offset` and behind it."""


class QueueSink(BatchSink, EntrySink, Protocol):
    """What takes batches and single entries: ConsumeQueues."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """Bytes [start, end) of the CommitLog that hold no sound record, over which the indexing of old messages went on."""

    start_phy_offset: int
    end_phy_offset: int
    field: str
    expected: object
    found: object


class Dispatcher:
    """Gives records to queues and index, in order, each once.

    Parameters
    ----------
    commitlog : CommitLog
    queues : ConsumeQueues
    index : IndexService, optional
        None while a recovery brings the queues up to date.
    config : MessageStoreConfig

    Attributes
    ----------
    cq_from, index_from : int
        Records below are in the queues, in the index. The lower one must be the start of a record. After a crash the index may be
        far behind the queues.
    last_phy_offset, last_store_timestamp_ms : int
        Of the last record given to the queues; -1 before the first one.
    skipped : list of Skipped

    Raises
    ------
    CorruptMessageError
        From `dispatch_once`: there is no sound record where one must be. Never passed over in silence: records that only the
        index lacks are old ones, which recovery did not check; there the place goes to `skipped` and the next record that proves
        itself is taken.
    OSError
        A queue or index could not be written. The same records are given again by the next call; both ignore what they have.

    Notes
    -----
    One thread at a time.
    """

    def __init__(
        self,
        commitlog: DispatchLog,
        queues: QueueSink,
        index: BatchSink | None,
        config: MessageStoreConfig,
    ) -> None:
        self.cq_from = 0
        self.index_from = 0
        self.last_phy_offset = -1
        self.last_store_timestamp_ms = -1
        self.skipped: list[Skipped] = []
        self._commitlog = commitlog
        self._queues = queues
        self._index = index
        # A recovery that was told to accept a stale record has it in the log.
        self._check_place = config.check_commit_log_offset_on_recover
        self._multi = MultiDispatch(queues, config, commitlog.delay_levels)
        self._far = False
        self._scan = self._make_scan()

    @property
    def reput_from_offset(self) -> int:
        """Below this everything is dispatched."""
        return self.cq_from if self._index is None else min(self.cq_from, self.index_from)

    def dispatch_once(self, end_offset: int, max_bytes: int = 16 << 20) -> int:
        """Dispatch about `max_bytes` of records below `end_offset`, which is the end of a record.

        Returns
        -------
        int
            Bytes by which `reput_from_offset` moved; 0 when there is nothing to do.
        """
        begin = self.reput_from_offset
        first = self._commitlog.min_offset
        if begin < first <= end_offset:
            self._advance(first)  # the files were deleted before they were dispatched
        self._choose_scan(end_offset - self.reput_from_offset)
        last = self.reput_from_offset + max_bytes
        while self.reput_from_offset < min(last, end_offset):
            if not self._dispatch_file(end_offset, last):
                break
        return self.reput_from_offset - begin

    # ---- one file -----------------------------------------------------------------------------------

    def _dispatch_file(self, end_offset: int, last: int) -> bool:
        """Go on in the file at hand; False when there is nothing more to be had now."""
        at = self.reput_from_offset
        found = self._commitlog.window(at)
        if found is None:
            return self._next_file(at, end_offset)
        buf, start, file_end = found
        length = min(end_offset, file_end) - start
        while at < last:
            pos, code, wrong, expected = self._scan.feed(
                buf,
                length,
                at - start,
                start,
                file_end,
                check_place=self._check_place,
                check_crc=False,
            )
            if self._scan.pending_rows:
                self._put(buf, start, at - start, pos)
            at = start + pos
            self._advance(at)
            if code == scan.FULL:
                continue
            if code == scan.END:
                return True
            if code == scan.BLANK or _is_blank(buf, pos, length):
                return self._next_file(file_end, end_offset)
            if code == scan.SHORT and at + expected <= self._commitlog.max_offset:
                return False  # the end that was asked for lies inside this record
            error = CorruptMessageError(
                f"commitlog/{file_name(start)}", at, *_describe(code, wrong, expected)
            )
            if at >= self.cq_from:
                raise error
            self._skip(buf, length, pos, start, file_end, error)
            at = self.reput_from_offset
            if at >= start + length:
                return True
        return True

    def _next_file(self, at: int, end_offset: int) -> bool:
        """Go to the next file there is at or behind an offset."""
        following = [start for start in self._commitlog.file_starts() if start >= at]
        if not following and at < end_offset:
            return False
        self._advance(min(following[0] if following else at, end_offset))
        return True

    def _advance(self, offset: int) -> None:
        self.cq_from = max(self.cq_from, offset)
        self.index_from = max(self.index_from, offset)

    def _put(self, buf: Any, start: int, begin: int, end: int) -> None:
        """Give on what was gathered: the records of ``buf[begin:end]``, a file that begins at `start`."""
        batch = self._scan.take()
        to_queues = start + end > self.cq_from
        if to_queues:
            self._queues.put_batch(self._scan, batch, self.cq_from)
            if self._multi.enabled:
                self._multi.put(buf, begin, end, self.cq_from)
        if self._index is not None and start + end > self.index_from:
            self._index.put_batch(self._scan, batch, self.index_from)
        if to_queues:
            offsets = np.frombuffer(batch.buffer("phy_offset"), np.int64)
            times = np.frombuffer(batch.buffer("store_timestamp_ms"), np.int64)
            self.last_phy_offset = int(offsets[-1])
            self.last_store_timestamp_ms = int(times[-1])

    def _skip(
        self,
        buf: Any,
        length: int,
        pos: int,
        start: int,
        file_end: int,
        error: CorruptMessageError,
    ) -> None:
        """Go to the next place that proves itself; only for what is in the queues already."""
        limit = min(length, self.cq_from - start)
        at, code, _ = scan.find(buf, length, min(pos + 1, length), start, file_end)
        found = min(at if code >= 0 else limit, limit)
        to = start + found
        self.skipped.append(Skipped(error.phy_offset, to, error.field, error.expected, error.found))
        self._advance(to)

    # ---- batches ------------------------------------------------------------------------------------

    def _make_scan(self) -> ColumnScan:
        columns = QUEUE_COLUMNS if self._index is None else QUEUE_COLUMNS + INDEX_COLUMNS
        rows, size = (FAR_ROWS, FAR_BYTES) if self._far else (NEAR_ROWS, NEAR_BYTES)
        return ColumnScan(
            columns,
            delay_levels=self._commitlog.delay_levels,
            batch_rows=rows,
            batch_bytes=size,
        )

    def _choose_scan(self, behind: int) -> None:
        """One scan is used for many steps: its numbers of topics are known to the queues."""
        far = behind > (NEAR_AGAIN if self._far else FAR_BEHIND)
        if far != self._far:
            self._far = far
            self._scan = self._make_scan()


def _is_blank(buf: Any, pos: int, length: int) -> bool:
    """Whether a BLANK of an unexpected size lies here; as in Java its size does not matter."""
    return pos + HEADER <= length and bytes(buf[pos + 4 : pos + HEADER]) == BLANK_MAGIC


def _describe(code: int, found: int, expected: int) -> tuple[str, object, object]:
    if code == scan.SHORT:
        return "TOTALSIZE", f"at most the {found} bytes up to the end of the log", expected
    return describe(code, found, expected)
