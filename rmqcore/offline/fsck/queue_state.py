"""State of each queue during a check, and lost messages."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from rmqcore._native.format.layout import CQ_STORE_UNIT_SIZE
from rmqcore.disk.paths import StorePaths
from rmqcore.offline.fsck.file_kinds import note_unreadable
from rmqcore.offline.fsck.findings import Findings
from rmqcore.offline.fsck.queue_names import QueueNames
from rmqcore.offline.fsck.rocksdb_names import RocksdbNames
from rmqcore.offline.queues.queue_source import queue_source
from rmqcore.offline.queues.queues import Entries, QueueFiles

MOST_BYTES = 192 << 20
"""Bytes of memory for the queues of one walk over the log, about."""
MOST_WITHOUT_FILES = 64 << 20
"""Bytes of memory for queues of which only records speak."""
STATE_BYTES = 600
"""What is remembered of a queue, beside its topic and files."""
FILE_BYTES = 160
"""What is remembered of a file, beside its path."""
MOST_LOST_BYTES, LOST_BYTES = 16 << 20, 200
"""Bytes of memory for the queues of lost messages, and of one without its topic."""
MOST_NAME = 255
"""Letters of a topic that findings show."""


@dataclass(slots=True)
class QueueState:
    """State of a queue while the log is read.

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
    place : str
        The directory of all queues.
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
    holes: Sequence[tuple[int, int]] = ()
    restarts: int = 0
    refreshed_in: int = -1
    place: str = "consumequeue"

    @property
    def path(self) -> str:
        """The queue's directory, as findings name it."""
        topic = self.topic
        if len(topic) > MOST_NAME:  # no directory has such a name
            topic = f"{topic[:MOST_NAME]}..."
        return f"{self.place}/{topic}/{self.queue_id}"

    def next_file(self, queue_offset: int) -> int | None:
        """The first queue offset of the next file behind a queue offset."""
        files = [] if self.files is None else self.files.files
        at = bisect_right(files, queue_offset, key=lambda file: file.first_offset)
        return files[at].first_offset if at < len(files) else None

    def in_hole(self, start: int, stop: int) -> bool:
        """Return True if queue offsets [start, stop) lie in a missing file."""
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
                file.read_into(part, place)
            done += len(part) // CQ_STORE_UNIT_SIZE
        return 0

    def entries(self, queue_offset: int, count: int, findings: Findings) -> Entries | None:
        """Entries as `QueueFiles.entries` gives them; None, and a finding, when the disk does not give them."""
        assert self.files is not None
        try:
            return self.files.entries(queue_offset, count)
        except OSError as error:
            what = f"entries from queue offset {queue_offset} on: "
            note_unreadable(self.path, error, findings, what)
            return None


@dataclass(slots=True)
class Lost:
    """Messages that cannot be fetched through their queue: how many, and how many of each of the first queues."""

    records: int = 0
    bytes: int = 0
    queues: dict[tuple[str, int], int] = field(default_factory=dict)
    in_other_queues: int = 0
    room: int = field(default_factory=lambda: MOST_LOST_BYTES)

    def add(self, state: QueueState, records: int, size: int) -> None:
        """Note messages of a queue."""
        key = (state.topic, state.queue_id)
        if key not in self.queues and self.room <= 0:
            self.add_other(records, size)
            return
        if key not in self.queues:
            self.room -= LOST_BYTES + sys.getsizeof(state.topic)
        self.records += records
        self.bytes += size
        self.queues[key] = self.queues.get(key, 0) + records

    def add_other(self, records: int, size: int) -> None:
        """Note messages of a queue that is not named."""
        self.records += records
        self.bytes += size
        self.in_other_queues += records

    def as_dict(self) -> dict[str, Any]:
        """Records, bytes, and records by queue as plain JSON values."""
        queues = [
            {"topic": topic, "queue_id": queue_id, "records": records}
            for (topic, queue_id), records in sorted(self.queues.items())
        ]
        found = {"records": self.records, "bytes": self.bytes, "queues": queues}
        if self.in_other_queues:
            found["in_other_queues"] = self.in_other_queues
        return found


class NoState(Enum):
    """Why a queue has no state here."""

    ELSEWHERE = auto()
    """The queue belongs to another part, or cannot be listed."""
    FORGOTTEN = auto()
    """There are too many queues without files to remember this one."""


class QueueStates:
    """States of all queues, or of as many as fit in memory.

    Where queues are left, `has_more` says so, and the log has to be walked over once more for each further part of them
    (`next_part`). Queues come by topic and queue id. Those without a directory, of which only records speak, belong to the first
    part; of those that are too many nothing is remembered.

    Parameters
    ----------
    paths : StorePaths
    names : QueueNames or RocksdbNames
        Files that are not looked at, and directories that cannot be listed: of their queues nothing is remembered.
    """

    def __init__(self, paths: StorePaths, names: QueueNames | RocksdbNames) -> None:
        self._source = queue_source(paths)
        self._unlisted = names.unlisted
        self._queues = self._source.each(names.other_names, names.unreadable)
        self._next = next(self._queues, None)
        self._first_part = True
        self._without_files = 0  # bytes taken by queues of which only records speak
        self._known: dict[tuple[str, int], QueueState] = {}
        self.any_queue = self._next is not None
        self._take()

    def __iter__(self) -> Iterator[QueueState]:
        return iter(self._known.values())

    def has(self, topic: str) -> bool:
        """Return True if a topic has queues."""
        return self._source.has(topic)

    @property
    def has_more(self) -> bool:
        """True if queues are left."""
        return self._next is not None

    def next_part(self) -> None:
        """Forget these queues, and remember the next ones."""
        self._known.clear()
        self._first_part = False
        self._take()

    def _take(self) -> None:
        room = MOST_BYTES
        while self._next is not None and room > 0:
            files = self._next
            state = QueueState(files.topic, files.queue_id, files, place=self._source.place)
            state.next_offset = files.files[0].first_offset if files.files else 0
            self._known[files.topic, files.queue_id] = state
            room -= STATE_BYTES + sys.getsizeof(files.topic) + sys.getsizeof(files.directory)
            if files.files:
                room -= len(files.files) * (FILE_BYTES + sys.getsizeof(files.files[0].path))
            self._next = next(self._queues, None)

    def of(self, topic: str, queue_id: int) -> QueueState | NoState:
        """Return the state of a record's queue, or why there is none."""
        key = topic, queue_id
        state = self._known.get(key)
        if state is not None:
            return state
        above = f"{self._source.place}/{topic}"
        if above in self._unlisted or f"{above}/{queue_id}" in self._unlisted:
            return NoState.ELSEWHERE
        if not self._first_part or (self.has_more and self._source.has(topic, queue_id)):
            return NoState.ELSEWHERE
        if self._without_files >= MOST_WITHOUT_FILES:
            return NoState.FORGOTTEN
        self._without_files += STATE_BYTES + sys.getsizeof(topic)
        state = self._known[key] = QueueState(topic, queue_id, None, place=self._source.place)
        return state
