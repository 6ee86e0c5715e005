"""Stores with compacted topics: their files as RocketMQ writes them, and a log that has deleted its oldest messages."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from support.places import ROOT
from support.stores.archives import unpack

import rmqcore
from rmqcore import Message
from rmqcore.codec import MessageView

TOPIC = "Keys"
SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 13,
    "mapped_file_size_consume_queue": 20 * 8,
    "max_hash_slot_num": 50,
    "max_index_num": 200,
}
ENTRY_FILE = 46 * 7
LOG_FILE = 6 * ENTRY_FILE
"""Bytes of the files in compactionLog and compactionCq: some are full by their records, others by their entries. RocketMQ makes
files of this size with `JAVA_LOG_FILE` as compactionMappedFileSize (CompactionLog#getCompactionLogSize)."""
JAVA_LOG_FILE = LOG_FILE + 100
ENTRY = struct.Struct(">qiqqqhii")
BLANK_MAGIC = -875286124
PHYSICALOFFSET = 28


def java_store(folder: Path) -> Path:
    """Unpack the store that a broker made."""
    return unpack(ROOT / "tests/conformance/compaction.tar.xz", folder) / "compaction"


def make_store(root: Path, *, messages: int = 150) -> Path:
    """Make a store whose topic `TOPIC` is compacted, beside an ordinary one; the log is whole."""
    clock = iter(range(1_700_000_000_000, 1_700_001_000_000, 7))
    with rmqcore.open(root, clock=lambda: next(clock), **SIZES) as store:
        for number in range(messages):
            body = b"value %d " % number + b"x" * (number * 37 % 150)
            key = f"once{number}" if number % 5 == 0 else f"k{number % 8}"
            message = Message(TOPIC, body, number % 2, tags=f"T{number % 3}", keys=[key])
            store.put(message).raise_for_status()
            store.put(Message("Orders", b"order", number % 2)).raise_for_status()
        store.wait_dispatched()
    with rmqcore.read(root) as reader:
        views = list(reader.messages(topics=[TOPIC]))
    for queue_id in (0, 1):
        write(root, queue_id, live([view for view in views if view.queue_id == queue_id]))
    (root / "compaction" / "position-checkpoint").write_text('{"empty":true,"queueOffsetMap":{}}')
    return root


def live(views: Iterable[MessageView], *, uncompacted: int = 5) -> list[MessageView]:
    """The messages that a compaction keeps: the newest of each key, and all of the newest ones, which it has not looked at."""
    of_queue = list(views)
    newest = {view.keys[0]: view.queue_offset for view in of_queue}
    end = len(of_queue) - uncompacted
    return [
        view
        for number, view in enumerate(of_queue)
        if number >= end or newest[view.keys[0]] == view.queue_offset
    ]


def write(root: Path, queue_id: int, views: Iterable[MessageView], topic: str = TOPIC) -> None:
    """Write the files of a queue. Source: RocketMQ 5.5.0 CompactionLog.CompactionAppendMessageCallback."""
    log, entries = bytearray(), bytearray()
    base = 0
    for view in views:
        record = bytearray(view.raw)
        if len(log) + len(record) + 8 > LOG_FILE or len(entries) + ENTRY.size >= ENTRY_FILE:
            entries += ENTRY.pack(-1, 0, 0, 0, 0, 0, -1, 0)
            log += struct.pack(">ii", LOG_FILE - len(log), BLANK_MAGIC)
            _files(root, topic, queue_id, base, log, entries)
            log, entries = bytearray(), bytearray()
            base += LOG_FILE
        place = base + len(log)
        record[PHYSICALOFFSET : PHYSICALOFFSET + 8] = place.to_bytes(8, "big")
        fields = view.tags_code, view.store_timestamp_ms, view.queue_offset
        entries += ENTRY.pack(place, len(record), *fields, 1, -1, 0)
        log += record
    _files(root, topic, queue_id, base, log, entries)


def _files(
    root: Path, topic: str, queue_id: int, base: int, log: bytearray, entries: bytearray
) -> None:
    for part, data, size in (
        ("compactionLog", log, LOG_FILE),
        ("compactionCq", entries, ENTRY_FILE),
    ):
        file = root / "compaction" / part / topic / str(queue_id) / f"{base:020d}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes(data) + bytes(size - len(data)))


def clean(root: Path, files: int = 2) -> Path:
    """Delete the oldest files of the log, as RocketMQ's cleaner does."""
    for file in sorted((root / "commitlog").iterdir())[:files]:
        file.unlink()
    return root


def parts(root: Path, queue_id: int = 0, topic: str = TOPIC) -> Iterator[tuple[Path, Path]]:
    """Each file of a queue's log, and that of its entries."""
    for file in sorted((root / "compaction/compactionLog" / topic / str(queue_id)).iterdir()):
        yield file, root / "compaction/compactionCq" / topic / str(queue_id) / file.name
