"""Reading messages through a queue: the rules of getMessage over files."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from rmqcore._native.format.codec import MessageView
from rmqcore._native.format.layout import CQ_FILLER_SIZE
from rmqcore._native.queues.get_limits import GetLimits
from rmqcore.config import MessageStoreConfig
from rmqcore.offline.log.log_files import LogFile
from rmqcore.offline.queues.get_result import OfflineGetResult
from rmqcore.offline.queues.queue_reader import QueueFiles, Unit
from rmqcore.offline.queues.wrong_entries import WrongEntry, named_place
from rmqcore.queries.tag_filter import LAST_EXT_ADDRESS, TagFilter
from rmqcore.vocabulary.status import GetMessageStatus


class QueueGet:
    """One get. Where a limit of Java depends on whether a message lies in memory, every message counts as in memory.

    Parameters
    ----------
    queue : QueueFiles
    start, end : int
        The queue's min and max offset.
    log_files : list of LogFile
    message_at : callable
        Gives the message at a phy offset; None when no message lies there.
    config : MessageStoreConfig

    Attributes
    ----------
    wrong : list of WrongEntry
        Entries that were looked at and lead to no record in the log, or to the record of another place.

    Notes
    -----
    Source: RocketMQ 5.5.0 DefaultMessageStore#getMessage.
    """

    def __init__(
        self,
        queue: QueueFiles,
        start: int,
        end: int,
        log_files: list[LogFile],
        message_at: Callable[[int], MessageView | None],
        config: MessageStoreConfig,
    ) -> None:
        self.queue = queue
        self.start = start
        self.end = end
        self.log_files = log_files
        self.message_at = message_at
        self.config = config
        self.wrong: list[WrongEntry] = []

    def run(
        self, queue_offset: int, most: int, tags: TagFilter, most_bytes: int
    ) -> OfflineGetResult:
        """Get from `queue_offset` on; the numbers are those of `messages_of_get` and `bytes_of_get`."""
        if self.end == 0:
            return self._result(GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0)
        if queue_offset < self.start:
            return self._result(GetMessageStatus.OFFSET_TOO_SMALL, self.start)
        if queue_offset == self.end:
            return self._result(GetMessageStatus.OFFSET_OVERFLOW_ONE, queue_offset)
        if queue_offset > self.end:
            return self._result(GetMessageStatus.OFFSET_OVERFLOW_BADLY, self.end)
        batch = self._new_batch(most, most_bytes)
        next_offset, status = queue_offset, GetMessageStatus.NO_MATCHED_MESSAGE
        for _ in range(self.config.travel_cq_file_num_when_get_message):
            read_end = self.queue.get_ends_at(next_offset)
            if read_end is None:
                next_offset = self.queue.get_behind_missing(next_offset)
                status = GetMessageStatus.OFFSET_FOUND_NULL
                break
            unit_size = self.queue.unit_size
            scan_bytes = max(self.config.max_filter_message_size, most * unit_size)
            scan_end = queue_offset - (-scan_bytes // unit_size)
            stop = min(read_end, self.end, scan_end)
            next_offset, status = self._scan(next_offset, stop, batch, tags, status)
            if batch.messages or next_offset >= self.end:
                break
        return self._result(status, next_offset, batch)

    def _new_batch(self, most: int, most_bytes: int) -> _Batch:
        return _Batch(GetLimits(self.config), most, most_bytes)

    def _result(
        self, status: GetMessageStatus, next_offset: int, batch: _Batch | None = None
    ) -> OfflineGetResult:
        messages = batch.messages if batch is not None else []
        size = batch.size if batch is not None else 0
        return OfflineGetResult(status, next_offset, self.start, self.end, size, messages)

    def _scan(
        self, queue_offset: int, stop: int, batch: _Batch, tags: TagFilter, status: GetMessageStatus
    ) -> tuple[int, GetMessageStatus]:
        """Look at the entries of one read up to `stop`; give the offset after the last one looked at, and the status so far."""
        skip_below = -1
        for unit in self.queue.units(queue_offset, stop):
            queue_next, phy_offset, msg_size, tags_code, messages = unit
            if batch.is_full(msg_size, messages):
                break
            queue_offset = queue_next
            if phy_offset < skip_below:
                self._note_missing(unit)
                continue
            by_record = tags_code <= LAST_EXT_ADDRESS
            if not by_record and not tags.matches(tags_code):
                status = batch.status(GetMessageStatus.NO_MATCHED_MESSAGE)
                continue
            message = self.message_at(phy_offset)
            if message is None or message.msg_size != msg_size:
                status = batch.status(GetMessageStatus.MESSAGE_WAS_REMOVING)
                if (phy_offset, msg_size) != (0, CQ_FILLER_SIZE):  # a filler names no file
                    self._note_missing(unit)
                    skip_below = self._skip_below(phy_offset, msg_size)
                continue
            self._note_place(unit, message)
            if by_record and not tags.matches(message.tags_code):
                status = batch.status(GetMessageStatus.NO_MATCHED_MESSAGE)
                continue
            batch.add(message, messages)
            status = GetMessageStatus.FOUND
            skip_below = -1
        return queue_offset, status

    def _note_missing(self, unit: Unit) -> None:
        """Note an entry without a record; old files were deleted with theirs."""
        if not self.log_files or 0 <= unit.phy_offset < self.log_files[0].file_from_offset:
            return
        first = unit.next_offset - unit.messages
        self.wrong.append(WrongEntry(first, unit.phy_offset, unit.msg_size))

    def _note_place(self, unit: Unit, message: MessageView) -> None:
        first = unit.next_offset - unit.messages
        named = named_place(message, self.queue.topic, self.queue.queue_id, first)
        if named:
            self.wrong.append(WrongEntry(first, unit.phy_offset, unit.msg_size, named))

    def _skip_below(self, phy_offset: int, msg_size: int) -> int:
        """Where to go on after a message that is not there: at the next log file when its own file is missing or too short."""
        at = bisect_right(self.log_files, phy_offset, key=lambda file: file.file_from_offset)
        if at > 0 and phy_offset + msg_size <= self.log_files[at - 1].end_offset:
            return -1
        return self.log_files[at].file_from_offset if at < len(self.log_files) else phy_offset + 1


class _Batch:
    """The messages collected so far, and whether these are enough."""

    def __init__(self, limits: GetLimits, most: int, most_bytes: int) -> None:
        self.messages: list[MessageView] = []
        self.size = 0
        self._count = 0
        self._limits = limits
        self._most = most
        self._most_bytes = most_bytes

    def is_full(self, msg_size: int, count: int) -> bool:
        """Return True if the get ends before a record of `msg_size` bytes with `count` messages."""
        most = self._most - (count - 1)
        return self._limits.is_full(
            self._count, self.size, msg_size, most, self._most_bytes, in_memory=True
        )

    def add(self, message: MessageView, count: int) -> None:
        self.messages.append(message)
        self.size += message.msg_size
        self._count += count

    def status(self, otherwise: GetMessageStatus) -> GetMessageStatus:
        """Return FOUND once a message was found, whatever the later entries are; before that `otherwise`."""
        return GetMessageStatus.FOUND if self.messages else otherwise
