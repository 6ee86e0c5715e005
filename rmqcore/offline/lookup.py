"""Lookups in a store's files, with the answers that Java's store would give after loading them."""

from __future__ import annotations

from operator import index
from typing import Protocol

from rmqcore._native.format.codec import MessageView
from rmqcore._native.queues.get_limits import bytes_of_get, messages_of_get
from rmqcore.codec import parse_msg_id
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.paths import MAX_OFFSET, StorePaths
from rmqcore.errors import RocksdbError
from rmqcore.errors.arguments import check_ints
from rmqcore.offline.index.index_files import (
    IndexFileReader,
    find_index_files,
    unasked_files,
    wrong_entry,
)
from rmqcore.offline.index_coverage import AskedKey, IndexCoverage
from rmqcore.offline.info import log_end
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.log_files import LogFile
from rmqcore.offline.log.window import record_at
from rmqcore.offline.queues.compacted_get import CompactedGet
from rmqcore.offline.queues.compacted_queue import compacted_queue
from rmqcore.offline.queues.get_result import OfflineGetResult
from rmqcore.offline.queues.queue_get import QueueGet
from rmqcore.offline.queues.queue_reader import QueueFiles
from rmqcore.offline.queues.queues import max_offset, min_offset, queue_of
from rmqcore.offline.queues.uncovered import uncovered
from rmqcore.offline.queues.wrong_entries import (
    WrongEntry,
    bytes_behind,
    entry_damage,
    file_damage,
)
from rmqcore.offline.rocksdb.index_database import (
    AskedIndex,
    IndexDatabase,
    asked_index,
    damage_of,
)
from rmqcore.queries.asked import check_get, check_place, check_query
from rmqcore.queries.index_query import (
    TAG_TYPE,
    IndexAnswer,
    has_key,
    has_key_hash,
    hash_of,
    query_offsets,
)
from rmqcore.queries.query_answer import QueryAnswer
from rmqcore.queries.tag_filter import TagFilter
from rmqcore.queries.time_search import Boundary

__all__ = ["OfflineGetResult", "StoreFiles", "StoreLookup"]

MORE_ENTRIES = 8
"""Factor by which more entries are asked for, if too few of the ones before lie in the wanted time."""


class StoreFiles(Protocol):
    """The store as a lookup uses it; implemented by `rmqcore.offline.reader.StoreReader`."""

    @property
    def paths(self) -> StorePaths:
        """Where the parts of the store lie."""

    def log_files(self) -> list[LogFile]:
        """The CommitLog files, ordered by offset."""

    def message_at(self, phy_offset: int) -> MessageView | None:
        """The message whose record starts there; None when no record does."""


class StoreLookup:
    """Lookups in one store; remembers between calls where its queues end.

    Parameters
    ----------
    store : StoreFiles
    config : MessageStoreConfig, optional
        Limits of a get and of a query; Java's defaults when None.

    Attributes
    ----------
    beyond_log : bool
        The queue that was asked last has entries of messages that the log does not have, at its end.
    wrong_entries : list of DamageRange
        Entries that the last get looked at and that lead to no record in the log, or to the record of another place; and
        the first message that it found no entry for.

    Notes
    -----
    Thread safety: a lookup serves one thread at a time.
    """

    def __init__(self, store: StoreFiles, config: MessageStoreConfig | None = None) -> None:
        self._store = store
        self._config = config or MessageStoreConfig()
        self._queues: dict[tuple[str, int], QueueFiles] = {}
        self._slot_count: int | None = None
        self._coverage = IndexCoverage()
        self.beyond_log = False
        self.wrong_entries: list[DamageRange] = []

    def _queue(self, topic: str, queue_id: int) -> QueueFiles:
        """The queue's files as they are now; a queue without a directory has no files."""
        check_place(topic, queue_id)
        queue_id = index(queue_id)  # the directory of True is 1
        queue = self._queues.get((topic, queue_id))
        if queue is not None:
            queue.refresh()
            return queue
        queue = queue_of(self._store.paths, topic, queue_id)
        if queue.files:
            self._queues[topic, queue_id] = queue
        return queue

    def _bounds(self, queue: QueueFiles, log_files: list[LogFile]) -> tuple[int, int]:
        """Min and max offset of a queue.

        Entries past the end of the log do not count. To find that end takes a walk over the last file, so it is done only
        when the message of the newest entry is not in the log.
        """
        log_min = log_files[0].file_from_offset if log_files else 0
        end = known_end = max_offset(queue)
        newest = queue.entries(end - 1, min(end, 1))
        if len(newest):
            phy_offset = int(newest["phy_offset"][0])
            if phy_offset >= log_min and self._store.message_at(phy_offset) is None:
                end = max_offset(queue, log_end(log_files))
        self.beyond_log = end < known_end
        return min_offset(queue, log_min, end), end

    def entries_beyond_log(self, topic: str, queue_id: int) -> list[DamageRange]:
        """Return a range for the newest entry of a queue, if no record lies where it leads; else an empty list."""
        queue = self._queue(topic, queue_id)
        end = max_offset(queue)
        entry = queue.entries(end - 1, min(end, 1))
        if not len(entry) or self._store.message_at(int(entry["phy_offset"][0])) is not None:
            return []  # appended since
        wrong = WrongEntry(end - 1, int(entry["phy_offset"][0]), int(entry["msg_size"][0]))
        return list(entry_damage(topic, queue_id, [wrong]))

    def offsets(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return min and max offset of a queue; (0, 0) for an unknown queue."""
        return self._bounds(self._queue(topic, queue_id), self._store.log_files())

    def get(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_messages: int = 32,
        *,
        tags: str | None = None,
        max_bytes: int | None = None,
    ) -> OfflineGetResult:
        """Return messages of a queue from an offset on, with the status and next offset that Java's store would return.

        As in Java's store, an answer holds at most 32 messages and 256 KiB (but at least one message), a call does not go
        past the end of a queue file, and a filter compares hashes of tags. Messages that the log no longer holds, or holds
        damaged, are left out. A compacted topic is answered from its own log, as by Java (`CompactedGet`).

        Parameters
        ----------
        topic : str
        queue_id : int
        queue_offset : int
        max_messages : int
        tags : str, optional
            ``"TagA"``, ``"TagA || TagB"`` or ``"*"``.
        max_bytes : int, optional
            One message always comes.

        Raises
        ------
        TypeError
            An argument of another type; it is named.
        ValueError
            `max_messages` below 1, no tag in `tags`, or a topic that is no name for a directory.
        """
        check_get(topic, queue_id, queue_offset, max_messages, tags, max_bytes)
        tag_filter = TagFilter(tags)
        most, most_bytes = messages_of_get(max_messages), bytes_of_get(max_bytes)
        compacted = compacted_queue(self._store.paths, topic, index(queue_id))
        if compacted is not None:
            own = CompactedGet(compacted, self._config)
            self.beyond_log = False
            answer = own.run(queue_offset, most, tag_filter, most_bytes)
            self.wrong_entries = list(own.damage())
            return answer
        queue, log_files = self._queue(topic, queue_id), self._store.log_files()
        start, end = self._bounds(queue, log_files)
        run = QueueGet(queue, start, end, log_files, self._store.message_at, self._config)
        found = run.run(queue_offset, most, tag_filter, most_bytes)
        log_min = log_files[0].file_from_offset if log_files else 0
        wrong = entry_damage(topic, queue_id, self._still_wrong(run.wrong))
        self.wrong_entries = [*wrong, *file_damage(queue, found, log_min)]
        if found.next_begin_offset >= end and not self.beyond_log:
            self.wrong_entries += bytes_behind(queue, end, log_min)
        if not self.wrong_entries and not self.beyond_log:
            self.wrong_entries += uncovered(self._store.paths, queue, found, log_files)
        return found

    def _still_wrong(self, wrong: list[WrongEntry]) -> list[WrongEntry]:
        """Leave out entries whose records the cleaner has deleted since the log's files were listed."""
        log_files = self._store.log_files() if wrong else []
        log_min = log_files[0].file_from_offset if log_files else 0
        return [one for one in wrong if one.found or not 0 <= one.phy_offset < log_min]

    def phy_offset_of(self, topic: str, queue_id: int, queue_offset: int) -> int | None:
        """Return the phy offset that a queue entry holds; None outside the queue."""
        check_ints(queue_offset=queue_offset)
        queue = self._queue(topic, queue_id)
        start, end = self._bounds(queue, self._store.log_files())
        if not start <= queue_offset < end:
            return None
        entry = queue.entries(queue_offset, 1)
        return int(entry["phy_offset"][0]) if len(entry) else None

    def offset_by_time(
        self, topic: str, queue_id: int, timestamp_ms: int, boundary: str = "LOWER"
    ) -> int:
        """Return the first queue offset stored at or after a time (LOWER), or the last at or before it (UPPER).

        Raises
        ------
        ValueError
            Another `boundary`.
        """
        check_ints(timestamp_ms=timestamp_ms)
        side = Boundary.of(boundary)
        queue, log_files = self._queue(topic, queue_id), self._store.log_files()
        start, end = self._bounds(queue, log_files)
        log_min = log_files[0].file_from_offset if log_files else 0

        def store_time(phy_offset: int) -> int:
            message = self._store.message_at(phy_offset)
            return -1 if message is None else message.store_timestamp_ms

        return queue.offset_by_time(start, end, log_min, timestamp_ms, side, store_time)

    def query_offsets(
        self,
        topic: str,
        key: str,
        max_messages: int = 32,
        begin_ms: int = 0,
        end_ms: int | None = None,
        *,
        index_type: str | None = None,
    ) -> IndexAnswer:
        """Return the offsets that the index files have for a key, with hash collisions and repeats; see `query`."""
        check_query(topic, key, max_messages, begin_ms, end_ms, index_type)
        limit = min(max_messages, self._config.max_msgs_num_batch)
        last_ms = MAX_OFFSET if end_ms is None else end_ms
        return query_offsets(self._index_files(), topic, key, limit, begin_ms, last_ms, index_type)

    def _index_files(self) -> list[IndexFileReader]:
        readers = find_index_files(self._store.paths, slot_count=self._slot_count)
        if readers and len({reader.slot_count for reader in readers}) == 1:
            self._slot_count = readers[0].slot_count
        return readers

    def query(
        self,
        topic: str,
        key: str,
        max_messages: int = 32,
        begin_ms: int = 0,
        end_ms: int | None = None,
        *,
        index_type: str | None = None,
    ) -> QueryAnswer:
        """Return messages with a key by the index, in physical order, each once.

        Index files and the index in RocksDB (``indexRocksDBEnable``) are asked, where a store has them.

        When there are more messages, the newest are chosen. Messages that only share the key's hash are left out after the
        choice, so the answer can be shorter than `max_messages`.

        Parameters
        ----------
        topic, key : str
        max_messages : int
            Capped at 64 (maxMsgsNumBatch).
        begin_ms, end_ms : int
            Store time, both included, compared with that of each record to the millisecond. The index keeps whole seconds, and
            other times where the clock was set back: it is asked for all times.
        index_type : str, optional
            ``"K"`` a word of KEYS, ``"U"`` UNIQ_KEY, ``"T"`` the TAGS; None either of the first two.

        Raises
        ------
        ValueError
            `max_messages` below 0, another `index_type`, or a time that no long holds.
        RocksdbError, RocksdbMissingError
            The index is in RocksDB alone, and cannot be read.
        """
        check_query(topic, key, max_messages, begin_ms, end_ms, index_type)
        limit = min(max_messages, self._config.max_msgs_num_batch)
        last_ms = MAX_OFFSET if end_ms is None else end_ms
        readers = self._index_files()
        has_files = _have_entries(readers)
        in_rocksdb = asked_index(self._store.paths, has_files=has_files)
        answer = self._entries_in_time(readers, topic, key, limit, begin_ms, last_ms, index_type)
        if in_rocksdb.database is not None:
            try:
                also = self._entries_in_database(
                    in_rocksdb.database, topic, key, limit, begin_ms, last_ms, index_type
                )
            except RocksdbError as error:
                if not has_files:
                    raise
                in_rocksdb = AskedIndex(unread=damage_of(error))
            else:
                answer = _newest_of(answer, also, limit)
        all_times = begin_ms <= 0 and last_ms == MAX_OFFSET
        found = {
            phy_offset: self._store.message_at(phy_offset)
            for phy_offset in dict.fromkeys(answer.phy_offsets)
        }
        return QueryAnswer(
            (
                message
                for message in found.values()
                if message is not None
                and has_key(message, topic, key, index_type)
                and (all_times or begin_ms <= message.store_timestamp_ms <= last_ms)
            ),
            answer.last_update_timestamp_ms,
            answer.last_update_phy_offset,
            [phy_offset for phy_offset, message in found.items() if message is None],
            unasked_files(readers)
            or _wrong_entries(found, hash_of(topic, key, index_type))
            or self._not_indexed(readers, in_rocksdb, AskedKey(topic, key, index_type)),
        )

    def _not_indexed(
        self, readers: list[IndexFileReader], in_rocksdb: AskedIndex, asked: AskedKey
    ) -> list[str]:
        """Return a line for each reason why files and database together may lack messages with a key."""
        lines = self._coverage.lacking(
            self._store.paths,
            readers,
            self._store.log_files(),
            [asked],
            in_rocksdb.database,
            to_end=bool(in_rocksdb.unread),
        )
        if in_rocksdb.unread and (lines or asked.index_type == TAG_TYPE):
            lines.append(in_rocksdb.unread)
        return lines

    def _entries_in_database(
        self,
        database: IndexDatabase,
        topic: str,
        key: str,
        limit: int,
        begin_ms: int,
        end_ms: int,
        index_type: str | None,
    ) -> IndexAnswer:
        """Return the newest entries of a key in RocksDB; one without a record counts, also if the key only may be its own."""
        log_files = self._store.log_files()

        def may_have_key(phy_offset: int) -> bool:
            message = record_at(log_files, phy_offset, most_whole=0)
            return message is None or has_key(message, topic, key, index_type)

        found = database.find(topic, key, limit, begin_ms, end_ms, index_type, has_key=may_have_key)
        end = database.end() if found else None
        if end is None:
            return IndexAnswer([], 0, 0)
        return IndexAnswer(found, end.store_timestamp_ms, end.phy_offset)

    def _entries_in_time(
        self,
        readers: list[IndexFileReader],
        topic: str,
        key: str,
        limit: int,
        begin_ms: int,
        end_ms: int,
        index_type: str | None,
    ) -> IndexAnswer:
        """Return the newest entries of a key whose messages were stored in a time range; one without a record always counts."""
        asked, log_files = limit, self._store.log_files()
        is_in_time: dict[int, bool] = {}
        while True:
            answer = query_offsets(readers, topic, key, asked, 0, MAX_OFFSET, index_type)
            if begin_ms <= 0 and end_ms == MAX_OFFSET:
                return answer
            for phy_offset in answer.phy_offsets:
                if phy_offset not in is_in_time:
                    message = record_at(log_files, phy_offset, most_whole=0)
                    is_in_time[phy_offset] = (
                        message is None or begin_ms <= message.store_timestamp_ms <= end_ms
                    )
            chosen = [phy_offset for phy_offset in answer.phy_offsets if is_in_time[phy_offset]]
            if len(chosen) >= limit or len(answer.phy_offsets) < asked:
                newest = chosen[max(0, len(chosen) - limit) :]
                return IndexAnswer(
                    newest, answer.last_update_timestamp_ms, answer.last_update_phy_offset
                )
            asked *= MORE_ENTRIES

    def lookup_id(self, msg_id: str) -> MessageView | None:
        """Return the message with an offset message id: store host and phy offset in hex, 32 digits or 56 (IPv6).

        None when the record at that offset has another id: a UNIQ_KEY looks alike, and so does another broker's id.

        Raises
        ------
        ValueError
            Not 32 or 56 hex digits.
        """
        message = self._store.message_at(parse_msg_id(msg_id).phy_offset)
        same = message is not None and message.msg_id == msg_id.strip().upper()
        return message if same else None


def _have_entries(readers: list[IndexFileReader]) -> bool:
    return any(reader.header.index_count > 1 for reader in readers)


def _wrong_entries(found: dict[int, MessageView | None], key_hash: int) -> list[str]:
    """Return a line if an entry of a key's hash leads to a message that has no key with this hash."""
    for phy_offset, message in found.items():
        if message is not None and not has_key_hash(message, key_hash):
            return [wrong_entry(phy_offset)]
    return []


def _newest_of(one: IndexAnswer, other: IndexAnswer, limit: int) -> IndexAnswer:
    """Join what the files and the database of an index have for a key: the newest entries, each once."""
    newest = max((one, other), key=lambda answer: answer.last_update_phy_offset)
    joined = sorted({*one.phy_offsets, *other.phy_offsets})
    return IndexAnswer(
        joined[max(0, len(joined) - limit) :],
        newest.last_update_timestamp_ms,
        newest.last_update_phy_offset,
    )
