"""Small stores made by hand: a log of a few messages, and queues of any entries."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from rmqcore import Message, codec
from rmqcore.disk.paths import StorePaths, file_name

LOG_FILE_SIZE = 4096
ENTRIES_PER_FILE = 4


class SmallStore:
    """A store root with files of 4 KiB and queues of 4 entries a file."""

    def __init__(self, root: Path) -> None:
        self.paths = StorePaths(root)
        self.log = bytearray()

    def put(
        self, topic: str = "T", *, store_timestamp_ms: int = 1000, **fields: object
    ) -> tuple[int, int, int]:
        """Append a message and give its queue entry; it is on disk after `write_log`."""
        message = Message(topic, b"body", **fields)  # type: ignore[arg-type]
        record = self._encode(message, store_timestamp_ms)
        room = LOG_FILE_SIZE - len(self.log) % LOG_FILE_SIZE
        if len(record) + 8 > room:
            blank = room.to_bytes(4, "big") + (0xCBD43194).to_bytes(4, "big")
            self.log += blank.ljust(room, b"\0")
            record = self._encode(message, store_timestamp_ms)
        entry = (len(self.log), len(record), codec.decode(record).tags_code)
        self.log += record
        return entry

    def _encode(self, message: Message, store_timestamp_ms: int) -> bytes:
        return codec.encode(
            message, phy_offset=len(self.log), queue_offset=0, store_timestamp_ms=store_timestamp_ms
        )

    def write_log(self) -> None:
        self.paths.commitlog.mkdir(parents=True, exist_ok=True)
        for start in range(0, max(len(self.log), 1), LOG_FILE_SIZE):
            data = bytes(self.log[start : start + LOG_FILE_SIZE]).ljust(LOG_FILE_SIZE, b"\0")
            (self.paths.commitlog / file_name(start)).write_bytes(data)

    def write_queue(
        self,
        entries: Iterable[tuple[int, int, int]],
        topic: str = "T",
        queue_id: int = 0,
        first: int = 0,
    ) -> Path:
        """Write entries from queue offset `first` on, which starts a file; the rest of the last file is zeros."""
        directory = self.paths.queue(topic, queue_id)
        directory.mkdir(parents=True, exist_ok=True)
        listed = list(entries)
        for start in range(0, max(len(listed), 1), ENTRIES_PER_FILE):
            part = listed[start : start + ENTRIES_PER_FILE]
            data = b"".join(codec.pack_cq(*entry) for entry in part).ljust(
                20 * ENTRIES_PER_FILE, b"\0"
            )
            (directory / file_name(20 * (first + start))).write_bytes(data)
        return directory


@pytest.fixture
def small_store(tmp_path: Path) -> SmallStore:
    return SmallStore(tmp_path / "store")
