"""An index in RocksDB, made of a store's messages by hand, with the bytes that Java writes."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import rmqcore
from rmqcore import Message
from rmqcore.codec import MessageView

HOUR_MS = 3_600_000
BEGIN_MS = 1_700_000_000_000
STEP_MS = 120_000
MESSAGES = 120
TOPICS = ("Orders", "A", "Заказы")
SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 13,
    "mapped_file_size_consume_queue": 20 * 8,
    "max_hash_slot_num": 50,
    "max_index_num": 200,
}


def make_store(root: Path) -> Path:
    """Messages of four hours; each seventh has no UNIQ_KEY."""
    clock = iter(range(BEGIN_MS, BEGIN_MS + STEP_MS * (MESSAGES + 50), STEP_MS))
    with rmqcore.open(root, clock=lambda: next(clock), services=False, **SIZES) as store:
        for number in range(MESSAGES):
            uniq = {"UNIQ_KEY": f"U{number:03d}"} if number % 7 else {}
            store.put(
                Message(
                    TOPICS[number % 3],
                    b"body %d" % number,
                    number % 2,
                    tags="TagA" if number % 2 else "Tag@B",
                    keys=[f"k{number % 10}", f"a@K@{number % 5}"],
                    properties=uniq,
                )
            ).raise_for_status()
        while store.dispatch_behind_bytes:
            store.dispatch_once()
    return root


class IndexRows:
    """Writes rows of an index as Java does; an index that is there is continued.

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
        families = {name: Options(raw_mode=True) for name in ("default", "timer", "trans")}
        self._database = Rdict(str(place), options=options, column_families=families)
        self.entries = self._database.get_column_family("default")
        self.timers = self._database.get_column_family("timer")

    def put(self, text: str, stored_ms: int, phy_offset: int) -> None:
        """Put an entry: `text` stands between the hour and the phy offset."""
        hour = struct.pack(">q", stored_ms // HOUR_MS * HOUR_MS)
        key = hour + text.encode() + struct.pack(">q", phy_offset)
        self.entries[key] = struct.pack(">q", stored_ms)

    def put_message(self, view: MessageView) -> None:
        """Put the entries of a message; one without UNIQ_KEY has none."""
        topic, uniq, stored_ms = view.topic, view.uniq_key, view.store_timestamp_ms
        if not uniq:
            return
        texts = [f"@{topic}@K@{key}@{uniq}@" for key in view.keys]
        texts += [f"@{topic}@T@{view.tags}@{uniq}@"] if view.tags else []
        for text in [*texts, f"@{topic}@U@{uniq}@"]:
            self.put(text, stored_ms, view.phy_offset)
        self.end(view.phy_offset, stored_ms)

    def end(self, phy_offset: int, stored_ms: int) -> None:
        """Say which message is the newest one."""
        self.entries[b"lastOffsetPy"] = struct.pack(">q", phy_offset)
        self.entries[b"lastStoreTimeStamp"] = struct.pack(">q", stored_ms)

    def close(self, *, flush: bool = True) -> None:
        """Close it; without `flush` the rows are in the write-ahead log alone, as after a crash."""
        if flush:
            self.entries.flush()
            self.timers.flush()
        self.entries.close()
        self.timers.close()
        self._database.close()
        (self._place / "rocksdict-config.json").unlink(missing_ok=True)


def index_in_rocksdb(
    root: Path, *, flush: bool = True, first: int = 0, count: int = 1 << 30
) -> Path:
    """Enter messages of a store into a database, from the message `first` on; return the database's directory."""
    rows = IndexRows(root / "rocksdbstore")
    for view in list(rmqcore.read(root).messages())[first : first + count]:
        rows.put_message(view)
    rows.close(flush=flush)
    return root / "rocksdbstore"
