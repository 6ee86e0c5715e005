"""The log's part of a check: one pass over the CommitLog in batches of columns, and findings from its damage.

Everything else that is checked rides on these batches, so the log is read once. Nothing here grows with the number of
records.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rmqcore._native import codec, scan
from rmqcore._native.codec import DelayLevels, MessageView
from rmqcore._native.scan import Batch, ColumnScan
from rmqcore.engine.paths import StorePaths
from rmqcore.errors import CorruptMessageError
from rmqcore.offline.damage import DamageRange
from rmqcore.offline.files import list_log_files
from rmqcore.offline.findings import ERROR, WARNING, Findings
from rmqcore.offline.ranges import read_range
from rmqcore.offline.walk import Blank, LogWalk, Progress
from rmqcore.offline.window import record_at

BATCH_ROWS = 1 << 18
BATCH_BYTES = 1 << 30
MAX_RANGES = 10_000
DRAIN_AT = 256
QUICK_SIZE = 1 << 16
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
COLUMNS = (
    "phy_offset", "msg_size", "queue_id", "queue_offset", "sys_flag", "store_timestamp_ms", "tags_code", "topic_id",
)  # fmt: skip

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]


@dataclass(frozen=True)
class LogBatch:
    """Sound records in log order as columns; the arrays are views that go when the next batch comes.

    Attributes
    ----------
    key_offsets : array
        Row i's index key hashes are ``key_hashes[key_offsets[i]:key_offsets[i + 1]]``.
    topics : list of str
        Names by ``topic_id``.
    """

    phy_offset: Int64
    msg_size: Int32
    queue_id: Int32
    queue_offset: Int64
    sys_flag: Int32
    store_timestamp_ms: Int64
    tags_code: Int64
    topic_id: Int32
    key_hashes: Int32
    key_offsets: Int32
    topics: list[str]

    def __len__(self) -> int:
        return len(self.phy_offset)


class LogAudit:
    """The pass over the log.

    Parameters
    ----------
    paths : StorePaths
    findings : Findings
    levels : DelayLevels or None
    key_hashes : bool
        Also compute the hashes of index keys.
    progress : callable, optional
        As for `LogWalk`, of the first pass.

    Attributes
    ----------
    files : list of LogFile
    log_min, log_end : int
        CommitLog offsets of the log's first byte and behind its last sound record so far.
    records, record_bytes, prop_crcs : int
        Sound records, their bytes, and how many had a property CRC to check.
    damage : list of DamageRange
        The first of them; `damage_count` and `damage_bytes` tell of all.
    newest_ms : int
        The greatest store timestamp.
    """

    def __init__(
        self,
        paths: StorePaths,
        findings: Findings,
        levels: DelayLevels | None,
        *,
        key_hashes: bool,
        progress: Progress | None = None,
    ) -> None:
        self.paths = paths
        self.files = list_log_files(paths)
        self.log_min = self.files[0].file_from_offset if self.files else 0
        self.log_end = self.log_min
        self.records = self.record_bytes = self.prop_crcs = 0
        self.damage: list[DamageRange] = []
        self.damage_count = self.damage_bytes = 0
        self.newest_ms = 0
        self.sound_from: list[int] = []
        self._findings = findings
        self._levels = levels
        self._progress = progress
        self._scan = ColumnScan(
            (*COLUMNS, "key_hashes") if key_hashes else COLUMNS,
            delay_levels=levels,
            batch_rows=BATCH_ROWS,
            batch_bytes=BATCH_BYTES,
        )
        self._fresh: list[DamageRange] = []
        self._tail: list[DamageRange] = []
        self._walked = False
        self._noted_end = -1
        self._known_topics = 0
        self._file_names = {file.file_from_offset: file.name for file in self.files}

    def batches(self) -> Iterator[LogBatch]:
        """Walk to the log's end as it is now; a second call goes on with what was written meanwhile."""
        again, self._walked = self._walked, True
        if again:
            self.files = list_log_files(self.paths)
            self._file_names.update((file.file_from_offset, file.name) for file in self.files)
            self._tail.clear()
        walk: LogWalk[Batch] = LogWalk(
            self.files,
            _CheckedScan(self._scan, self),
            self._fresh,
            start=self.log_end if again else None,
            aligned_start=again,
            progress=None if again else self._progress,
        )
        for batch in walk.run():
            if not isinstance(batch, Blank) and batch.num_rows:
                yield self._columns(batch)
        self.drain()

    def _columns(self, batch: Batch) -> LogBatch:
        self.drain()

        def column(name: str, kind: type[Any], part: str = "values") -> Any:
            return np.frombuffer(batch.buffer(name, part), kind)

        hashes, offsets = np.empty(0, np.int32), np.zeros(batch.num_rows + 1, np.int32)
        if "key_hashes" in batch.column_names:
            hashes, offsets = column("key_hashes", np.int32), column("key_hashes", np.int32, "offsets")
        found = LogBatch(
            column("phy_offset", np.int64), column("msg_size", np.int32), column("queue_id", np.int32),
            column("queue_offset", np.int64), column("sys_flag", np.int32), column("store_timestamp_ms", np.int64),
            column("tags_code", np.int64), column("topic_id", np.int32), hashes, offsets, self._scan.topics(),
        )  # fmt: skip
        self.records += len(found)
        self.record_bytes += int(found.msg_size.sum(dtype=np.int64))
        self.newest_ms = max(self.newest_ms, int(found.store_timestamp_ms.max()))
        self.log_end = int(found.phy_offset[-1]) + int(found.msg_size[-1])
        self._note_runs(found)
        self._check_topics(found)
        return found

    def _note_runs(self, batch: LogBatch) -> None:
        """Remember how many records lie before each damaged range, to tell later what a cut there would take along."""
        before = self.records - len(batch)
        known = len(self.sound_from)
        for at in range(known, min(len(self.damage), MAX_RANGES)):
            start = self.damage[at].start_phy_offset
            self.sound_from.append(before + int(np.searchsorted(batch.phy_offset, start)))

    def _check_topics(self, batch: LogBatch) -> None:
        for topic_id in range(self._known_topics, len(batch.topics)):
            if REPLACEMENT not in batch.topics[topic_id]:
                continue
            rows = np.flatnonzero(batch.topic_id == topic_id)
            view = self.record(int(batch.phy_offset[rows[0]])) if len(rows) else None
            if view is not None and not _is_utf8(topic_bytes(view)):
                self._findings.add(
                    "topic_utf8", ERROR, self.file_name(view.phy_offset),
                    f"the topic is not UTF-8: {topic_bytes(view)!r}; Java reads it as {view.topic!r}",
                    phy_offset=view.phy_offset, field="TOPIC", expected="UTF-8", found=topic_bytes(view).hex(),
                )  # fmt: skip
        self._known_topics = len(batch.topics)

    # ---- damage -------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Turn what the walk has reported into findings."""
        for damaged in self._fresh:
            if damaged.kind == "torn_tail" or (damaged.kind == "missing_file" and damaged.field == "file" and
                                               damaged.found != "missing"):
                self._tail.append(damaged)  # a later look may see it otherwise
            else:
                self._note(damaged)
        self._fresh.clear()

    def settle(self) -> None:
        """Note the ranges that waited for the end: a torn tail, and files that went while they were read."""
        first = list_log_files(self.paths)[:1]
        self.log_min = max([self.log_min, *(file.file_from_offset for file in first)])
        for damaged in self._tail:
            if damaged.kind == "torn_tail" or damaged.start_phy_offset >= self.log_min:
                self._note(damaged)
        self._tail.clear()

    def _note(self, damaged: DamageRange) -> None:
        if damaged.start_phy_offset < self._noted_end:
            return  # seen by an earlier call of `batches`
        self._noted_end = damaged.end_phy_offset
        size = damaged.end_phy_offset - damaged.start_phy_offset
        self.damage_count += 1
        self.damage_bytes += size
        if len(self.damage) < MAX_RANGES:
            self.damage.append(damaged)
        kind, severity = damaged.kind, ERROR
        if kind == "torn_tail":
            severity = WARNING
        elif kind == "short_file":
            kind = "file_size"
        elif kind == "record" and damaged.field == "PHYSICALOFFSET":
            kind = "place"
        self._findings.add(
            kind, severity, damaged.path, _sentence(damaged, size), phy_offset=damaged.start_phy_offset,
            field=damaged.field, expected=damaged.expected, found=damaged.found,
        )  # fmt: skip

    def note_prop_crcs(self, checked: int, failures: int, first: list[tuple[int, int, int]]) -> None:
        """Take the outcome of one window's property CRCs: `first` holds (phy_offset, expected, found)."""
        self.prop_crcs += checked
        for phy_offset, expected, found in first:
            self._findings.add(
                "prop_crc", ERROR, self.file_name(phy_offset), f"__CRC32# is {found}, the record has {expected}",
                phy_offset=phy_offset, field="__CRC32#", expected=expected, found=found,
            )  # fmt: skip
        if failures > len(first):
            self._findings.add(
                "prop_crc", ERROR, "", f"{failures - len(first)} more records fail", count=failures - len(first)
            )

    @property
    def prop_crc_room(self) -> int:
        """How many more property CRC findings are wanted."""
        return self._findings.room("prop_crc")

    # ---- places -------------------------------------------------------------------------------------

    def file_name(self, phy_offset: int) -> str:
        """The file that holds a CommitLog offset, as findings name it."""
        start = max((offset for offset in self._file_names if offset <= phy_offset), default=None)
        return "commitlog" if start is None else self._file_names[start]

    def record(self, phy_offset: int, size: int = 0) -> MessageView | None:
        """The well-formed record that starts at a CommitLog offset, None without one; quick when `size` is its size."""
        if 0 < size <= QUICK_SIZE:
            at = bisect_right(self.files, phy_offset, key=lambda file: file.file_from_offset) - 1
            if at >= 0:
                file = self.files[at]
                data = read_range(file.path, phy_offset - file.file_from_offset, size)
                try:
                    view = codec.decode(data, 0, self._levels)
                    if view.msg_size == len(data) and view.phy_offset == phy_offset:
                        return view
                except CorruptMessageError:
                    pass  # the size may be wrong, or the record
        return record_at(self.files, phy_offset, self._levels)

    def in_damage(self, phy_offsets: Int64) -> npt.NDArray[np.bool_]:
        """Which of these CommitLog offsets lie in a known damaged range."""
        if not self.damage:
            return np.zeros(len(phy_offsets), bool)
        starts = np.array([damaged.start_phy_offset for damaged in self.damage], np.int64)
        ends = np.array([damaged.end_phy_offset for damaged in self.damage], np.int64)
        at = np.searchsorted(starts, phy_offsets, side="right") - 1
        return (at >= 0) & (phy_offsets < ends[at])


class _CheckedScan:
    """A `ColumnScan` that has the property CRCs of the records it takes checked while their bytes are in the cache."""

    def __init__(self, columns: ColumnScan, audit: LogAudit) -> None:
        self._columns = columns
        self._audit = audit

    @property
    def pending_rows(self) -> int:
        return self._columns.pending_rows

    def feed(
        self, buf: Any, length: int, pos: int, phy_offset: int, end_offset: int, *, trusted: int = -1
    ) -> tuple[int, int, int, int]:
        if len(self._audit._fresh) > DRAIN_AT:  # noqa: SLF001 - one class in two, because the walk wants a sink
            self._audit.drain()
        stop = self._columns.feed(buf, length, pos, phy_offset, end_offset, trusted=trusted)
        if stop[0] > pos:
            checked, failures, first = scan.prop_crc_failures(buf, pos, stop[0], min(self._audit.prop_crc_room, 1000))
            if checked:
                found = [(phy_offset + at, expected, value) for at, expected, value in first]
                self._audit.note_prop_crcs(checked, failures, found)
        return stop

    def take(self) -> Batch:
        return self._columns.take()


def topic_bytes(view: MessageView) -> bytes:
    """TOPIC as it lies in the record."""
    raw = view.raw
    pos = 88 + 12 * bool(view.sys_flag & 0x10) + 12 * bool(view.sys_flag & 0x20) + len(view.body)
    if view.magic == -626843477:  # V2: a short instead of a byte
        return raw[pos + 2 : pos + 2 + int.from_bytes(raw[pos : pos + 2], "big")]
    return raw[pos + 1 : pos + 1 + raw[pos]]


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _sentence(damaged: DamageRange, size: int) -> str:
    what = {
        "crc": "a record's body fails its CRC",
        "torn_tail": f"{size} bytes behind the last sound record; a broker start cuts them",
        "missing_file": f"no file holds the {size} bytes from here on",
        "short_file": f"the file lacks {size} bytes",
        "unreadable": f"the disk did not give {size} bytes",
    }.get(damaged.kind, f"{size} bytes are no sound record")
    return f"{what} ({damaged.field} is {damaged.found}, expected {damaged.expected})"
