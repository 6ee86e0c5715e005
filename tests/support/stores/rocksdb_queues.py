"""Stores with queues in RocksDB: of real RocketMQ, and made of a store's queue files by hand, with the bytes that Java writes."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterable
from pathlib import Path

from support.stores.archives import unpack

import rmqcore

ARCHIVE = Path(__file__).parents[2] / "conformance" / "rocksdb-queues.tar.xz"
"""A small store that RocketMQ 5.5.0 wrote with storeType=defaultRocksDB: 244 messages, 62 queues, 234 entries."""
Row = tuple[int, int, int, int]
"""Phy offset, size, tags code, store time."""


def java_store(folder: Path) -> Path:
    """Unpack the store of RocketMQ."""
    return unpack(ARCHIVE, folder) / "rocksdb-queues"


def entry_key(topic: str, queue_id: int, queue_offset: int) -> bytes:
    name = topic.encode()
    return struct.pack(
        f">i1s{len(name)}s1si1sq", len(name), b"\1", name, b"\1", queue_id, b"\1", queue_offset
    )


def edge_key(topic: str, queue_id: int, which: bytes) -> bytes:
    name = topic.encode()
    return struct.pack(
        f">i1s{len(name)}s1s3s1si", len(name), b"\1", name, b"\1", which, b"\1", queue_id
    )


class Database:
    """Writes rows of queues as Java does.

    Parameters
    ----------
    place : Path
        The directory of the database.
    """

    def __init__(self, place: Path) -> None:
        from rocksdict import Options, Rdict

        self._place = place
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.create_missing_column_families(True)
        families = {"default": Options(raw_mode=True), "offset": Options(raw_mode=True)}
        self._database = Rdict(str(place), options=options, column_families=families)
        self.entries = self._database.get_column_family("default")
        self.offsets = self._database.get_column_family("offset")

    def put(
        self, topic: str, queue_id: int, rows: Iterable[tuple[int, Row]], *, edges: bool = True
    ) -> None:
        """Put entries at their queue offsets; with `edges` the queue begins and ends with them."""
        listed = list(rows)
        for queue_offset, row in listed:
            self.entries[entry_key(topic, queue_id, queue_offset)] = struct.pack(">qiqq", *row)
        if edges and listed:
            for which, (queue_offset, row) in ((b"min", listed[0]), (b"max", listed[-1])):
                self.edge(topic, queue_id, which, row[0], queue_offset)

    def edge(self, topic: str, queue_id: int, which: bytes, phy_offset: int, place: int) -> None:
        """Say where a queue begins or ends."""
        self.offsets[edge_key(topic, queue_id, which)] = struct.pack(">qq", phy_offset, place)

    def close(self, *, flush: bool = True) -> None:
        """Close it; without `flush` the rows are in the write-ahead log alone, as after a crash."""
        if flush:
            self.entries.flush()
            self.offsets.flush()
        self.entries.close()
        self.offsets.close()
        self._database.close()
        (self._place / "rocksdict-config.json").unlink(missing_ok=True)


def in_rocksdb(root: Path, place: str = "consumequeue", *, flush: bool = True) -> Path:
    """Move the queues of a store from its files into a database; answer the database's directory."""
    reader = rmqcore.read(root)
    rows: dict[tuple[str, int], list[tuple[int, Row]]] = {}
    for queue in reader.queues():
        found = rows[queue.topic, queue.queue_id] = []
        for queue_offset in range(queue.min_offset, queue.max_offset):
            (view,) = reader.get(queue.topic, queue.queue_id, queue_offset, 1).messages
            row = view.phy_offset, view.msg_size, view.tags_code, view.store_timestamp_ms
            found.append((queue_offset, row))
    shutil.rmtree(root / "consumequeue")
    (root / "consumequeue").mkdir()
    database = Database(root / place)
    for (topic, queue_id), entries in rows.items():
        database.put(topic, queue_id, entries)
    name = b"CHECKPOINT_TOPIC"
    key = struct.pack(f">i1s{len(name)}s1s3s1si", len(name), b"\1", name, b"\1", b"max", b"\1", 0)
    database.offsets[key] = struct.pack(">q", reader.info().max_phy_offset)
    database.close(flush=flush)
    return root / place
