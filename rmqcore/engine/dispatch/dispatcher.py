"""Dispatch: records of the CommitLog into consume queues and index.

Source: RocketMQ 5.5.0 DefaultMessageStore.ReputMessageService#doReput, CommitLogDispatcherBuildConsumeQueue,
CommitLogDispatcherBuildIndex.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rmqcore._native.format.codec import DelayLevels
from rmqcore._native.format.lost_pages import check_lost
from rmqcore._native.scan import places, scan
from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.places import Place
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.paths import file_name
from rmqcore.engine.dispatch.arrivals import NO_TOPICS, Arrivals
from rmqcore.engine.dispatch.multi_dispatch import Entry, MultiDispatch
from rmqcore.engine.dispatch.progress import Progress
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

NEAR_ROWS, NEAR_BYTES = 8192, 2 << 20
FAR_ROWS, FAR_BYTES = 262_144, 64 << 20
"""A batch costs one write for each queue that it touches: a dispatcher that is far behind uses large batches; near the
end of the log small ones save memory."""

FAR_BEHIND, NEAR_AGAIN = 16 << 20, 1 << 20
"""Bytes behind at which the batches become large, and small again."""


Window = tuple[memoryview, int, int]
"""Bytes of a file of the log, and the offsets of its start and end."""


class DispatchLog(Protocol):
    """The CommitLog as dispatch uses it."""

    delay_levels: DelayLevels

    @property
    def min_offset(self) -> int:
        """Start of the first file."""

    @property
    def max_offset(self) -> int:
        """End of the last record."""

    def file_starts(self) -> list[int]:
        """CommitLog offsets at which the files start."""

    def window(self, phy_offset: int) -> Window | None:
        """Bytes of the file that holds an offset, and the file's start and end."""


class BatchSink(Protocol):
    """A receiver of batches: the index."""

    def put_batch(self, scan: ColumnScan, batch: Batch, from_phy_offset: int) -> None:
        """Put the rows at `from_phy_offset` and behind it."""


class QueueSink(Protocol):
    """A receiver of batches and single entries: ConsumeQueues."""

    def put_batch(
        self, scan: ColumnScan, batch: Batch, from_phy_offset: int, covered_from: int
    ) -> int | None:
        """Put the rows from `from_phy_offset` on; return the offset from which the log must be read again first."""

    def put_entry(
        self,
        topic: str,
        queue_id: int,
        phy_offset: int,
        msg_size: int,
        tags_code: int,
        queue_offset: int,
        covered_from: int,
    ) -> int | None:
        """Put the entry of a further queue; return as `put_batch`."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """Bytes [start, end) of the CommitLog without a sound record, which the dispatch of old messages passed over."""

    start_phy_offset: int
    end_phy_offset: int
    field: str
    expected: object
    found: object


class Dispatcher:
    """Dispatches records to queues and index, in order, each once.

    Parameters
    ----------
    commitlog : CommitLog
    queues : ConsumeQueues
    index : IndexService, optional
        None while a recovery brings the queues up to date.
    config : MessageStoreConfig

    Attributes
    ----------
    done : Dispatched
        How far queues and index are. The lower of its `cq_from` and `index_from` must be the start of a record. After a
        crash the index may be far behind the queues.
    arrivals : Arrivals, optional
        Receives the queues that get entries, while a listener is registered.
    skipped : list of Skipped
        Damage among old messages, which only the index lacks, or only some queues.

    Raises
    ------
    CorruptMessageError
        From `dispatch_once`: a record at or above `cq_from` is damaged. Below `cq_from` are old records, which recovery
        did not check: there the damage is noted in `skipped`, and dispatch continues at the next record that proves
        itself.
    OSError
        A queue or index could not be written. The next call puts the same records again; both ignore entries that they
        have.

    Notes
    -----
    One thread at a time; any thread may read `done`.

    Records below `cq_from` are in the queues, unless a queue lost files. The next record of that queue shows it: its
    QUEUEOFFSET lies behind the queue's end. Then dispatch reads the log again, step by step, from before that queue's
    last message, and the queues ignore entries that they have. Messages that a queue lacks after that, the log lacks
    too.
    """

    def __init__(
        self,
        commitlog: DispatchLog,
        queues: QueueSink,
        index: BatchSink | None,
        config: MessageStoreConfig,
    ) -> None:
        self._progress = Progress(indexes=index is not None)
        self.done = self._progress.done
        self.skipped: list[Skipped] = []
        self.arrivals: Arrivals | None = None
        self._commitlog = commitlog
        self._queues = queues
        self._index = index
        # If the configuration accepts stale records, the recovered log may contain them.
        self._check_place = config.check_commit_log_offset_on_recover
        self._multi = MultiDispatch(config, commitlog.delay_levels)
        self._far = False
        self._scan = self._make_scan()

    @property
    def reput_from_offset(self) -> int:
        """CommitLog offset below which every record is dispatched."""
        return self._progress.dispatched_to

    def dispatch_once(self, end_offset: int, max_bytes: int = 16 << 20) -> int:
        """Dispatch about `max_bytes` of records below `end_offset`, which is the end of a record.

        Returns
        -------
        int
            Bytes of the log that were dispatched, some perhaps again; 0 if all is dispatched.
        """
        first, progress = self._begin(), self._progress
        begin = progress.read_from
        if begin < first <= end_offset:
            progress.advance(first)  # the files were deleted before they were dispatched
        self._choose_scan(end_offset - progress.read_from)
        done = progress.read_from - begin
        while done < max_bytes and progress.read_from < end_offset:
            at = progress.read_from
            if not self._dispatch_file(end_offset, at + max_bytes - done):
                break
            done += max(0, progress.read_from - at)
        return done

    def _begin(self) -> int:
        """Restore the scan after an interrupted call or a place that was set; return the log's start."""
        if self._scan.pending_rows:
            self._scan.take()  # they are scanned again
        first = self._commitlog.min_offset
        self._progress.begin(first)
        return first

    def session(
        self, end_offset: int, run: Callable[[ColumnScan, Window, int], int | None]
    ) -> int | None:
        """Return ``run(scan, window, covered_from)``, which dispatches from `done` on; None if no session can run.

        A session runs near the end of the log, while queues and index are at the same place and no message may have
        further queues.
        """
        first = self._begin()
        at = self.cq_from
        if at < first or not self._progress.is_level:
            return None
        if self._multi.enabled or not self._check_place:
            return None
        self._choose_scan(end_offset - at)
        window = None if self._far else self._commitlog.window(at)
        if window is None:
            return None
        answer = run(self._scan, window, self._progress.covered_from)
        self._progress.note_covered()
        return answer

    @property
    def cq_from(self) -> int:
        """CommitLog offset below which the records are in the queues."""
        return self.done.cq_from

    @cq_from.setter
    def cq_from(self, offset: int) -> None:
        self.done.cq_from = offset

    @property
    def index_from(self) -> int:
        """CommitLog offset below which the records are in the index."""
        return self.done.index_from

    @index_from.setter
    def index_from(self, offset: int) -> None:
        self.done.index_from = offset

    # ---- one file -----------------------------------------------------------------------------------

    def _dispatch_file(self, end_offset: int, last: int) -> bool:
        """Dispatch from the file that holds the offset to read from; return False if no more can be dispatched now."""
        at = self._progress.read_from
        found = self._commitlog.window(at)
        if found is None:
            return self._next_file(at, end_offset)
        buf, start, file_end = found
        length = min(end_offset, file_end) - start
        while at < last:
            place = self._scan.feed(
                buf,
                length,
                at - start,
                start,
                file_end,
                check_place=self._check_place,
                check_crc=False,
            )
            check_lost(buf)
            if self._scan.pending_rows and not self._put(
                buf, start, file_end, at - start, place.pos
            ):
                return True  # it went back
            at = start + place.pos
            self._progress.advance(at)
            if place.code == scan.FULL:
                continue
            if place.code == scan.END:
                return True
            if place.is_blank:  # whatever its size says, as in Java
                return self._next_file(file_end, end_offset)
            inside = min(self._commitlog.max_offset, file_end)
            if place.code == places.SHORT and at + place.expected <= inside:
                return False  # `end_offset` lies inside this record
            error = CorruptMessageError(f"commitlog/{file_name(start)}", at, *_describe(place))
            if at >= self.cq_from:
                raise error
            self._skip(buf, length, place.pos, start, file_end, error)
            at = self._progress.read_from
            if at >= start + length:
                return True
        return True

    def _next_file(self, at: int, end_offset: int) -> bool:
        """Go to the first file that starts at or behind an offset; return False if no such file exists yet."""
        following = [start for start in self._commitlog.file_starts() if start >= at]
        if not following and at < end_offset:
            return False
        self._progress.advance(min(following[0] if following else at, end_offset))
        return True

    def _put(self, buf: Any, start: int, file_end: int, begin: int, end: int) -> bool:
        """Put the scanned records of ``buf[begin:end]`` into queues and index; the file starts at `start`.

        Return False, and go back, if a queue lacks records before them.
        """
        batch = self._scan.take()
        if start + end > self._progress.queues_from:
            back_to = self._put_queues(batch, buf, start, file_end, begin, end)
            if back_to is not None:
                self._progress.go_back(back_to, self._commitlog.file_starts())
                return False
        if self._index is not None and start + end > self.index_from:
            self._index.put_batch(self._scan, batch, self.index_from)
        if self.arrivals is not None and self.arrivals.topics != NO_TOPICS:
            light = self._multi.enabled
            further = self._multi.entries(buf, begin, end, self.cq_from) if light else ()
            self.arrivals.note(self._scan, batch, self.cq_from, further)
        if start + end > self.cq_from:
            offsets = np.frombuffer(batch.buffer("phy_offset"), np.int64)
            times = np.frombuffer(batch.buffer("store_timestamp_ms"), np.int64)
            self.done.last_phy_offset = int(offsets[-1])
            self.done.last_store_timestamp_ms = int(times[-1])
        return True

    def _put_queues(
        self, batch: Batch, buf: Any, start: int, file_end: int, begin: int, end: int
    ) -> int | None:
        """Put the entries into the queues; return as `put_batch`, at the first that needs earlier parts of the log."""
        from_offset = self._progress.queues_from
        further: list[tuple[int, list[Entry]]] = []
        if self._multi.enabled:
            further = list(self._multi.records(buf, begin, end, from_offset))
        topics = set(self._scan.topics()) if further else set()
        if not any(entry[0] in topics for _, entries in further for entry in entries):
            further = [(end, [entry for _, entries in further for entry in entries])]
        elif further[-1][0] < end:
            further.append((end, []))
        # A queue accepts entries in the order of the log. A queue with plain and further entries gets them record by
        # record.
        at = begin
        for stop, entries in further:
            whole = at == begin and stop == end
            piece = batch if whole else self._again(buf, start, file_end, at, stop)
            at = stop
            back_to = self._queues.put_batch(
                self._scan, piece, from_offset, self._progress.covered_from
            )
            for entry in entries:
                if back_to is None:
                    back_to = self._queues.put_entry(*entry, self._progress.covered_from)
            if back_to is not None:
                return back_to
        return None

    def _again(self, buf: Any, start: int, file_end: int, begin: int, end: int) -> Batch:
        """Scan sound records of a batch once more: those of ``buf[begin:end]``."""
        self._scan.feed(
            buf, end, begin, start, file_end, check_place=self._check_place, check_crc=False
        )
        return self._scan.take()

    def _skip(
        self,
        buf: Any,
        length: int,
        pos: int,
        start: int,
        file_end: int,
        error: CorruptMessageError,
    ) -> None:
        """Continue at the next record that proves itself; called only for old records, below `cq_from`."""
        limit = min(length, self.cq_from - start)
        found = places.find(buf, length, min(pos + 1, length), start, file_end)
        to = start + min(found.pos if found.code >= 0 else limit, limit)
        skipped = Skipped(error.phy_offset, to, error.field, error.expected, error.found)
        if skipped not in self.skipped:
            self.skipped.append(skipped)
        self._progress.advance(to)

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
        """Change the size of the batches if that pays; otherwise keep the scan, whose topic numbers the queues know."""
        far = behind > (NEAR_AGAIN if self._far else FAR_BEHIND)
        if far != self._far:
            self._far = far
            self._scan = self._make_scan()


def _describe(place: Place) -> tuple[str, object, object]:
    """Return field, expected and found of bytes that are not a sound record."""
    if place.code == places.SHORT:
        up_to_end = f"at most the {place.found} bytes up to the end of the log"
        return "TOTALSIZE", up_to_end, place.expected
    return place.describe()
