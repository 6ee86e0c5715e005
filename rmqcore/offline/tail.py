"""The newest messages of a store, and what a live store appends after them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from rmqcore._native.format.codec import MessageView
from rmqcore._native.format.layout import REC_HEADER_SIZE
from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan, ViewScan
from rmqcore.disk.read_range import read_range
from rmqcore.offline.info import log_end
from rmqcore.offline.log.conditions import Conditions
from rmqcore.offline.log.damage import DamageList, DamageRange, MoreDamage
from rmqcore.offline.log.log_files import LogFile
from rmqcore.offline.log.unfinished_record import is_unfinished
from rmqcore.offline.log.walk import Blank, LogWalk
from rmqcore.offline.reader import StoreReader

MAX_SKIPPED_POLLS = 16


class LogTail:
    """Follows the end of a CommitLog without a thread: `newest` once, then `poll` as often as you like.

    Every call lists the files anew, so that new files, files allocated ahead and files deleted by the
    broker's cleaner are seen. A record that is not whole yet, at the very end of the log, is not
    damage: it is given once it is whole.

    Parameters
    ----------
    reader : StoreReader
    topics, queue_ids, tags, keys, since_ms, until_ms
        As for `StoreReader.messages`.

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
    ) -> None:
        self._reader = reader
        self._filter = Conditions.of(topics, queue_ids, tags, keys, since_ms, until_ms).native()
        self.next_phy_offset = 0
        self.damage: list[DamageRange] = DamageList()
        self.unfinished: DamageRange | None = None
        self._skip_polls = 0
        self._waited = 0

    def newest(self, count: int) -> list[MessageView]:
        """The `count` newest messages, oldest first; `poll` goes on behind them."""
        files = _written(self._reader.log_files())
        self.next_phy_offset = self._start_of_newest(files, count)
        return list(deque(self._walk(files), maxlen=count))

    def poll(self) -> Iterator[MessageView]:
        """Messages appended since the last call, as they are read; it ends where the log ends for now."""
        if self._skip_polls:
            self._skip_polls -= 1
            return
        files = _written(self._reader.log_files())
        if files and self._something_new(files):
            yield from self._walk(files)

    def _start_of_newest(self, files: list[LogFile], count: int) -> int:
        """Where the `count` newest messages begin: files are walked from the last one back, of each message its place is kept."""
        missing = count
        start = None
        for file in reversed(files):
            if missing <= 0:
                break
            found: deque[int] = deque(maxlen=missing)
            sink = ColumnScan(("phy_offset",), filter=self._filter, batch_rows=65536)
            walk: LogWalk[Batch] = LogWalk(
                files, sink, [], start=file.file_from_offset, stop=file.end_offset
            )
            for batch in walk.run():
                if not isinstance(batch, Blank):
                    found.extend(memoryview(batch.buffer("phy_offset")).cast("B").cast("q"))
            if found:
                start = found[0]
                missing -= len(found)
        return log_end(files) if start is None else start

    def _something_new(self, files: list[LogFile]) -> bool:
        """Whether a walk from `next_phy_offset` on would meet anything; moves `next_phy_offset` when files are gone."""
        if self.next_phy_offset < files[0].file_from_offset:
            self._note_gone(self.next_phy_offset, files[0], "deleted before it was read")
            self.next_phy_offset = files[0].file_from_offset
        last = files[-1]
        if self.next_phy_offset > last.end_offset:
            end = log_end(files)
            self._note_gone(end, last, "cut away while it was followed")
            self.next_phy_offset = end
        if self.next_phy_offset < last.file_from_offset:
            return True
        return any(_head(last, self.next_phy_offset - last.file_from_offset))

    def _walk(self, files: list[LogFile]) -> Iterator[MessageView]:
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
        unfinished = None
        self.unfinished = None
        at_end = bool(damage) and damage[-1].end_phy_offset >= walk.end_phy_offset
        if at_end and not isinstance(damage[-1], MoreDamage):
            self.unfinished = damage.pop()
            unfinished = self.unfinished.start_phy_offset
        elif (
            held is not None
            and held.phy_offset + held.msg_size == walk.end_phy_offset
            and is_unfinished(held)
        ):
            unfinished = held.phy_offset
        self.damage += damage
        self.next_phy_offset = max(start, walk.end_phy_offset if unfinished is None else unfinished)
        self._wait(unfinished is not None and self.next_phy_offset == start)
        if held is not None and (unfinished is None or held.phy_offset < unfinished):
            yield held

    def _wait(self, stuck: bool) -> None:
        """Look less often at a record that stays unfinished: each look searches for a sound one after it."""
        self._waited = min(2 * self._waited + 1, MAX_SKIPPED_POLLS) if stuck else 0
        self._skip_polls = self._waited

    def _note_gone(self, phy_offset: int, file: LogFile, found: str) -> None:
        start, end = sorted((phy_offset, max(self.next_phy_offset, file.file_from_offset)))
        self.damage.append(
            DamageRange(start, end, "missing_file", file.name, "file", "present", found)
        )


def _written(files: list[LogFile]) -> list[LogFile]:
    """Files without those at the end that are only allocated: a broker makes them ahead."""
    files = list(files)
    while len(files) > 1 and not any(_head(files[-1], 0)):
        files.pop()
    return files


def _head(file: LogFile, pos: int) -> bytes:
    """The first bytes at a position of a file; empty when the file is gone."""
    return read_range(str(file.path), pos, REC_HEADER_SIZE)
