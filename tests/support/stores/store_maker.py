"""Small whole stores, made by the oracle: every file as RocketMQ would have left it after a clean exit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from support.oracle import records as oracle

TOPICS = [b"TopicA", b"%RETRY%group", "日本".encode(), oracle.SCHEDULE_TOPIC.encode()]
START_MS = 1_700_000_000_000


def sample_records(count: int) -> list[oracle.Record]:
    """Records of several topics, queues, sizes, versions, hosts and transaction types; the same ones every time."""
    records = []
    for i in range(count):
        pairs = {
            "TAGS": f"Tag{i % 3}",
            "KEYS": f"k{i % 11} all",
            "UNIQ_KEY": f"{i:032X}",
            "WAIT": "true",
        }
        if i % 4 == 3:
            pairs["DELAY"] = str(i % 20)
        records.append(
            oracle.Record(
                TOPICS[i % 4] + (b"x" * 130 if i % 10 == 9 else b""),
                bytes([i % 256]) * (i * 37 % 400),
                oracle.encode_properties(pairs if i % 5 else {}),
                queue_id=i % 2,
                sys_flag=(0, 0, 8, 0, 4, 0, 12)[i % 7],
                born_host=oracle.Host(bytes(range(16)), 1)
                if i % 6 == 5
                else oracle.Host(b"\x0a\0\0\1", i),
                store_timestamp_ms=START_MS + 700 * i,
                store_host=oracle.Host(b"\x7f\0\0\1", 10911),
            )
        )
    return records


@dataclass
class MadeStore:
    """The files by their path under the root, and the records as they lie in the log."""

    files: dict[str, bytes] = field(default_factory=dict)
    records: list[oracle.Record] = field(default_factory=list)

    def write(self, root: Path) -> Path:
        for name, data in self.files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return root


def make_store(
    records: Iterable[oracle.Record],
    *,
    log_file_size: int = 4096,
    cq_file_entries: int = 10,
    slot_count: int = 20,
    index_capacity: int = 40,
    append_prop_crc: bool = False,
    clean_exit: bool = True,
) -> MadeStore:
    """Lay records out as a store does: rolled log files, queue files, index files, the checkpoint."""
    store = MadeStore()
    log = bytearray()
    queues: dict[tuple[str, int], list[tuple[int, int, int]]] = {}
    for record in records:
        queued = record.sys_flag & 4 == 0  # not PREPARED, not ROLLBACK
        entries = (
            queues.setdefault((oracle.text_of(record.topic), record.queue_id), []) if queued else []
        )
        size = len(oracle.encode_record(record, append_prop_crc=append_prop_crc))
        room = log_file_size - len(log) % log_file_size
        if size + 8 > room:
            log += oracle.blank(room) + bytes(room - 8)
        placed = replace(record, phy_offset=len(log), queue_offset=len(entries))
        raw = oracle.encode_record(placed, append_prop_crc=append_prop_crc)
        log += raw
        read = oracle.decode_record(raw)
        assert isinstance(read, oracle.Record)
        store.records.append(read)
        if queued:
            entries.append((placed.phy_offset, size, read.tags_code))
    log += bytes(-len(log) % log_file_size)
    for start in range(0, len(log), log_file_size):
        store.files[f"commitlog/{start:020}"] = bytes(log[start : start + log_file_size])
    for (topic, queue_id), entries in queues.items():
        for first in range(0, max(len(entries), 1), cq_file_entries):
            data = oracle.pack_cq(entries[first : first + cq_file_entries])
            store.files[f"consumequeue/{topic}/{queue_id}/{20 * first:020}"] = data.ljust(
                20 * cq_file_entries, b"\0"
            )
    for number, file in enumerate(oracle.build_index(store.records, slot_count, index_capacity)):
        store.files[f"index/{20231114221320000 + number}"] = file.encode()
    last = store.records[-1] if store.records else None
    times = dict.fromkeys(oracle.CHECKPOINT_FIELDS[:2], last.store_timestamp_ms if last else 0)
    store.files["checkpoint"] = oracle.encode_checkpoint(
        {**times, "logics_physical_offset": last.phy_offset if last else 0}
    )
    store.files["lock"] = b"lock"
    if not clean_exit:
        store.files["abort"] = b"4711"
    return store
