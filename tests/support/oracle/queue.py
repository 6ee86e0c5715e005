"""A ConsumeQueue as slow, obvious Python: entries by the rules of Java, over bytes in memory.

Nothing of rmqcore is imported here. The rules are those of RocketMQ 5.5.0 ConsumeQueue, read from its byte code; where the
package decided to do better than Java (docs/compat.md) a comment says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from support.oracle import records as oracle

ENTRY = 20
Entry = tuple[int, int, int]


@dataclass
class Queue:
    """Files by their logical start, where the entries end, and the two offsets that Java keeps beside them.

    `end` and `min_logic` are logical byte offsets, `max_phy` is the end of the last message that has an entry.
    """

    file_size: int
    topic: str = ""
    """Light queues (``%LMQ%...``) differ in what a gap can be."""
    files: dict[int, bytearray] = field(default_factory=dict)
    last: int = -1
    """Start of the file in which the entries end; what is behind it does not count. -1 without files."""
    end: int = 0
    min_logic: int = 0
    max_phy: int = -1
    ahead: tuple[int, Entry] | None = None
    """Place and entry of a message that was put off: no log has room for those missing before it. The next may confirm it."""

    @property
    def starts(self) -> list[int]:
        return sorted(start for start in self.files if start <= self.last)

    @property
    def min_offset(self) -> int:
        return self.min_logic // ENTRY

    @property
    def max_offset(self) -> int:
        return self.end // ENTRY

    def wrote(self, start: int) -> int:
        """Bytes in use of a file: only the last one may have less than all."""
        return max(0, min(self.file_size, self.end - start))

    def read(self, start: int, pos: int) -> Entry:
        phy, size, code = oracle.CQ_ENTRY.unpack_from(self.files[start], pos)
        return phy, size, code

    def entry(self, queue_offset: int) -> Entry | None:
        """The entry at a queue offset; None below the minimum, at or past the end, and where a file is missing."""
        at = queue_offset * ENTRY
        start = at - at % self.file_size
        if not self.min_logic <= at < self.end or start not in self.files:
            return None
        return self.read(start, at - start)

    # ---- putting ------------------------------------------------------------------------------------

    def put(
        self, phy: int, size: int, code: int, queue_offset: int, covered_from: int = -1
    ) -> int | None:
        """ConsumeQueue#putMessagePositionInfo. Ours: an entry lies at its queue offset, or nowhere.

        The log was given from `covered_from` on. Answers `max_phy` when messages before that may be the ones that are missing
        before this one; then nothing has changed.
        """
        want = queue_offset * ENTRY
        if phy + size <= self.max_phy:
            return None
        if self.last >= 0 and want < self.end:
            return (
                None  # Java has made the next file by now if the last one was full; it stays empty
            )
        # Ours: a file in which nothing is was made for this entry, before a crash. Java appends to it, at a wrong offset.
        empty = self.max_phy < 0 and self.end == (self.starts[:1] or [-1])[0]
        fresh = self.last < 0 or (empty and self.end < want < self.end + self.file_size)
        missing = (want - self.end) // ENTRY
        ahead = self.ahead
        leaps = not fresh and ahead is not None and self.end <= ahead[0] == want - ENTRY
        if not fresh and not leaps and missing and missing > self._most_missing(phy):
            # No log can have lost so many there, unless the next message goes on behind this one.
            near = want - self.end <= self.file_size
            self.ahead = (want, (phy, size, code)) if near else None
            return None
        if (want if self.last < 0 else missing) and self.max_phy < covered_from:
            return self.max_phy
        if self.last < 0:
            self.last = self.end = want - want % self.file_size
            self.files[self.last] = bytearray(self.file_size)
        if fresh and queue_offset != 0:
            self.min_logic = want
        while self.end < want:
            put_off = leaps and ahead is not None and ahead[0] == self.end
            self._append(ahead[1] if put_off and ahead is not None else oracle.CQ_FILLER)
        self._append((phy, size, code))
        self.max_phy = phy + size
        return None

    def _most_missing(self, phy: int) -> int:
        """How many messages can be missing between the last message and a record: each takes the smallest record.

        In a light queue each takes a name and a number in some record, which may be the record of the last message.
        """
        if not self.topic.startswith("%LMQ%"):
            return (phy - max(0, self.max_phy)) // len(
                oracle.encode_record(oracle.Record(b"", b"", b""))
            )
        newest = oracle.CQ_FILLER if self.last < 0 else self._newest()
        begin = 0 if newest == oracle.CQ_FILLER else newest[0]
        return (phy - begin) // len(f"{self.topic},0,".encode())

    def _newest(self) -> Entry:
        before = self.end - ENTRY
        start = before - before % self.file_size
        return self.read(start, before - start) if start in self.files else oracle.CQ_FILLER

    def _append(self, entry: Entry) -> None:
        if self.end == self.last + self.file_size:
            self.last = self.end
            self.files[self.last] = bytearray(self.file_size)
        oracle.CQ_ENTRY.pack_into(self.files[self.last], self.end - self.last, *entry)
        self.end += ENTRY

    # ---- recovery -----------------------------------------------------------------------------------

    def recover(self) -> None:
        """ConsumeQueue#recover: from the third file from the end on, up to the first entry that is none."""
        starts = sorted(self.files)
        self.end, self.last, self.max_phy = 0, -1, -1
        for start in starts[max(0, len(starts) - 3) :]:
            self._end_at(start, self._valid(start, None))
            if self.end < start + self.file_size:
                break

    def truncate(self, phy_limit: int) -> int:
        """ConsumeQueue#truncateDirtyLogicFiles: take entries of messages at or behind an offset away. Answers how many.

        A file that begins with such an entry goes as a whole. Ours: so does one whose first entry is none, which Java takes for
        one.
        """
        before = self.end
        for start in reversed(self.starts):
            kept = self._valid(start, phy_limit)
            if start == self.last:
                kept = min(kept, self.wrote(start) // ENTRY)
            if kept:
                self._end_at(start, kept)
                return (before - self.end) // ENTRY
        first = min(self.files, default=0)
        self.end, self.last, self.max_phy = 0, -1, -1
        return (before - first) // ENTRY

    def _valid(self, start: int, phy_limit: int | None) -> int:
        """Entries at the start of a file up to the first that is none, or of a message at or behind an offset."""
        for pos in range(0, self.file_size, ENTRY):
            phy, size, _ = self.read(start, pos)
            if phy < 0 or size <= 0 or (phy_limit is not None and phy >= phy_limit):
                return pos // ENTRY
        return self.file_size // ENTRY

    def _end_at(self, start: int, count: int) -> None:
        """The queue ends behind the first entries of a file; without any, with the last entry of the file before it.

        Ours: a filler names no message. In Java a queue that ends with one has everything up to 2 GiB.
        """
        self.last, self.end = start, start + count * ENTRY
        before = [other for other in sorted(self.files) if other < start]
        if count:
            newest = self.read(start, (count - 1) * ENTRY)
        else:
            newest = self.read(before[-1], self.file_size - ENTRY) if before else oracle.CQ_FILLER
        self.max_phy = -1 if newest == oracle.CQ_FILLER else newest[0] + newest[1]

    def drop_behind(self) -> None:
        """Ours, not Java's: what lies behind the end is overwritten with zeros, so that it cannot come back."""
        for start in sorted(self.files):
            if start > self.last:
                del self.files[start]
            else:
                used = self.wrote(start)
                self.files[start][used:] = bytes(self.file_size - used)

    def correct_min(self, min_phy: int) -> None:
        """ConsumeQueue#correctMinOffset with Java's very own binary search."""
        if self.min_logic >= self.end or self.last < 0:
            return
        in_last = self.wrote(self.last)
        if in_last >= ENTRY and self.read(self.last, in_last - ENTRY)[0] < min_phy:
            self.min_logic = self.last + in_last
            return
        first = self.starts[0]
        base, inside = self.min_logic - first, True
        if base < 0:
            base, inside = 0, False
        size = self.wrote(first) - base
        if size <= 0:
            return
        if inside and self.read(first, base)[0] >= min_phy:
            return
        low, high = 0, size - ENTRY
        while high - low > ENTRY:
            mid = (low + high) // 2 // ENTRY * ENTRY
            phy = self.read(first, base + mid)[0]
            if phy > min_phy:
                high = mid
            elif phy == min_phy:
                low = high = mid
                break
            else:
                low = mid
        for pos in range(low, high + 1, ENTRY):
            if self.read(first, base + pos)[0] >= min_phy:
                self.min_logic = first + base + pos
                return

    def delete_expired(self, min_phy: int) -> int:
        """ConsumeQueue#deleteExpiredFile: leading files whose last message is gone, never the last one."""
        deleted = 0
        for start in self.starts[:-1]:
            if self.read(start, self.file_size - ENTRY)[0] >= min_phy:
                break
            del self.files[start]
            deleted += 1
        self.correct_min(min_phy)
        return deleted

    # ---- by time ------------------------------------------------------------------------------------

    def offset_by_time(
        self, timestamp_ms: int, upper: bool, min_phy: int, time_of: Callable[[int, int], int]
    ) -> int:
        """ConsumeQueueStore#getOffsetInQueueByTime; `time_of` gives the store time of (phy, size), -1 if there is none."""
        start = self._file_by_time(timestamp_ms, upper, time_of)
        found = 0 if start is None else self._search(start, timestamp_ms, upper, min_phy, time_of)
        return min(max(found, self.min_offset), self.max_offset)

    def _file_by_time(
        self, timestamp_ms: int, upper: bool, time_of: Callable[[int, int], int]
    ) -> int | None:
        """MappedFileQueue#getConsumeQueueMappedFileByTime."""
        starts = [start for start in self.starts if self.wrote(start) > 0]
        if not starts:
            return None

        def known(start: int, pos: int) -> int:
            time = time_of(*self.read(start, pos)[:2])
            return time if time > 0 else -1

        if upper:
            old_enough = [start for start in starts if known(start, 0) <= timestamp_ms]
            return old_enough[-1] if old_enough else None
        for start in starts[:-1]:
            if known(start, self.file_size - ENTRY) >= timestamp_ms:
                return start
        return starts[-1]

    def _search(
        self,
        start: int,
        timestamp_ms: int,
        upper: bool,
        min_phy: int,
        time_of: Callable[[int, int], int],
    ) -> int:
        """ConsumeQueue#binarySearchInQueueByTime."""
        floor = max(0, self.min_logic - start)
        ceiling = self.wrote(start) - ENTRY

        def at(pos: int) -> int:
            return time_of(*self.read(start, pos)[:2])  # -1 of a filler: nothing is so large

        if at(ceiling) < timestamp_ms:
            return (start + ceiling) // ENTRY + (0 if upper else 1)
        if at(floor) > timestamp_ms:
            return 0 if upper else start // ENTRY
        low, high = floor, ceiling
        left = right = target = -ENTRY
        exact = False
        while high >= low:
            mid = (low + high) // (2 * ENTRY) * ENTRY
            if self.read(start, mid)[0] < min_phy or self.read(start, mid) == oracle.CQ_FILLER:
                # Ours: a filler is older than any message. In Java the search ends there with 0 unless the log has lost files.
                low, left = mid + ENTRY, mid
                continue
            time = at(mid)
            if time < 0:
                return 0
            if time == timestamp_ms:
                target, exact = mid, True
                break
            if time > timestamp_ms:
                high, right = mid - ENTRY, mid
            else:
                low, left = mid + ENTRY, mid
        if exact:
            step = ENTRY if upper else -ENTRY
            while floor <= target + step <= ceiling and at(target + step) == timestamp_ms:
                target += step
        else:
            target = left if upper else right
            if target < 0:  # Java's -1 in a division that truncates
                return int((start - 1) / ENTRY)
        return (start + target) // ENTRY
