"""One pass over an open store: compares log, queues and index with each other, piece by piece, and only reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rmqcore._native.format.lost_pages import check_lost
from rmqcore._native.queues.consume_queue import ConsumeQueue
from rmqcore._native.scan import places, scan
from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.index.index_check import IndexFileChecker
from rmqcore.disk.paths import MAX_OFFSET, StorePaths, file_name
from rmqcore.disk.queue_files import batch_topics
from rmqcore.disk.queue_shape import may_be_deliver_times
from rmqcore.engine.dispatch.dispatcher import Dispatcher
from rmqcore.engine.index.index_file import IndexFile
from rmqcore.engine.index.index_service import IndexService
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.engine.queues.consume_queues import ConsumeQueues
from rmqcore.engine.recovery.index.index_compare import IndexCompare, is_harmless
from rmqcore.engine.recovery.index.log_look import LogLook
from rmqcore.engine.recovery.index.signs import NoQueues, places_proven
from rmqcore.vocabulary.sysflag import has_queue_entry
from rmqcore.vocabulary.topics import SCHEDULE_TOPIC

PIECE = 1 << 20
"""Bytes of log to compare in one step."""

RUN_GAP = 4096
"""Largest distance between the places of two records whose queue entries are read in one call."""

Note = Callable[[str, int | None, str], None]
"""Receives a path in the store, a CommitLog offset, and the problem there."""


def scrub_round(
    paths: StorePaths,
    config: MessageStoreConfig,
    log: CommitLog,
    queues: ConsumeQueues,
    index: IndexService,
    end_phy_offset: int,
    note: Note,
) -> Iterator[tuple[int, int]]:
    """Compare log, queues and index below a CommitLog offset once.

    Parameters
    ----------
    end_phy_offset : int
        CommitLog offset below which all records are in queues and index.
    note : callable
        Called with each problem.

    Yields
    ------
    (int, int)
        Bytes read since the last time, and the CommitLog offset reached.

    Raises
    ------
    OSError
        A file cannot be read.

    Notes
    -----
    Thread safety: one thread runs the pass, while puts, dispatch and queries continue. Entries put after its start are
    not compared.
    """
    files = _as_they_are(index.files) if index.writing and places_proven(config) else []
    for number, file in enumerate(files):
        # Puts change the slots of the newest file.
        if number + 1 < len(files):
            for size in _check_chains(file, note):
                yield size, log.min_offset
    with LogLook(log, log.max_offset) as look:
        begin = look.min_offset
        sink = _Sink(paths, look, queues, files, begin, note)
        feed = Dispatcher(look, NoQueues(), sink, config)
        feed.cq_from, feed.index_from = MAX_OFFSET, begin
        sums = _CrcWalk(look, config, note)
        piece = PIECE
        while feed.index_from < end_phy_offset:
            at = feed.index_from
            last = min(at + piece, end_phy_offset)
            if not feed.dispatch_once(last):
                if last == end_phy_offset:
                    break
                piece *= 2  # a record is larger than the piece
                continue
            piece = PIECE
            sums.walk(at, feed.index_from)
            yield feed.index_from - at, feed.index_from
        sink.finish(feed.index_from)


def _as_they_are(files: Sequence[IndexFile]) -> list[IndexFile]:
    """Return the files with copies of their current headers: later entries are not compared."""
    return [
        IndexFile(file.path, file.native.slot_count, file.native.capacity, file.native.header)
        for file in files
    ]


def _check_chains(file: IndexFile, note: Note) -> Iterator[int]:
    checker = IndexFileChecker(
        file.path, file.file_size, file.found, file.native.slot_count, limit=8
    )
    yield from checker.steps()
    for finding in checker.outcome.findings:
        if not is_harmless(finding, file) and file.path.exists():
            what = f"entry {finding.entry_index}: {finding.field} is {finding.found}, expected {finding.expected}"
            note(f"index/{file.name}", None, what)


class _CrcWalk:
    """Checks the CRC of bodies, which dispatch leaves out, and notes bytes that are not a record."""

    def __init__(self, look: LogLook, config: MessageStoreConfig, note: Note) -> None:
        self._look = look
        self._check_place = config.check_commit_log_offset_on_recover
        self._note = note

    def walk(self, begin: int, end: int) -> None:
        """Check the records from `begin`, the start of a record, to `end`, the end of a record."""
        rows = ColumnScan(["phy_offset"])
        at = begin
        while at < end:
            found = self._look.window(at)
            if found is None:
                return
            buf, start, file_end = found
            length = min(end, file_end) - start
            place = rows.feed(
                buf, length, at - start, start, file_end, check_place=self._check_place
            )
            check_lost(buf)
            if rows.pending_rows:
                rows.take()
            at = start + place.pos
            if place.code == scan.FULL:
                continue
            if place.code == scan.END or place.is_blank:
                at = file_end if place.is_blank or at >= start + length else at
                if place.code == scan.END and at < end and at < file_end:
                    return
                continue
            if place.code != places.SHORT:
                field, expected, value = place.describe()
                what = f"{field} is {value}, expected {expected}"
                self._note(f"commitlog/{file_name(start)}", at, what)
            following = places.find(buf, length, min(place.pos + 1, length), start, file_end)
            if following.code < 0:
                return
            at = start + following.pos


class _Sink:
    """Receives batches of the log and compares each record with its queue entry and its index entries."""

    def __init__(
        self,
        paths: StorePaths,
        look: LogLook,
        queues: ConsumeQueues,
        files: Sequence[IndexFile],
        begin: int,
        note: Note,
    ) -> None:
        self._look = look
        self._queues = queues
        self._without = batch_topics(paths)
        self._folder = paths.consumequeue
        self._index = IndexCompare(files, begin) if files else None
        self._note = note

    def put_batch(self, scan: ColumnScan, batch: Batch, from_phy_offset: int) -> None:
        """Compare the rows of a batch."""
        if self._index is not None:
            self._index.put_batch(scan, batch, from_phy_offset)
        column = {
            name: np.frombuffer(batch.buffer(name), kind) for name, kind in _QUEUE_COLUMNS.items()
        }
        rows = np.flatnonzero(
            has_queue_entry(column["sys_flag"]) & (column["phy_offset"] >= from_phy_offset)
        )
        keys = (column["queue_offset"][rows], column["queue_id"][rows], column["topic_id"][rows])
        rows = rows[np.lexsort(keys)]
        topic, queue_id = column["topic_id"][rows], column["queue_id"][rows]
        apart = (np.diff(topic) != 0) | (np.diff(queue_id) != 0)
        apart |= np.diff(column["queue_offset"][rows]) > RUN_GAP
        topics = scan.topics()
        for run in np.split(rows, np.flatnonzero(apart) + 1):
            if len(run):
                name = topics[int(column["topic_id"][run[0]])]
                self._compare_run(name, int(column["queue_id"][run[0]]), column, run)

    def _compare_run(
        self,
        topic: str,
        queue_id: int,
        column: dict[str, npt.NDArray[np.int64]],
        run: npt.NDArray[np.int64],
    ) -> None:
        if topic in self._without:
            return
        offsets = column["queue_offset"][run]
        first, last = int(offsets[0]), int(offsets[-1])
        queue = self._queues.find(topic, queue_id)
        if queue is None or first < 0:
            self._note_queue(topic, queue_id, int(column["phy_offset"][run[0]]), first)
            return
        entries = queue.entries(first, last - first + 1)
        at = offsets - first
        there = at < len(entries)
        found = entries[np.where(there, at, 0)] if len(entries) else None
        right = there.copy()
        if found is not None:
            for field in ("phy_offset", "msg_size"):
                right &= found[field] == column[field][run]
            right &= self._same_tags_codes(topic, found, column, run)
        for row in np.flatnonzero(~right & (offsets >= queue.min_offset)).tolist():
            entry = found[row] if found is not None and there[row] else None
            phy_offset = int(column["phy_offset"][run[row]])
            # An entry that leads to this very record has a wrong size or tags code.
            if (
                entry is None
                or int(entry["phy_offset"]) == phy_offset
                or not self._is_later_life(queue, int(offsets[row]), entry)
            ):
                self._note_queue(topic, queue_id, phy_offset, int(offsets[row]))

    def _same_tags_codes(
        self,
        topic: str,
        found: npt.NDArray[np.void],
        column: dict[str, npt.NDArray[np.int64]],
        run: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.bool_]:
        """Return a mask of the entries that have their records' tags codes; deliver times of any level count too."""
        held, asked = found["tags_code"].astype(np.int64), column["tags_code"][run]
        same: npt.NDArray[np.bool_] = held == asked
        if topic == SCHEDULE_TOPIC:
            stored_ms = column["store_timestamp_ms"][run]
            both = may_be_deliver_times(held, stored_ms) & may_be_deliver_times(asked, stored_ms)
            same |= both
        return same

    def _is_later_life(self, queue: ConsumeQueue, queue_offset: int, entry: np.void) -> bool:
        """Return True if the entry points at another record with this queue offset: the topic was made again."""
        view = self._look.view_at(int(entry["phy_offset"]))
        if view is None or view.msg_size != entry["msg_size"]:
            return False
        place = view.topic, view.queue_id, view.queue_offset
        return place == (queue.topic, queue.queue_id, queue_offset)

    def _note_queue(self, topic: str, queue_id: int, phy_offset: int, queue_offset: int) -> None:
        path = Path(self._folder.name, topic, str(queue_id))
        what = f"queue offset {queue_offset} does not hold the entry of this message"
        self._note(str(path), phy_offset, what)

    def finish(self, looked_up_to: int) -> None:
        """Note the index's faults, except for entries behind the round's end, which dispatch put during the round."""
        damage = self._index.finish(looked_up_to) if self._index is not None else None
        if damage is not None:
            path, _, what = damage.reason.partition(": ")
            self._note(path, None, what)


_QUEUE_COLUMNS: dict[str, type[np.generic]] = {
    "phy_offset": np.int64,
    "msg_size": np.int32,
    "queue_id": np.int32,
    "queue_offset": np.int64,
    "sys_flag": np.int32,
    "store_timestamp_ms": np.int64,
    "tags_code": np.int64,
    "topic_id": np.int32,
}
