"""The newest messages of a store, and what a live store appends after them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rmqcore._native.format.codec import MessageView
from rmqcore._native.format.layout import REC_HEADER_SIZE
from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan, ViewScan
from rmqcore.disk.read_range import read_range
from rmqcore.offline.info import log_end
from rmqcore.offline.log.conditions import Conditions
from rmqcore.offline.log.damage import DamageList, DamageRange, MoreDamage
from rmqcore.offline.log.log_files import LogFile
from rmqcore.offline.log.long_record import LongRecords
from rmqcore.offline.log.unfinished_record import is_unfinished
from rmqcore.offline.log.walk import Blank, LogWalk
from rmqcore.offline.log.window import record_at
from rmqcore.offline.missing_log import closed_at, emptied_files, missing_log
from rmqcore.offline.reader import StoreReader

MAX_SKIPPED_POLLS = 16


class _Follower:
    """Where a reader of a growing log is, and what it met.

    Every call lists the files anew, so that new files, files allocated ahead and files deleted by the broker's cleaner are seen.
    A record that is not whole yet, at the very end of the log, is not damage: the next call begins with it.
    """

    def __init__(self, reader: StoreReader) -> None:
        self._reader = reader
        self.next_phy_offset = 0
        self.damage: list[DamageRange] = DamageList()
        self.unfinished: DamageRange | None = None
        self._skip_polls = 0
        self._waited = 0

    def _files_with_news(self) -> list[LogFile]:
        """The files, where a walk from `next_phy_offset` on would meet anything; an empty list otherwise."""
        if self._skip_polls:
            self._skip_polls -= 1
            return []
        files = _written(self._reader.log_files())
        return files if files and self._something_new(files) else []

    def _something_new(self, files: list[LogFile]) -> bool:
        """Return True if a walk from `next_phy_offset` on would meet anything; moves `next_phy_offset` when files are gone."""
        if self.next_phy_offset < files[0].file_from_offset:
            self._note_gone(self.next_phy_offset, files[0], "deleted before it was read")
            self.next_phy_offset = files[0].file_from_offset
        last = files[-1]
        if self.next_phy_offset > last.end_offset:
            end = log_end(files)
            self._note_gone(end, last, "cut while it was followed")
            self.next_phy_offset = end
        if self.next_phy_offset < last.file_from_offset:
            return True
        return any(_head(last, self.next_phy_offset - last.file_from_offset))

    def _ended(
        self,
        walk: LogWalk[Any],
        damage: list[DamageRange],
        start: int,
        last: MessageView | None,
    ) -> int | None:
        """Note where a walk from `start` ended; answer where the record begins that is not whole yet, if there is one.

        `last` is the last record that the walk gave.
        """
        unfinished = None
        self.unfinished = None
        at_end = bool(damage) and damage[-1].end_phy_offset >= walk.end_phy_offset
        if at_end and not isinstance(damage[-1], MoreDamage):
            self.unfinished = damage.pop()
            unfinished = self.unfinished.start_phy_offset
        elif (
            last is not None
            and last.phy_offset + last.msg_size == walk.end_phy_offset
            and is_unfinished(last)
        ):
            unfinished = last.phy_offset
        self.damage += damage
        self.next_phy_offset = max(start, walk.end_phy_offset if unfinished is None else unfinished)
        self._wait(unfinished is not None and self.next_phy_offset == start)
        return unfinished

    def _wait(self, stuck: bool) -> None:
        """Look less often at a record that stays unfinished: each look searches for a sound one after it."""
        self._waited = min(2 * self._waited + 1, MAX_SKIPPED_POLLS) if stuck else 0
        self._skip_polls = self._waited

    def _note_gone(self, phy_offset: int, file: LogFile, found: str) -> None:
        start, end = sorted((phy_offset, max(self.next_phy_offset, file.file_from_offset)))
        self.damage.append(
            DamageRange(start, end, "missing_file", file.name, "file", "present", found)
        )


class LogTail(_Follower):
    """Follows the end of a CommitLog without a thread: `newest` once, then `poll` as often as you like.

    Every call lists the files anew, and a record that is not whole yet is given once it is.

    Parameters
    ----------
    reader : StoreReader
    topics, queue_ids, tags, keys, since_ms, until_ms
        As for `StoreReader.messages`.
    matches : callable, optional
        Asked for each message under these conditions: whether it is given, and counted by `newest`.

    Attributes
    ----------
    next_phy_offset : int
        CommitLog offset where the next `poll` begins, bytes.
    damage : list of DamageRange
        What could not be given, in the order it was met; grows up to 100,000, and a `MoreDamage` that counts all others.
    unfinished : DamageRange or None
        What lay at the very end of the log at the last look and is no whole record: damage, unless
        somebody is writing it.

    Notes
    -----
    Thread safety: one thread at a time.
    """

    def __init__(
        self,
        reader: StoreReader,
        *,
        topics: Iterable[str] | None = None,
        queue_ids: Iterable[int] | None = None,
        tags: Iterable[str] | None = None,
        keys: Iterable[str] | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
        matches: Callable[[MessageView], bool] | None = None,
    ) -> None:
        super().__init__(reader)
        self._matches = matches
        self._filter = Conditions.of(topics, queue_ids, tags, keys, since_ms, until_ms).native()

    def newest(self, count: int) -> list[MessageView]:
        """The `count` newest messages, oldest first; `poll` continues behind them.

        `damage` says so if queues, index or checkpoint know messages behind the log's end, and if the messages go back to
        files of no bytes at its start.
        """
        files = _written(self._reader.log_files())
        self.next_phy_offset = self._start_of_newest(files, count)
        newest = list(deque(self._walk(files), maxlen=count))
        last = self.unfinished
        if (
            last is not None
            and last.field == "MAGIC"
            and closed_at(self._reader.paths, last.start_phy_offset)
        ):
            self.unfinished = None
        end = self.next_phy_offset
        if self.unfinished is not None:
            end = max(end, self.unfinished.end_phy_offset)
        if len(newest) < count:
            self.damage += emptied_files(self._reader.paths)
        self.damage += missing_log(self._reader.paths, end)
        return newest

    def poll(self) -> Iterator[MessageView]:
        """Messages appended since the last call, as they are read; it ends where the log ends for now."""
        files = self._files_with_news()
        if files:
            yield from self._walk(files)

    def _start_of_newest(self, files: list[LogFile], count: int) -> int:
        """Where the `count` newest messages begin: files are walked from the last one back, of each message its place is kept.

        It is the log's first byte if the log has fewer: damage there may have been messages.
        """
        missing = count
        start = None
        for file in reversed(files):
            if missing <= 0:
                break
            found: deque[int] = deque(maxlen=missing)
            for places in self._places(files, file):
                found.extend(places)
            if found:
                start = found[0]
                missing -= len(found)
        if files and missing > 0:
            return files[0].file_from_offset
        return log_end(files) if start is None else start

    def _places(self, files: list[LogFile], file: LogFile) -> Iterator[Iterable[int]]:
        """Where the messages of a file lie that match."""
        start, stop = file.file_from_offset, file.end_offset
        if self._matches is not None:
            sink = ViewScan(filter=self._filter)
            views: LogWalk[list[MessageView]] = LogWalk(files, sink, [], start=start, stop=stop)
            for some in views.run():
                if not isinstance(some, Blank):
                    yield [view.phy_offset for view in some if self._matches(view)]
            return
        columns = ColumnScan(("phy_offset",), filter=self._filter, batch_rows=65536)
        batches: LogWalk[Batch] = LogWalk(files, columns, [], start=start, stop=stop)
        for batch in batches.run():
            if not isinstance(batch, Blank):
                yield memoryview(batch.buffer("phy_offset")).cast("B").cast("q")

    def _walk(self, files: list[LogFile]) -> Iterator[MessageView]:
        views = self._whole_messages(files)
        return views if self._matches is None else filter(self._matches, views)

    def _whole_messages(self, files: list[LogFile]) -> Iterator[MessageView]:
        damage: list[DamageRange] = DamageList()
        start = self.next_phy_offset
        walk: LogWalk[list[MessageView]] = LogWalk(
            files, ViewScan(filter=self._filter), damage, start=start, aligned_start=True
        )
        held: MessageView | None = (
            None  # the newest message is given only when it is known to be whole
        )
        for views in walk.run():
            if isinstance(views, Blank):
                continue
            for view in views:
                if held is not None:
                    self.next_phy_offset = held.phy_offset + held.msg_size
                    yield held
                held = view
        unfinished = self._ended(walk, damage, start, held)
        if held is not None and (unfinished is None or held.phy_offset < unfinished):
            yield held


class BatchTail(_Follower):
    """Follows the end of a CommitLog as columns, from where it ends now.

    Parameters
    ----------
    reader : StoreReader
    scan : ColumnScan
        Has the column ``phy_offset``.

    Attributes
    ----------
    next_phy_offset, damage, unfinished
        As those of `LogTail`.
    restarts : int
        How often the log was another one than before, and was followed from its end on: the store was made anew.

    Notes
    -----
    Thread safety: one thread at a time.
    """

    def __init__(self, reader: StoreReader, scan: ColumnScan) -> None:
        super().__init__(reader)
        self._scan = scan
        self.restarts = 0
        self._given = -1  # the record at the end that was given, and is not whole yet
        self._file: tuple[int, int, int] | None = None
        self._begin(_written(reader.log_files()))

    def poll(self) -> Iterator[tuple[Batch, int]]:
        """Yield what was appended since the last call: batches, and the first row of each that was not yielded before.

        All of them must be taken. Each is given before the scan goes on, so that its numbers of topics mean what they say.
        """
        files = _written(self._reader.log_files())
        if self._is_another(files):
            self.restarts += 1
            self._begin(files)
            return
        files = self._files_with_news()
        if not files:
            return
        start, damage = self.next_phy_offset, DamageList()
        walk: LogWalk[Batch] = LogWalk(
            files, self._scan, damage, start=start, aligned_start=True, long_records=LongRecords()
        )
        last = -1
        for batch in walk.run():
            if isinstance(batch, Blank) or not batch.num_rows:
                continue
            places = memoryview(batch.buffer("phy_offset")).cast("B").cast("q")
            last = places[-1]
            yield batch, int(places[0] == self._given)
        view = None if last < 0 else record_at(files, last)
        unfinished = self._ended(walk, damage, start, view)
        if last >= 0:
            self._given = last if unfinished == last else -1
        self._file = _file_at(files, self.next_phy_offset)

    def _begin(self, files: list[LogFile]) -> None:
        self.next_phy_offset = log_end(files)
        self._given = -1
        self._file = _file_at(files, self.next_phy_offset)

    def _is_another(self, files: list[LogFile]) -> bool:
        """Return True if the file in which the log ended has made room for another one of its name."""
        if self._file is None or not files:
            return False
        now = _file_at(files, self._file[0])
        return now is not None and now[0] == self._file[0] and now != self._file


def _written(files: list[LogFile]) -> list[LogFile]:
    """Files without those at the end that are only allocated: a broker makes them ahead."""
    files = list(files)
    while len(files) > 1 and not any(_head(files[-1], 0)):
        files.pop()
    return files


def _head(file: LogFile, pos: int) -> bytes:
    """The first bytes at a position of a file; empty when the file is gone."""
    return read_range(str(file.path), pos, REC_HEADER_SIZE)


def _file_at(files: list[LogFile], phy_offset: int) -> tuple[int, int, int] | None:
    """The file in which an offset lies, or which ends there: where it begins, and which one on disk it is."""
    for file in reversed(files):
        if file.file_from_offset <= phy_offset:
            try:
                found = os.lstat(file.path)
            except FileNotFoundError:
                return None
            return file.file_from_offset, found.st_dev, found.st_ino
    return None
