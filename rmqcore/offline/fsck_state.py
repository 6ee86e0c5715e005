"""What a check keeps of each queue, and of what is lost."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rmqcore.offline.queues import QueueFiles


@dataclass(slots=True)
class QueueState:
    """What is known of a queue while the log goes by.

    Attributes
    ----------
    next_offset : int
        Entries before are accounted for.
    late : int
        Records without an entry since the last record that has one: dispatch may lag behind the log.
    """

    topic: str
    queue_id: int
    files: QueueFiles | None
    next_offset: int = 0
    late: int = 0
    late_bytes: int = 0
    late_from: tuple[int, int] = (0, 0)
    holes: list[tuple[int, int]] = field(default_factory=list)
    refreshed_in: int = -1

    @property
    def end_of_files(self) -> int:
        """The queue offset behind the last file's room."""
        if self.files is None or not self.files.files:
            return 0
        last = self.files.files[-1]
        return last.first_offset + last.entry_count

    @property
    def path(self) -> str:
        """The queue's directory, as findings name it."""
        return f"consumequeue/{self.topic}/{self.queue_id}"

    def in_hole(self, start: int, stop: int) -> bool:
        """Whether queue offsets [start, stop) lie in a missing file."""
        return any(begin <= start and stop <= end for begin, end in self.holes)


@dataclass(slots=True)
class Lost:
    """Messages that cannot be fetched through their queue."""

    records: int = 0
    bytes: int = 0
    queues: dict[tuple[str, int], int] = field(default_factory=dict)

    def add(self, state: QueueState, records: int, size: int) -> None:
        """Note messages of a queue."""
        self.records += records
        self.bytes += size
        key = (state.topic, state.queue_id)
        self.queues[key] = self.queues.get(key, 0) + records

    def as_dict(self) -> dict[str, Any]:
        """Records, bytes, and records by queue as plain JSON values."""
        queues = [
            {"topic": topic, "queue_id": queue_id, "records": records}
            for (topic, queue_id), records in sorted(self.queues.items())
        ]
        return {"records": self.records, "bytes": self.bytes, "queues": queues}


def read_into(path: Path, out: memoryview, pos: int) -> None:
    """Fill `out` from byte `pos` of a file; at the file's end what is not there is left as it is."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.preadv(fd, [out], pos)
    finally:
        os.close(fd)
