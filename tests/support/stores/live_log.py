"""A CommitLog that grows as under a broker: files allocated in full, records one after the other, BLANK at the end."""

from __future__ import annotations

from pathlib import Path

from rmqcore import Message, codec

BLANK_MAGIC = -875286124
START_MS = 1_700_000_000_000


class LiveLog:
    """Appends to a store's commitlog/ while somebody else reads it."""

    def __init__(self, root: Path, *, file_size: int = 4096) -> None:
        self.root = root
        self.file_size = file_size
        self.end = 0
        self.count = 0
        (root / "commitlog").mkdir(parents=True, exist_ok=True)

    def path(self, phy_offset: int) -> Path:
        return self.root / "commitlog" / f"{phy_offset // self.file_size * self.file_size:020}"

    def allocate(self, phy_offset: int) -> None:
        """Make the file of an offset, all zeros, as a broker does ahead of need."""
        if not self.path(phy_offset).exists():
            self.path(phy_offset).write_bytes(bytes(self.file_size))

    def record(self, topic: str = "Orders", body: bytes = b"", **fields: object) -> bytes:
        """The next record's bytes; rolls to the next file when this one has no room."""
        message = Message(topic, body or f"message {self.count}".encode(), **fields)  # type: ignore[arg-type]
        raw = self._encode(message)
        room = self.file_size - self.end % self.file_size
        if len(raw) + 8 > room:
            self.write(
                self.end, room.to_bytes(4, "big") + BLANK_MAGIC.to_bytes(4, "big", signed=True)
            )
            self.end += room
            raw = self._encode(message)
        return raw

    def _encode(self, message: Message) -> bytes:
        time_ms = START_MS + 1000 * self.count
        return codec.encode(
            message, phy_offset=self.end, queue_offset=self.count, store_timestamp_ms=time_ms
        )

    def write(self, phy_offset: int, data: bytes) -> None:
        """Put bytes somewhere in the log."""
        self.allocate(phy_offset)
        with self.path(phy_offset).open("r+b") as file:
            file.seek(phy_offset % self.file_size)
            file.write(data)

    def append(self, topic: str = "Orders", body: bytes = b"", **fields: object) -> int:
        """Append a message; answer its CommitLog offset."""
        raw = self.record(topic, body, **fields)
        self.write(self.end, raw)
        return self.finish(raw)

    def finish(self, raw: bytes) -> int:
        """Count a record that has been written."""
        at = self.end
        self.end += len(raw)
        self.count += 1
        return at
