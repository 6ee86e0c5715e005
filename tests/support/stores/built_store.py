"""Whole stores made by hand from the oracle: log, queues, index and checkpoint that agree, to be broken by tests."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path

from support.oracle import records as oracle
from support.oracle.log import QUEUED

PREPARED, COMMIT, ROLLBACK, INNER_BATCH = 0x4, 0x8, 0xC, 0x80
SYS_FLAGS = 0x800
V4_HOST, V6_HOST = oracle.Host(b"\x7f\0\0\1", 0), oracle.Host(bytes(15) + b"\1", 0)
LIGHT = "%LMQ%light"
FILLER = (0, 0x7FFFFFFF, 0)
SLOTS, INDEX_ENTRIES = 16, 64
QUEUE_ENTRIES = 8
ENTRIES_POS = 40 + 4 * SLOTS


def file_name(offset: int) -> str:
    return f"{offset:020d}"


@dataclass
class BuiltStore:
    """Records are put in order and get their places; `write` makes the files a broker would have made of them.

    Files are tiny: 8 entries in a queue file, 63 in an index file. A record's queue offset is the next of its queue.
    """

    root: Path
    log_file_size: int = 4096
    index_tags: bool = True
    records: list[oracle.Record] = field(default_factory=list)
    queues: dict[tuple[str, int], dict[int, tuple[int, int, int]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    log: bytearray = field(default_factory=bytearray)

    def put(
        self,
        topic: str | bytes = "T",
        queue_id: int = 0,
        *,
        body: bytes = b"body",
        properties: dict[str, str] | None = None,
        sys_flag: int = 0,
        queue_offset: int | None = None,
        prop_crc: bool = False,
        keyed: bool = True,
    ) -> oracle.Record:
        """Append a record, with its queue entry if its kind has one; without `keyed` it has a tag and no key."""
        name = oracle.text_of(topic) if isinstance(topic, bytes) else topic
        number = len(self.records)
        text = {
            "UNIQ_KEY": f"U{number}",
            "KEYS": f"K{number} M{number % 3}",
            "TAGS": f"G{number % 2}",
        }
        if not keyed:
            text = {"TAGS": text["TAGS"]}
        entries = self.queues[name, queue_id]
        has_entry = sys_flag & oracle.TRANSACTION_MASK in QUEUED
        record = oracle.Record(
            topic.encode() if isinstance(topic, str) else topic,
            body,
            oracle.encode_properties(text | (properties or {})),
            queue_id=queue_id,
            queue_offset=(max(entries, default=-1) + 1 if queue_offset is None else queue_offset)
            if has_entry
            else 0,
            phy_offset=len(self.log),
            sys_flag=sys_flag,
            born_host=V6_HOST if sys_flag & oracle.BORN_V6 else V4_HOST,
            store_host=V6_HOST if sys_flag & oracle.STORE_V6 else V4_HOST,
            store_timestamp_ms=1_700_000_000_000 + 700 * number,
        )
        data = oracle.encode_record(record, append_prop_crc=prop_crc)
        room = self.log_file_size - len(self.log) % self.log_file_size
        if len(data) + 8 > room:
            self.log += oracle.blank(room).ljust(room, b"\0")
            record = replace(record, phy_offset=len(self.log))
            data = oracle.encode_record(record, append_prop_crc=prop_crc)
        self.log += data
        record = replace(record, msg_size=len(data))
        if has_entry:
            entries[record.queue_offset] = (record.phy_offset, len(data), record.tags_code)
        self.records.append(record)
        return record

    def fill(self, count: int = 60) -> BuiltStore:
        """Records in two topics of two queues."""
        for number in range(count):
            self.put("T" if number % 3 else "Other", number % 2)
        return self

    def fill_with_sys_flags(self) -> BuiltStore:
        """A record with every value of the bits that RocketMQ gives a meaning to, in one queue and a light one."""
        light = self.queues[LIGHT, 0]
        for sys_flag in range(SYS_FLAGS):
            further = {"INNER_MULTI_DISPATCH": LIGHT, "INNER_MULTI_QUEUE_OFFSET": str(len(light))}
            batch = {"INNER_NUM": "3", "INNER_BASE": "7"}
            record = self.put(sys_flag=sys_flag, properties=further | batch)
            if sys_flag & oracle.TRANSACTION_MASK in QUEUED:
                entry = record.phy_offset, record.msg_size or 0, record.tags_code
                light[len(light)] = entry
        return self

    def write(self, *, abort: bool = False) -> Path:
        """Write all files; answer the root."""
        self.write_log()
        self.write_queues()
        self.write_index()
        self.write_checkpoint()
        if abort:
            (self.root / "abort").write_text("1")
        return self.root

    def write_log(self) -> None:
        folder = self.root / "commitlog"
        folder.mkdir(parents=True, exist_ok=True)
        for start in range(0, max(len(self.log), 1), self.log_file_size):
            data = bytes(self.log[start : start + self.log_file_size])
            (folder / file_name(start)).write_bytes(data.ljust(self.log_file_size, b"\0"))

    def write_queues(self) -> None:
        for (topic, queue_id), entries in self.queues.items():
            if not entries:
                continue
            folder = self.root / "consumequeue" / topic / str(queue_id)
            folder.mkdir(parents=True, exist_ok=True)
            first = min(entries) - min(entries) % QUEUE_ENTRIES
            for start in range(first, max(entries) + 1, QUEUE_ENTRIES):
                places = range(start, start + QUEUE_ENTRIES)
                missing = [FILLER if place < min(entries) else (0, 0, 0) for place in places]
                listed = [
                    entries.get(place, other) for place, other in zip(places, missing, strict=True)
                ]
                (folder / file_name(20 * start)).write_bytes(oracle.pack_cq(listed))

    def write_index(self) -> None:
        folder = self.root / "index"
        folder.mkdir(parents=True, exist_ok=True)
        records = self.records
        if not self.index_tags:
            records = [replace(record, properties=_without_tags(record)) for record in records]
        for number, file in enumerate(oracle.build_index(records, SLOTS, INDEX_ENTRIES)):
            (folder / f"2023111422132{number:04d}").write_bytes(file.encode())

    def write_checkpoint(self, **changes: int) -> None:
        newest = max((record.store_timestamp_ms for record in self.records), default=0)
        last = self.records[-1].phy_offset if self.records else 0
        values = {
            "physic_msg_timestamp_ms": newest,
            "logics_msg_timestamp_ms": newest,
            "confirm_phy_offset": last,
            "logics_physical_offset": last,
        }
        (self.root / "checkpoint").write_bytes(oracle.encode_checkpoint(values | changes))

    # ---- places in files ------------------------------------------------------------------------

    def log_file(self, phy_offset: int) -> tuple[Path, int]:
        """The file of a CommitLog offset and the position there."""
        pos = phy_offset % self.log_file_size
        return self.root / "commitlog" / file_name(phy_offset - pos), pos

    def change_log(self, phy_offset: int, data: bytes) -> None:
        patch(*self.log_file(phy_offset), data)

    def queue_file(self, topic: str, queue_id: int, queue_offset: int) -> tuple[Path, int]:
        """The file of a queue offset and the position there."""
        place = queue_offset % QUEUE_ENTRIES
        name = file_name(20 * (queue_offset - place))
        return self.root / "consumequeue" / topic / str(queue_id) / name, 20 * place

    def change_entry(
        self, topic: str, queue_id: int, queue_offset: int, entry: tuple[int, int, int]
    ) -> None:
        patch(*self.queue_file(topic, queue_id, queue_offset), oracle.pack_cq([entry]))

    def index_file(self, number: int = 0) -> Path:
        return sorted((self.root / "index").iterdir())[number]


def patch(path: Path, pos: int, data: bytes) -> None:
    """Overwrite bytes of a file."""
    content = bytearray(path.read_bytes())
    content[pos : pos + len(data)] = data
    path.write_bytes(content)


def _without_tags(record: oracle.Record) -> bytes:
    kept = {name: value for name, value in record.property_map.items() if name != "TAGS"}
    return oracle.encode_properties(kept)
