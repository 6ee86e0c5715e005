"""A whole store as slow, obvious Python over a directory held in memory: what the engine does must be what this does.

Nothing of rmqcore is imported here. A directory is an `Image`: the bytes of its files by their path. `ModelStore.open` recovers
one, puts and dispatch change it, `close` leaves it as a clean exit does. The rules are those of RocketMQ 5.5.0; the golden stores
(tests/conformance) hold this model to them. Where the package decided to do better than Java the code says "ours".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from support.oracle import records as oracle
from support.oracle.index import NEVER, Hits, Indexes
from support.oracle.log import (
    BLANK_SIZE,
    RECORD_OVER_BODY,
    Checks,
    Log,
    encode_at,
    is_queued,
    size_of,
)
from support.oracle.queue import ENTRY, Queue
from support.oracle.records import Host, IndexFile, Record

Image = dict[str, bytes]
Place = tuple[str, int]

LOOPBACK = Host(b"\x7f\0\0\1", 0)
INNER_BATCH = 0x80
MULTI_DISPATCH, MULTI_OFFSET = "INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET"
LIGHT = "%LMQ%"
NO_LIGHT = ("%RETRY%", "rmq_sys_")
NO_LIGHT_PUT = (*NO_LIGHT, "%DLQ%")
MOST_PROPERTIES, MOST_TOPIC = 32767, 255
LAST_OFFSET = (1 << 63) // ENTRY - (1 << 32)
MOST_TOTAL, LEAST_TOTAL = 128 << 20, 100


def java_split(text: str) -> list[str]:
    """String.split at commas: without empty texts at the end."""
    parts = text.split(",")
    while parts and not parts[-1]:
        parts.pop()
    return parts


def names_directory(topic: bytes) -> bool:
    """Ours: a topic is the name of a directory, whoever puts it. Java takes 255 bytes of anything."""
    dots = topic in (b".", b"..")
    return 1 <= len(topic) <= MOST_TOPIC and not dots and b"/" not in topic and b"\0" not in topic


def read_image(root: Path) -> Image:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def flushed(index: IndexFile) -> bytes:
    """IndexFile#flush writes the count of an empty file too, which was 0 before."""
    data = bytearray(index.encode())
    data[36:40] = index.index_count.to_bytes(4, "big")
    return bytes(data)


@dataclass(frozen=True)
class ModelConfig:
    """The fields of MessageStoreConfig that the model knows, under the same names and with the same meaning."""

    mapped_file_size_commit_log: int = 4096
    mapped_file_size_consume_queue: int = 200
    max_hash_slot_num: int = 8
    max_index_num: int = 20
    max_message_size: int = 4 << 20
    enabled_append_prop_crc: bool = False
    force_verify_prop_crc: bool = False
    check_crc_on_recover: bool = True
    check_commit_log_offset_on_recover: bool = True
    commit_log_recover_max_num: int = 10
    message_index_enable: bool = True
    message_index_safe: bool = False
    enable_lmq: bool = False
    enable_multi_dispatch: bool = False
    flush_disk_type: str = "ASYNC_FLUSH"
    max_msgs_num_batch: int = 64
    max_filter_message_size: int = 16_000
    max_transfer_bytes_on_message_in_memory: int = 256 * 1024
    max_transfer_count_on_message_in_memory: int = 32
    max_transfer_bytes_on_message_in_disk: int = 64 * 1024
    max_transfer_count_on_message_in_disk: int = 8
    access_message_in_memory_max_ratio: int = 40

    @property
    def cq_file_size(self) -> int:
        return -(-self.mapped_file_size_consume_queue // ENTRY) * ENTRY

    @property
    def checks(self) -> Checks:
        prop_crc = self.check_crc_on_recover and self.force_verify_prop_crc
        return Checks(
            body_crc=self.check_crc_on_recover and not prop_crc,
            prop_crc=prop_crc,
            place=self.check_commit_log_offset_on_recover,
        )


@dataclass(frozen=True)
class ModelMessage:
    """What a caller gives to a put."""

    topic: str
    body: bytes
    queue_id: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    flag: int = 0
    sys_flag: int = 0
    born_timestamp_ms: int | None = None
    born_host: Host = LOOPBACK
    store_host: Host = LOOPBACK
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0

    def record(self, now_ms: int, *, prop_crc: bool) -> Record:
        properties = {
            k: v for k, v in self.properties.items() if not (prop_crc and k == oracle.CRC_NAME)
        }
        return Record(
            self.topic.encode(),
            self.body,
            oracle.encode_properties(properties),
            queue_id=self.queue_id,
            flag=self.flag,
            sys_flag=self.sys_flag,
            born_timestamp_ms=now_ms if self.born_timestamp_ms is None else self.born_timestamp_ms,
            born_host=self.born_host,
            store_host=self.store_host,
            reconsume_times=self.reconsume_times,
            prepared_transaction_offset=self.prepared_transaction_offset,
        )


@dataclass(frozen=True)
class Put:
    """The answer of a put."""

    status: str
    phy_offset: int = -1
    queue_offset: int = -1
    msg_size: int = 0
    count: int = 0
    msg_id: str | None = None
    store_timestamp_ms: int = 0


@dataclass(frozen=True)
class Get:
    """The answer of a get; records as their phy offsets."""

    status: str
    next_begin_offset: int
    min_offset: int
    max_offset: int
    buffer_total_size: int = 0
    phy_offsets: tuple[int, ...] = ()


@dataclass
class Recovered:
    """What an open did."""

    clean_exit: bool
    end: int = 0
    cut_bytes: int = 0


class NoLog(Exception):
    """There are queues with messages and no CommitLog file: ours refuses, Java deletes the queues."""


class ModelStore:
    """One open store; `open` makes it."""

    def __init__(self, config: ModelConfig) -> None:
        self.config = config
        self.log = Log(config.mapped_file_size_commit_log)
        self.queues: dict[Place, Queue] = {}
        self.indexes = Indexes(config.max_hash_slot_num, config.max_index_num)
        self.next_offsets: dict[Place, int] = {}
        self.flushed = 0
        self.queues_from = self.index_from = 0
        self.covered_from = self.covered_to = -1
        self.behind_dropped = True
        self.map_buckets = 128
        self.recovery = Recovered(clean_exit=True)
        self.aside: dict[str, bytes] = {}

    # ---- where it is --------------------------------------------------------------------------------

    @property
    def confirm_offset(self) -> int:
        return self.flushed if self.config.flush_disk_type == "SYNC_FLUSH" else self.log.end

    @property
    def reput_from(self) -> int:
        return min(self.queues_from, self.index_from)

    @property
    def behind(self) -> int:
        return max(0, self.confirm_offset - self.reput_from)

    def min_offset(self, topic: str, queue_id: int) -> int:
        queue = self.queues.get((topic, queue_id))
        return queue.min_offset if queue else 0

    def max_offset(self, topic: str, queue_id: int) -> int:
        queue = self.queues.get((topic, queue_id))
        return queue.max_offset if queue else 0

    # ---- putting ------------------------------------------------------------------------------------

    def illegal(self, message: ModelMessage, record: Record) -> str | None:
        """The status that refuses a message, None for one that can be stored."""
        if not names_directory(record.topic) or record.queue_id < 0:
            return "MESSAGE_ILLEGAL"
        if record.sys_flag & INNER_BATCH or "INNER_NUM" in message.properties:
            return "MESSAGE_ILLEGAL"
        area = oracle.CRC_AREA if self.config.enabled_append_prop_crc else 0
        if len(record.properties) + area > MOST_PROPERTIES:
            return "PROPERTIES_SIZE_EXCEEDED"
        if len(record.body) > self.config.max_message_size:
            return "MESSAGE_ILLEGAL"
        size = self._size(record)
        # Ours: what fits no file is refused; Java closes two files and answers something in between.
        limit = min(
            self.config.max_message_size + RECORD_OVER_BODY, self.log.file_size - BLANK_SIZE
        )
        return "MESSAGE_ILLEGAL" if size > limit else None

    def _size(self, record: Record) -> int:
        return len(
            oracle.encode_record(record, append_prop_crc=self.config.enabled_append_prop_crc)
        )

    def put(self, message: ModelMessage, now_ms: int) -> Put:
        """DefaultMessageStore#putMessage; under SYNC_FLUSH without threads the put syncs, unless WAIT says otherwise."""
        answer = self.append(message, now_ms)
        if answer.status == "PUT_OK":
            self._sync([message])
        return answer

    def append(self, message: ModelMessage, now_ms: int) -> Put:
        """What a put does before it waits."""
        light = self._light_names(message)
        if light is not None:
            return self._put_light(message, light, now_ms)
        return self._put_plain(message, now_ms)

    def _put_plain(self, message: ModelMessage, now_ms: int) -> Put:
        record = message.record(now_ms, prop_crc=self.config.enabled_append_prop_crc)
        refused = self.illegal(message, record)
        if refused:
            return Put(refused)
        return self._append([record], now_ms)

    def put_many(
        self, messages: Sequence[ModelMessage], now_ms: int, *, to_light: bool = True
    ) -> list[Put]:
        """Each for itself, with one sync for all. Arrow rows never go to light queues."""
        before = self.log.end
        answers = []
        for message in messages:
            light = self._light_names(message) if to_light else None
            if light is not None:
                answers.append(self._put_light(message, light, now_ms))
                continue
            record = message.record(now_ms, prop_crc=self.config.enabled_append_prop_crc)
            refused = self.illegal(message, record)
            answers.append(Put(refused) if refused else self._append([record], now_ms))
        if self.log.end > before and self.config.flush_disk_type == "SYNC_FLUSH":
            self.flush()
        return answers

    def put_batch(self, messages: Sequence[ModelMessage], now_ms: int) -> Put:
        """CommitLog#asyncPutMessages: all of it in one file, or nothing."""
        records = [m.record(now_ms, prop_crc=self.config.enabled_append_prop_crc) for m in messages]
        for message, record in zip(messages, records, strict=True):
            refused = self.illegal(message, record)
            if refused:
                return Put(refused)
        image = sum(22 + len(record.body) + len(record.properties) for record in records)
        delayed = any("DELAY" in message.properties for message in messages)  # ours: also level 0
        if (
            delayed
            or records[0].sys_flag & oracle.TRANSACTION_MASK
            or image > self.config.max_message_size
        ):
            return Put("MESSAGE_ILLEGAL")
        if sum(map(self._size, records)) + BLANK_SIZE > self.log.file_size:
            return Put("MESSAGE_ILLEGAL")
        answer = self._append(records, now_ms)
        self._sync(messages[:1])
        return answer

    def _append(self, records: Sequence[Record], now_ms: int) -> Put:
        prop_crc = self.config.enabled_append_prop_crc
        place = oracle.text_of(records[0].topic), records[0].queue_id
        first = self.next_offsets.get(place, 0) if is_queued(records[0]) else 0
        sizes = [self._size(record) for record in records]
        at = begin = self.log.append(sum(sizes))
        ids = []
        for number, (record, size) in enumerate(zip(records, sizes, strict=True)):
            self.log.write(at, encode_at(record, at, first + number, now_ms, prop_crc=prop_crc))
            ids.append(replace(record, phy_offset=at).msg_id)
            at += size
        if is_queued(records[0]):
            self.next_offsets[place] = first + len(records)
        return Put("PUT_OK", begin, first, sum(sizes), len(records), ",".join(ids), now_ms)

    def _sync(self, messages: Sequence[ModelMessage]) -> None:
        waits = messages[0].properties.get("WAIT", "true").lower() == "true"
        if self.config.flush_disk_type == "SYNC_FLUSH" and waits:
            self.flush()

    # ---- light queues -------------------------------------------------------------------------------

    def _light_names(self, message: ModelMessage) -> list[str] | None:
        if not self.config.enable_lmq:
            return None
        names = message.properties.get(MULTI_DISPATCH, "")
        if message.topic == oracle.SCHEDULE_TOPIC or message.topic.startswith(NO_LIGHT_PUT):
            return None
        return java_split(names) if names.strip() else None

    def _put_light(self, message: ModelMessage, names: list[str], now_ms: int) -> Put:
        """LmqDispatch: the record says which offset it has in each light queue.

        Its properties are encoded anew from a map; WAIT is taken out of that and put in again.
        """
        light = [name for name in names if name.startswith(LIGHT)]
        offsets = {name: self.next_offsets.get((name, 0), 0) for name in light}
        numbers = ",".join(str(offsets.get(name, "")) for name in names)
        read_back = {k: v for k, v in message.properties.items() if k and v}
        given = {k: v for k, v in read_back.items() if k != "WAIT"}
        waits = {k: v for k, v in read_back.items() if k == "WAIT"}
        properties = {**given, MULTI_OFFSET: numbers, **waits}
        changed = replace(message, properties=oracle.hash_map_order(properties, self.map_buckets))
        record = changed.record(now_ms, prop_crc=self.config.enabled_append_prop_crc)
        if (
            self.illegal(changed, record) is None
            and self._size(record) > self.config.max_message_size
        ):
            return Put("MESSAGE_ILLEGAL")
        answer = self._put_plain(changed, now_ms)
        if answer.status == "PUT_OK":
            for name in light:
                if is_queued(record) and (name, 0) == (message.topic, message.queue_id):
                    continue  # the message's own queue has counted it
                self.next_offsets[name, 0] = self.next_offsets.get((name, 0), 0) + 1
        return answer

    # ---- dispatch -----------------------------------------------------------------------------------

    def dispatch(self, end: int | None = None) -> None:
        """Give everything that consumers may see to queues and index."""
        limit = self.confirm_offset if end is None else end
        if self.covered_to != self.queues_from:
            first = self.log.min_offset
            self.covered_from = self.queues_from if self.queues_from > first else -1
        for at, record in self.log.records(max(self.reput_from, self.log.min_offset), limit):
            if at >= self.queues_from:
                self._to_queues(record)
            if at >= self.index_from and self.config.message_index_enable:
                self.indexes.put(record)
        self.queues_from = self.covered_to = max(self.queues_from, limit)
        self.index_from = max(self.index_from, limit)

    def _to_queues(self, record: Record) -> None:
        self._drop_behind()
        if not is_queued(record):
            return
        topic = oracle.text_of(record.topic)
        self._entry(topic, record.queue_id, record, record.queue_offset)
        properties = record.property_map
        if not self.config.enable_multi_dispatch or topic == oracle.SCHEDULE_TOPIC:
            return
        if topic.startswith(NO_LIGHT) or MULTI_DISPATCH not in properties:
            return
        names = java_split(properties[MULTI_DISPATCH])
        offsets = java_split(properties.get(MULTI_OFFSET, ""))
        if len(names) != len(offsets):
            return
        for name, offset in zip(names, offsets, strict=True):
            if offset and name and "/" not in name:
                light = self.config.enable_lmq and name.startswith(LIGHT)
                self._entry(name, 0 if light else record.queue_id, record, int(offset))

    def _entry(self, topic: str, queue_id: int, record: Record, queue_offset: int) -> None:
        """Ours: only where a directory and an offset can be. A put makes nothing else, but bits of a header may flip."""
        if not names_directory(topic.encode()) or queue_id < 0:
            return
        if (topic, queue_id) not in self.queues and not 0 <= queue_offset < LAST_OFFSET:
            return
        queue = self.queues.setdefault((topic, queue_id), Queue(self.config.cq_file_size, topic))
        entry = record.phy_offset, size_of(record), record.tags_code, queue_offset
        if queue.put(*entry, self.covered_from) is not None:
            self.covered_from = (
                -1
            )  # ours: the queues are given the whole log again, then the record
            for _, before in self.log.records(self.log.min_offset, record.phy_offset):
                self._to_queues(before)
            queue.put(*entry)

    def _drop_behind(self) -> None:
        """Ours: before anything new is written, what recovery left behind the ends of the queues goes."""
        if not self.behind_dropped:
            self.behind_dropped = True
            for queue in self.queues.values():
                queue.drop_behind()

    def flush(self) -> None:
        self.flushed = self.log.end

    # ---- asking -------------------------------------------------------------------------------------

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        most: int = 32,
        tags: str | None = None,
        max_bytes: int | None = None,
    ) -> Get:
        """DefaultMessageStore#getMessage. All memory is the machine's: `access_message_in_memory_max_ratio` 0 is "on disk"."""
        cap = MOST_TOTAL if max_bytes is None else min(max(max_bytes, LEAST_TOTAL), MOST_TOTAL)
        queue = self.queues.get((topic, queue_id)) or Queue(self.config.cq_file_size)
        low, high = queue.min_offset, queue.max_offset
        if high == 0:
            return Get("NO_MESSAGE_IN_QUEUE", 0, low, high)
        if offset < low:
            return Get("OFFSET_TOO_SMALL", low, low, high)
        if offset == high:
            return Get("OFFSET_OVERFLOW_ONE", offset, low, high)
        if offset > high:
            return Get("OFFSET_OVERFLOW_BADLY", high, low, high)
        codes = None
        if tags not in (None, "", "*"):
            codes = {oracle.java_hash(tag.strip()) for tag in str(tags).split("||") if tag.strip()}
        config = self.config
        per_file = config.cq_file_size // ENTRY
        if queue.entry(offset) is None:
            return Get("OFFSET_FOUND_NULL", offset - offset % per_file + per_file, low, high)
        scan_limit = max(config.max_filter_message_size, most * ENTRY)
        status, found, total, at, skip_until = "NO_MATCHED_MESSAGE", list[int](), 0, offset, -1
        while at < min(high, offset - offset % per_file + per_file):
            entry = queue.entry(at)
            assert entry is not None
            phy, size, code = entry
            in_memory = config.access_message_in_memory_max_ratio > 0
            if (at - offset) * ENTRY >= scan_limit:
                break
            if found and self._full(len(found), total, size, most, cap, in_memory=in_memory):
                break
            if total >= cap:
                break
            at += 1
            if phy < skip_until:
                continue
            if codes is not None and oracle.wrap(code, 32) not in codes:
                status = status if found else "NO_MATCHED_MESSAGE"
                continue
            if self.log.bytes_at(phy, size, self.log.end) is None or size <= 0:
                status = status if found else "MESSAGE_WAS_REMOVING"
                if (phy, size) != oracle.CQ_FILLER[
                    :2
                ]:  # ours: a filler names no file, so nothing behind it is passed over
                    skip_until = phy - phy % self.log.file_size + self.log.file_size
                continue
            record = self.log.record_at(phy)
            if record is None or record.msg_size != size:
                # Ours: what is no record is left out; Java answers with the bytes that are there.
                status = status if found else "MESSAGE_WAS_REMOVING"
                continue
            found.append(phy)
            total += size
            status, skip_until = "FOUND", -1
        return Get(status, at, low, high, total, tuple(found))

    def _full(
        self, count: int, total: int, size: int, most: int, cap: int, *, in_memory: bool
    ) -> bool:
        config = self.config
        if in_memory:
            most_bytes = config.max_transfer_bytes_on_message_in_memory
            most_count = config.max_transfer_count_on_message_in_memory
        else:
            most_bytes = config.max_transfer_bytes_on_message_in_disk
            most_count = config.max_transfer_count_on_message_in_disk
        return (
            count + 1 > most
            or total + size > cap
            or total + size > most_bytes
            or count > most_count - 1
        )

    def query(
        self,
        topic: str,
        key: str,
        most: int = 32,
        begin_ms: int = 0,
        end_ms: int | None = None,
        index_type: str | None = None,
    ) -> Hits:
        """DefaultMessageStore#queryMessage; entries whose records are gone are left out."""
        most = min(most, self.config.max_msgs_num_batch)
        hits = self.indexes.query(
            topic, key, most, begin_ms, NEVER if end_ms is None else end_ms, index_type
        )
        there = [phy for phy in hits.phy_offsets if self.log.record_at(phy) is not None]
        return replace(hits, phy_offsets=there)

    def lookup(self, phy_offset: int) -> Record | None:
        return self.log.record_at(phy_offset)

    def phy_offset_of(self, topic: str, queue_id: int, queue_offset: int) -> int | None:
        queue = self.queues.get((topic, queue_id))
        entry = queue.entry(queue_offset) if queue else None
        return entry[0] if entry else None

    def offset_by_time(
        self, topic: str, queue_id: int, timestamp_ms: int, boundary: str = "LOWER"
    ) -> int:
        queue = self.queues.get((topic, queue_id))
        if queue is None:
            return 0
        return queue.offset_by_time(
            timestamp_ms, boundary == "UPPER", self.log.min_offset, self.log.time_of
        )

    # ---- opening ------------------------------------------------------------------------------------

    @classmethod
    def open(cls, image: Image, config: ModelConfig) -> ModelStore:
        """DefaultMessageStore#load and #recover."""
        store = cls(config)
        clean = "abort" not in image
        store._load(image)
        store.recovery.clean_exit = clean
        for queue in store.queues.values():
            queue.recover()
        checkpoint = oracle.decode_checkpoint(image.get("checkpoint", bytes(4096)))
        end = store._recover_log(checkpoint, clean=clean)
        store.log.end = store.flushed = store.queues_from = store.index_from = end
        store.recovery.end = end
        for place, queue in store.queues.items():
            queue.correct_min(store.log.min_offset)
            store.next_offsets[place] = queue.max_offset
        if config.message_index_enable:
            store._recover_index(image, checkpoint, end, clean=clean)
        return store

    def _load(self, image: Image) -> None:
        for path, data in sorted(image.items()):
            folder, _, name = path.rpartition("/")
            if folder == "commitlog" and data:
                self.log.files[int(name)] = bytearray(data)
            elif folder.startswith("consumequeue/") and data:
                _, topic, queue_id = folder.split("/")
                queue = self.queues.setdefault(
                    (topic, int(queue_id)), Queue(self.config.cq_file_size, topic)
                )
                queue.files[int(name)] = bytearray(data)
            elif folder == "index" and name.isdigit() and data:
                self.indexes.files.append(IndexFile.decode(data, self.config.max_hash_slot_num))
            elif folder == "cut":
                self.aside[name] = data
        # A directory without files is a queue too, an empty one; an image has no directories.

    def _recover_log(self, checkpoint: Mapping[str, int], *, clean: bool) -> int:
        """CommitLog#recoverNormally, #recoverAbnormally. Answers where the log ends."""
        dispatch_from = self._newest_phy()
        if not self.log.files:
            if dispatch_from > 0:
                raise NoLog
            for queue in self.queues.values():
                queue.__init__(queue.file_size, queue.topic)  # type: ignore[misc]
            return 0
        start = self._start(checkpoint, dispatch_from, clean=clean)
        found = self.log.scan(start, self.config.checks, dispatch_from)
        self.log.end = found.end
        self._truncate(found.end)
        blank_last = found.stop == "blank"
        self.recovery.cut_bytes = self.log.cut(found.end, self.aside, blank_last=blank_last)
        return found.end

    def adopt_queues(self, image: Image) -> None:
        """Ours: recovery made the queues right from the log. Take the files that it left, and their ends by Java's rule."""
        self.queues.clear()
        for path, data in sorted(image.items()):
            folder, _, name = path.rpartition("/")
            if folder.startswith("consumequeue/") and data:
                _, topic, queue_id = folder.split("/")
                place = topic, int(queue_id)
                queue = self.queues.setdefault(place, Queue(self.config.cq_file_size, topic))
                queue.files[int(name)] = bytearray(data)
        for place, queue in self.queues.items():
            queue.recover()
            queue.correct_min(self.log.min_offset)
            self.next_offsets[place] = queue.max_offset

    def adopt_index(self, image: Image) -> None:
        """Ours: recovery compared the index with the log. Take the files that it left."""
        files = sorted(p for p, data in image.items() if p.startswith("index/") and data)
        slots = self.config.max_hash_slot_num
        self.indexes.files = [IndexFile.decode(image[path], slots) for path in files]

    def misplaced(self) -> list[tuple[Place, int, int]]:
        """Records of the log whose place holds something else: queue, queue offset, CommitLog offset.

        Of records that name one place any may have it; one that names an earlier place than a record before it may have none.
        """
        asked = _Asked(self.config)
        for _, record in self.log.records(self.log.min_offset, self.log.end):
            asked._to_queues(record)
        found = []
        for (place, queue_offset), records in asked.wanted.items():
            queue = self.queues.get(place)
            entry = queue.entry(queue_offset) if queue else None
            if entry is None or entry[:2] not in [(r.phy_offset, size_of(r)) for r in records]:
                found.append((place, queue_offset, records[-1].phy_offset))
        return found

    def _newest_phy(self) -> int:
        return max((queue.max_phy for queue in self.queues.values()), default=-1)

    def _truncate(self, end: int) -> int:
        cut = 0
        if self._newest_phy() >= end:
            cut = sum(queue.truncate(end) for queue in self.queues.values())
        self.behind_dropped = False
        self._drop_behind()
        return cut

    def _start(self, checkpoint: Mapping[str, int], dispatch_from: int, *, clean: bool) -> int:
        """CommitLog#isMappedFileMatchedRecover over the newest files."""
        starts = self.log.starts
        looked_at = starts[-self.config.commit_log_recover_max_num :]
        while 0 <= dispatch_from < looked_at[0] and len(looked_at) < len(starts):
            looked_at = starts[-len(looked_at) - 1 :]  # ours: as far back as the queues end
        for start in reversed(looked_at):
            first = self.log.first_record(start, self.config.checks)
            if first is None or first.store_timestamp_ms == 0:
                continue
            index_safe = self.config.message_index_enable and self.config.message_index_safe
            if index_safe and first.store_timestamp_ms > checkpoint["index_msg_timestamp_ms"]:
                continue
            if clean:
                matches = first.phy_offset <= dispatch_from
            elif checkpoint["logics_physical_offset"] > 0:
                matches = first.phy_offset <= checkpoint["logics_physical_offset"]
            else:
                matches = first.store_timestamp_ms <= checkpoint["logics_msg_timestamp_ms"]
            if matches:
                return start
        return looked_at[0]

    def _recover_index(
        self, image: Image, checkpoint: Mapping[str, int], end: int, *, clean: bool
    ) -> None:
        """Ours: the index is complete again after the next dispatch, whatever was lost."""
        missing = not any(path.startswith("index/") and data for path, data in image.items())
        if not clean:
            self.indexes.load_after_crash(checkpoint["index_msg_timestamp_ms"])
        trimmed = self.indexes.trim(end)
        if not clean or missing or trimmed:
            self.index_from = max(self.indexes.resume_offset(), self.log.min_offset)

    # ---- closing ------------------------------------------------------------------------------------

    def close(self) -> None:
        self.flush()
        self.dispatch()

    def image(self) -> Image:
        """CommitLog, queue and cut files as they are now; index files by their number, for their names are times."""
        files: Image = {}
        for start, data in self.log.files.items():
            files[f"commitlog/{start:020}"] = bytes(data)
        for (topic, queue_id), queue in self.queues.items():
            for start, data in queue.files.items():
                files[f"consumequeue/{topic}/{queue_id}/{start:020}"] = bytes(data)
        for number, index in enumerate(self.indexes.files):
            files[f"index/{number}"] = flushed(index)
        for name, cut in self.aside.items():
            files[f"cut/{name}"] = cut
        return files


class _Asked(ModelStore):
    """A store that only notes which record asks for an entry where."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.wanted: dict[tuple[Place, int], list[Record]] = {}
        self.high: dict[Place, int] = {}

    def _entry(self, topic: str, queue_id: int, record: Record, queue_offset: int) -> None:
        high = self.high.get((topic, queue_id), -1)
        if names_directory(topic.encode()) and queue_id >= 0 and high < queue_offset < LAST_OFFSET:
            self.high[topic, queue_id] = queue_offset
            self.wanted.setdefault(((topic, queue_id), queue_offset), []).append(record)
