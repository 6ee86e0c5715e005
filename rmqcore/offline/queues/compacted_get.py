"""Reading messages of a compacted queue: its own rules of getMessage over its own log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rmqcore.config import MessageStoreConfig
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.queues.compacted_queue import CompactedQueue
from rmqcore.offline.queues.get_result import OfflineGetResult
from rmqcore.offline.queues.queue_get import QueueGet
from rmqcore.offline.queues.wrong_entries import QUEUE_ENTRY, entry_damage
from rmqcore.queries.tag_filter import TagFilter
from rmqcore.vocabulary.status import GetMessageStatus


class CompactedGet(QueueGet):
    """One get of a compacted queue; offsets without a message are stepped over, also before the first one.

    Parameters
    ----------
    compacted : CompactedQueue
    config : MessageStoreConfig

    Notes
    -----
    Source: RocketMQ 5.5.0 CompactionLog#getMessage. It ignores the tags of a consumer, whose client leaves out the others; here a
    filter compares hashes of tags, as for other queues.
    """

    def __init__(self, compacted: CompactedQueue, config: MessageStoreConfig) -> None:
        entries = compacted.entries
        super().__init__(
            entries,
            entries.first_offset(),
            entries.max_offset(),
            compacted.log_files,
            compacted.message_at,
            config,
        )
        self._compacted = compacted

    def run(
        self, queue_offset: int, most: int, tags: TagFilter, most_bytes: int
    ) -> OfflineGetResult:
        """Get from `queue_offset` on; the numbers are those of `messages_of_get` and `bytes_of_get`."""
        found = self._run(queue_offset, most, tags, most_bytes)
        return replace(found, compacted_log=self._compacted.place)

    def _run(
        self, queue_offset: int, most: int, tags: TagFilter, most_bytes: int
    ) -> OfflineGetResult:
        if self.end == 0:
            return self._result(GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0)
        if queue_offset == self.end:
            return self._result(GetMessageStatus.OFFSET_OVERFLOW_ONE, queue_offset)
        if queue_offset > self.end:
            behind = 0 if self.start == 0 else self.end
            return self._result(GetMessageStatus.OFFSET_OVERFLOW_BADLY, behind)
        batch = self._new_batch(most, most_bytes)
        next_offset, status = queue_offset, GetMessageStatus.NO_MATCHED_MESSAGE
        for _ in range(self.config.travel_cq_file_num_when_get_message):
            stop = self.queue.get_ends_at(next_offset)
            if stop is None:  # files were replaced since they were listed
                next_offset, status = 0, GetMessageStatus.OFFSET_FOUND_NULL
                break
            next_offset, status = self._scan(next_offset, stop, batch, tags, status)
            if batch.messages or next_offset >= self.end:
                break
        return self._result(status, next_offset, batch)

    def damage(self) -> Iterator[DamageRange]:
        """Yield what the get met: entries that lead to no record of theirs, and a queue whose entries are all missing."""
        compacted = self._compacted
        yield from entry_damage(
            compacted.topic, compacted.queue_id, self.wrong, place=compacted.place
        )
        if self.end == 0 and compacted.log_files:
            name = compacted.log_files[0].path.name
            field = f"the file of entries {name}"
            found = "missing, or without an entry"
            yield DamageRange(0, 0, QUEUE_ENTRY, compacted.entries_place, field, "entries", found)
