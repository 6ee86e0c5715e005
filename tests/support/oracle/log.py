"""A CommitLog as slow, obvious Python: files of bytes in memory, appended to, scanned and cut.

Nothing of rmqcore is imported here. Source of the rules: RocketMQ 5.5.0 CommitLog, MappedFileQueue.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from support.oracle import records as oracle
from support.oracle.records import Record, Refused

BLANK_SIZE = 8
RECORD_OVER_BODY = 64 * 1024
QUEUED = (0, 8)  # transaction types that have a queue entry and a queue offset: none, COMMIT


def is_queued(record: Record) -> bool:
    return record.sys_flag & oracle.TRANSACTION_MASK in QUEUED


def size_of(record: Record) -> int:
    """Of a record that was read from bytes."""
    assert record.msg_size is not None
    return record.msg_size


@dataclass(frozen=True)
class Checks:
    """What a scan asks of a record."""

    body_crc: bool = True
    prop_crc: bool = False
    place: bool = True


@dataclass
class Scan:
    """Sound records with the offsets where they lie, and why there is no more: ``zeros``, ``blank`` or ``record``."""

    start: int
    records: list[tuple[int, Record]] = field(default_factory=list)
    end: int = 0
    stop: str = ""


@dataclass
class Log:
    """Files by the offset of their first byte; `end` is where the next record goes."""

    file_size: int
    files: dict[int, bytearray] = field(default_factory=dict)
    end: int = 0
    passed: dict[int, int] = field(default_factory=dict)
    """Start to end of what a recovery has passed over."""

    @property
    def starts(self) -> list[int]:
        return sorted(self.files)

    @property
    def min_offset(self) -> int:
        return self.starts[0] if self.files else 0

    # ---- appending ----------------------------------------------------------------------------------

    def append(self, size: int) -> int:
        """Give `size` bytes a place in one file with a BLANK behind them, closing a file that has no such room."""
        assert size + BLANK_SIZE <= self.file_size
        if not self.files:
            self.files[0] = bytearray(self.file_size)
        start = self.starts[-1]
        room = start + self.file_size - self.end
        if size + BLANK_SIZE > room:
            pos = self.end - start
            self.files[start][pos : pos + BLANK_SIZE] = oracle.blank(room)
            self.end = start + self.file_size
            self.files[self.end] = bytearray(self.file_size)
        at = self.end
        self.end += size
        return at

    def write(self, at: int, raw: bytes) -> None:
        start = at - at % self.file_size
        self.files[start][at - start : at - start + len(raw)] = raw

    # ---- reading ------------------------------------------------------------------------------------

    def bytes_at(self, at: int, size: int, end: int) -> bytes | None:
        """Bytes inside one file and below an end; None otherwise. SelectMappedBuffer, without holding anything."""
        start = at - at % self.file_size
        if (
            at < 0
            or size < 0
            or start not in self.files
            or at + size > min(end, start + self.file_size)
        ):
            return None
        return bytes(self.files[start][at - start : at - start + size])

    def record_at(self, at: int) -> Record | None:
        """The record that starts at an offset below the end and says so itself."""
        start = at - at % self.file_size
        if start not in self.files or not self.min_offset <= at < self.end:
            return None
        try:
            found = oracle.decode_record(bytes(self.files[start][: self.end - start]), at - start)
        except Refused:
            return None
        return found if isinstance(found, Record) and found.phy_offset == at else None

    def time_of(self, at: int, size: int) -> int:
        """CommitLog#pickupStoreTimestamp: the bytes there are believed, as long as they lie inside the log."""
        if at < self.min_offset or at + size > self.end:
            return -1
        record = self.record_at(at)
        return record.store_timestamp_ms if record is not None else -1

    def records(self, begin: int, end: int) -> Iterator[tuple[int, Record]]:
        """Records of [begin, end) in order, over file ends; sound ones, as what recovery left is.

        One of another place is passed over, also where no recovery has read it.
        """
        at = begin
        while at < end:
            record = self.record_at(at)
            if record is None and at in self.passed:
                at = self.passed[at]
                continue
            start = at - at % self.file_size
            if record is None and start in self.files:
                try:
                    misplaced = oracle.decode_record(bytes(self.files[start]), at - start)
                except Refused:
                    misplaced = None
                if isinstance(misplaced, Record):
                    at += size_of(misplaced)
                    continue
            if record is None:
                behind = [other for other in self.starts if other > start]
                if not behind:
                    return
                at = behind[0]
                continue
            yield at, record
            at += size_of(record)

    # ---- recovery -----------------------------------------------------------------------------------

    def check(self, start: int, pos: int, checks: Checks) -> Record | str:
        """CommitLog#checkMessageAndReturnSize at a position in a file: the record, ``blank``, or why it is neither.

        Ours, not Java's: lengths are never negative, an empty body's CRC is 0 (oracle.decode_record, check_record).
        """
        data = bytes(self.files[start])
        left = self.file_size - pos
        if left <= 4:
            return "record"
        total = struct.unpack_from(">i", data, pos)[0]
        magic = data[pos + 4 : pos + BLANK_SIZE]
        if total <= left and magic == oracle.blank(0)[4:]:
            return "blank"
        if not any(data[pos : pos + BLANK_SIZE]):
            return "zeros"
        try:
            found = oracle.decode_record(data, pos)
            if not isinstance(found, Record):
                return "record"  # a BLANK that goes past the file
            oracle.check_record(
                data, pos, check_crc=checks.body_crc, check_prop_crc=checks.prop_crc
            )
        except Refused:
            return "record"
        if checks.place and found.phy_offset != start + pos:
            return "record"
        return found

    def behind_misplaced(self, start: int, pos: int, checks: Checks, known_to: int) -> int | None:
        """Where the log goes on behind records of which only the place is wrong, or the BODYCRC of an empty body.

        CommitLog#recoverNormally asks for neither. Ours, not Java's: what no queue knows, with nothing sound behind it, is the
        rest of an earlier log.
        """
        data, at, known = bytes(self.files[start]), pos, None
        while True:
            found = self.check(start, at, checks)
            left = self.file_size - at
            if isinstance(found, Record):
                return at
            if found == "blank" and data[at : at + BLANK_SIZE] == oracle.blank(left):
                return at if at > pos else None
            try:
                record = oracle.decode_record(data, at) if left > BLANK_SIZE else None
                if not isinstance(record, Record):
                    return known
                crc = checks.body_crc and bool(record.body)
                oracle.check_record(data, at, check_crc=crc, check_prop_crc=checks.prop_crc)
            except Refused:
                return known
            at += size_of(record)
            if start + at <= known_to:
                known = at

    def first_record(self, start: int, checks: Checks) -> Record | None:
        found = self.check(start, 0, checks)
        return found if isinstance(found, Record) else None

    def scan(self, first: int, checks: Checks, known_to: int = -1) -> Scan:
        """From a file's start to the end of the log; a BLANK leads to the next file, if there is one.

        `known_to`: up to here queues know messages.
        """
        done = Scan(first)
        starts = [start for start in self.starts if start >= first]
        for number, start in enumerate(starts):
            pos = 0
            while True:
                found = self.check(start, pos, checks)
                done.end = start + pos
                if found == "record":
                    behind = self.behind_misplaced(start, pos, checks, known_to)
                    if behind is not None:
                        self.passed[start + pos] = start + behind
                        pos = behind
                        continue
                if isinstance(found, str):
                    break
                done.records.append((start + pos, found))
                pos += size_of(found)
            done.stop = found
            if found != "blank" or number + 1 == len(starts):
                break
        return done

    def cut(self, end: int, aside: dict[str, bytes], *, blank_last: bool) -> int:
        """End the log at an offset. What was behind it is put `aside` by name; answers how many bytes.

        Ours, not Java's, which leaves the bytes in the last file and deletes later ones: nothing that is not zero is thrown
        away, and nothing stays that a later recovery could take for a record.
        """
        count = 0
        for start in self.starts:
            data = self.files[start]
            if start + self.file_size <= end:
                continue
            pos = max(0, end - start)
            rest = bytes(data[pos:]).rstrip(b"\0")
            if start <= end:
                if blank_last and len(rest) <= BLANK_SIZE:
                    continue
                if rest:
                    aside[free_name(end, aside, rest)] = rest
                    data[pos:] = bytes(len(data) - pos)
            else:
                if rest:
                    aside[free_name(start, aside, None)] = bytes(data)
                del self.files[start]
            count += len(rest)
        self.end = end
        return count


def free_name(at: int, aside: dict[str, bytes], same: bytes | None) -> str:
    """A name for what lay at an offset; one that is taken already if just this is in it."""
    name, number = f"{at:020}", 0
    while name in aside and aside[name] != same:
        number += 1
        name = f"{at:020}.{number}"
    return name


def encode_at(record: Record, at: int, queue_offset: int, now_ms: int, *, prop_crc: bool) -> bytes:
    """The record's bytes with all that is only known when it has a place."""
    placed = replace(record, phy_offset=at, queue_offset=queue_offset, store_timestamp_ms=now_ms)
    return oracle.encode_record(placed, append_prop_crc=prop_crc)
