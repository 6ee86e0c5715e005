"""A window over a file of a DLedger log, in which each record lies behind a head of 48 bytes.

The walk visits heads and records. A sound head leads to the record behind it, which proves itself as in any log.
`rmqcore._native.scan.places.dledger_step` checks a head.

Source: DLedger 0.3.1.2 DLedgerEntryCoder, MmapFileList; RocketMQ 5.5.0 DLedgerCommitLog.
"""

from __future__ import annotations

from typing import Any

from rmqcore._native.scan import places, scan
from rmqcore._native.scan.places import DLEDGER_HEAD, DLEDGER_NEED, Place
from rmqcore._native.scan.skips import Skips
from rmqcore.disk.log_window import Feed
from rmqcore.offline.log.log_files import LogBytes
from rmqcore.offline.log.long_record import LongRecords
from rmqcore.offline.log.window import SearchWindow

_OF_RECORDS = {places.BODYCRC, places.ZERO}
"""Codes of places that cannot be a head: a record that fails its CRC, and unwritten bytes."""


class DLedgerWindow(SearchWindow):
    """A `SearchWindow` that passes sound heads, and reports the wrong field of others."""

    _heads: Skips | None = None

    def feed(self, feed: Feed, pos: int, **checks: Any) -> Place:
        """Feed a scan the records of the window, as `LogWindow.feed`; the mark of a file's end is its BLANK."""
        given = checks.get("skips")
        if given is None:
            if self._heads is None:
                self._heads = self.skips(leave_out=False)
            checks["skips"] = self._heads  # nothing in it is settled: it passes heads only
        place = super().feed(feed, pos, **checks)
        if given is None and self._heads is not None:
            self._heads.take(0)
        return self._behind_head(place)

    def skips(self, *, leave_out: bool) -> Skips:
        """As `LogWindow.skips`, for scans that pass heads."""
        return Skips(
            self._the_prover(),
            leave_out=leave_out,
            credit_from=self._credit_from,
            dledger=True,
        )

    def look_again(self, place: Place) -> Place:
        """Read the place where a feed stopped again, as `SearchWindow.look_again`; passes a head that is sound now."""
        again = super().look_again(place)
        return again if again.code >= 0 else self._behind_head(again)

    def step(self, pos: int) -> Place:
        """What lies at `pos`, or behind a sound head there, as `LogWindow.step`."""
        place = super().step(pos)
        behind = self._behind_head(place)
        return super().step(behind.pos) if behind.code == scan.END else behind

    # ---- heads --------------------------------------------------------------------------------------

    def _behind_head(self, place: Place) -> Place:
        """Return the place behind a sound head, or the place with what is wrong with the head."""
        if place.code >= 0 or place.code in _OF_RECORDS:
            return place
        pos = place.pos
        self.cover(pos, DLEDGER_NEED)
        found = places.dledger_step(*self._from(pos)).moved(self.start)
        if found.code != DLEDGER_HEAD:
            if self._record_size(pos):
                return place  # a damaged record behind its head
            # bodyLen and TOTALSIZE differ: if the record is sound, bodyLen is wrong.
            if found.code != places.DLEDGER_BODY or super()._proves_itself(pos + DLEDGER_HEAD):
                return found
        return Place(pos + DLEDGER_HEAD, scan.END)

    def _head_at(self, pos: int) -> Place | None:
        """Return the head at a position if its own fields are sound, or the mark of the file's end; else None."""
        if not 0 <= pos < self.end:
            return None
        data = self._bytes_at(pos, min(DLEDGER_NEED, self.end - pos))
        base = self.file_from_offset
        found = places.dledger_step(data, len(data), 0, base + pos, base + self.end)
        return found if found.code >= 0 or found.code == places.DLEDGER_BODY else None

    def _record_size(self, pos: int) -> int:
        """Return the size of the record at `pos` by the head before it; 0 without such a head."""
        head = self._head_at(pos - DLEDGER_HEAD)
        return 0 if head is None else head.size

    def _bytes_at(self, pos: int, count: int) -> bytes:
        at = pos - self.start
        if 0 <= at and at + count <= self.length:
            return bytes(self.buf[at : at + count])
        data = bytearray(count)
        with memoryview(data) as view:
            got = self._peek_into(view, pos)
        return bytes(data[:got])

    # ---- the next sound place -----------------------------------------------------------------------

    def next_proven(self, pos: int, *, after_zeros: bool) -> tuple[int | None, int]:
        """As `LogWindow.next_proven`; the place is a head, or a record whose head is damaged."""
        for guess in self._guesses(pos, after_zeros=after_zeros):
            if pos < guess < self.end and self._proves_itself(guess):
                return guess, guess
        found, used = super().next_proven(pos, after_zeros=after_zeros)
        if found is not None and found - DLEDGER_HEAD > pos:
            head = self._head_at(found - DLEDGER_HEAD)
            if head is not None and head.code != places.BLANK:
                found -= DLEDGER_HEAD
                return found, found
        return found, used

    def _guesses(self, pos: int, *, after_zeros: bool) -> list[int]:
        """Return candidates for the next entry from the sizes in heads: before a damaged record, or in a damaged head."""
        size = self._record_size(pos)
        if size:
            return [pos + size]
        if after_zeros:
            return []
        told = int.from_bytes(self._bytes_at(pos + 4, 4), "big", signed=True)
        return [pos + DLEDGER_HEAD, pos + told]

    def _proves_itself(self, pos: int) -> bool:
        """Return True if a record, or an entry with its head, proves itself at a position of the file."""
        if super()._proves_itself(pos):
            return True
        head = self._head_at(pos)
        if head is None:
            return False
        return head.size == 0 or super()._proves_itself(pos + DLEDGER_HEAD)


def heads_before(data: bytes | bytearray, phy_offset: int, end_offset: int) -> int:
    """Return the bytes of the heads before the first record of `data`, which starts at `phy_offset`."""
    at = 0
    while at < len(data):
        found = places.dledger_step(data, len(data), at, phy_offset, end_offset)
        if found.code != DLEDGER_HEAD:
            break
        at += DLEDGER_HEAD
        if found.size:
            break
    return at


def log_window(
    source: LogBytes,
    size: int,
    *,
    long_records: LongRecords | None = None,
    room: int | None = None,
) -> SearchWindow:
    """Return the window for an open file of a CommitLog or a DLedger log; the parameters are those of `SearchWindow`."""
    kind = DLedgerWindow if source.file.dledger else SearchWindow
    if room is None:
        return kind(source, size, long_records=long_records)
    return kind(source, size, room=room, long_records=long_records)
