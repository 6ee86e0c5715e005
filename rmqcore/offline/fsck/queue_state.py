"""What a check remembers of each queue, and of lost messages."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from rmqcore._native.format.layout import CQ_STORE_UNIT_SIZE
from rmqcore.offline.fsck.findings import ERROR, Findings
from rmqcore.offline.fsck.queue_offset_runs import read_into
from rmqcore.offline.queues.queues import Entries, QueueFiles


@dataclass(slots=True)
class QueueState:
    """What is known of a queue while the log goes by.

    Attributes
    ----------
    files : QueueFiles or None
        None when there is no such directory.
    next_offset : int
        Entries before this queue offset are accounted for.
    record_end : int
        The queue offset behind that of the last record.
    late, late_bytes, late_from : int, int, (int, int)
        Records without an entry since the last record that has one, and phy and queue offset of the first: dispatch may
        lag behind the log.
    restarts : int
        How often the queue's offsets began anew.
    refreshed_in : int
        The batch in which new files were looked for.
    holes : list of (int, int)
        Queue offsets, the end exclusive, that have no file.
    """

    topic: str
    queue_id: int
    files: QueueFiles | None
    next_offset: int = 0
    record_end: int = 0
    late: int = 0
    late_bytes: int = 0
    late_from: tuple[int, int] = (0, 0)
    holes: list[tuple[int, int]] = field(default_factory=list)
    restarts: int = 0
    refreshed_in: int = -1

    @property
    def path(self) -> str:
        """The queue's directory, as findings name it."""
        return f"consumequeue/{self.topic}/{self.queue_id}"

    @property
    def end_of_files(self) -> int:
        """The queue offset behind the last file's room."""
        if self.files is None or not self.files.files:
            return 0
        last = self.files.files[-1]
        return last.first_offset + last.entry_count

    def next_file(self, queue_offset: int) -> int | None:
        """The first queue offset of the next file behind a queue offset."""
        files = [] if self.files is None else self.files.files
        at = bisect_right(files, queue_offset, key=lambda file: file.first_offset)
        return files[at].first_offset if at < len(files) else None

    def in_hole(self, start: int, stop: int) -> bool:
        """Whether queue offsets [start, stop) lie in a missing file."""
        at = bisect_right(self.holes, start, key=lambda hole: hole[0]) - 1
        return at >= 0 and stop <= self.holes[at][1]

    def read(self, queue_offset: int, out: memoryview) -> int:
        """Fill `out` with entries from a queue offset on; the places of entries that no file has are left as they are.

        Answers how many of the last entries lie behind all files.
        """
        assert self.files is not None
        done, count = 0, len(out) // CQ_STORE_UNIT_SIZE
        while done < count:
            file = self.files.file_of(queue_offset + done)
            if file is None:
                following = self.next_file(queue_offset + done)
                if following is None:
                    return count - done
                done = following - queue_offset
                continue
            place = queue_offset + done - file.first_offset
            part = out[done * CQ_STORE_UNIT_SIZE :][
                : (file.entry_count - place) * CQ_STORE_UNIT_SIZE
            ]
            with suppress(FileNotFoundError):  # the cleaner may have deleted it
                read_into(file.path, part, place * CQ_STORE_UNIT_SIZE)
            done += len(part) // CQ_STORE_UNIT_SIZE
        return 0

    def entries(self, queue_offset: int, count: int, findings: Findings) -> Entries | None:
        """Entries as `QueueFiles.entries` gives them; None, and a finding, when the disk does not give them."""
        assert self.files is not None
        try:
            return self.files.entries(queue_offset, count)
        except OSError as error:
            findings.add(
                "unreadable", ERROR, self.path, f"entries from queue offset {queue_offset} on: {error}", field="bytes",
                expected="readable", found=str(error),
            )  # fmt: skip
            return None


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
