"""A window that reads ahead, and the search for the next sound place in a damaged file."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from rmqcore._native.format import codec
from rmqcore._native.format.codec import DelayLevels, MessageView
from rmqcore._native.format.layout import REC_HEADER_SIZE
from rmqcore._native.scan import places
from rmqcore._native.scan.places import Place
from rmqcore.disk.log_window import STATES_READ, WINDOW, Feed, LogWindow
from rmqcore.offline.log.log_files import LogBytes, LogFile
from rmqcore.offline.log.long_record import LongRecords, body_crcs, without_body
from rmqcore.offline.log.read_ahead import CARRY, ReadAhead


class SearchWindow(LogWindow):
    """A window over a file that may be damaged, or that somebody may be writing or cutting.

    Parameters
    ----------
    source : LogBytes
    size : int
        Bytes of the file when it was listed.
    room : int
        Bytes read at once. From `WINDOW` on a second thread reads the next ones of a large file ahead.
    long_records : LongRecords, optional
        How very long records are given to a feed: alone, and without the most of their bodies. All of them by default.

    Notes
    -----
    Not safe to share between threads.
    """

    def __init__(
        self,
        source: LogBytes,
        size: int,
        *,
        room: int = WINDOW,
        long_records: LongRecords | None = None,
    ) -> None:
        self._long_records = long_records
        self._sound_long = -1  # where the last record of these was sound by its CRC
        self._ahead: ReadAhead | None = None
        if room >= WINDOW and size > 4 * room:
            self._ahead = ReadAhead(source, room, size)
            room += CARRY
        super().__init__(
            source.read_into,
            source.file.file_from_offset,
            size,
            room=room,
            peek_into=source.peek_into,
            extents=source.extents,
            descriptor=source.descriptor,
        )

    def close(self) -> None:
        """End the thread that reads ahead."""
        if self._ahead is not None:
            self._ahead.close()

    def look_again(self, place: Place) -> Place:
        """What lies where a feed stopped once it is read anew: bytes that are being written right now change."""
        pos = place.pos
        if place.code == places.BODYCRC and self.is_long(place.size):
            self._the_prover().forget()
            return self._long_place(pos)
        if place.code == places.BODYCRC:
            own = self.buf[pos - self.start : pos - self.start + place.size]
            if self._read_into(own, pos) < place.size:
                self._read(pos, REC_HEADER_SIZE, 0)
            return self.step(pos)
        prover = self._the_prover()
        prover.forget()
        base = self.file_from_offset
        now = prover.shape(b"", 0, pos, base, base + self.end)
        if (now.code, now.found, now.expected) == (place.code, place.found, place.expected):
            return place
        self._read(pos, REC_HEADER_SIZE, 0)
        return self.step(pos)

    def unchanged_until(self, pos: int) -> int:
        """Read the window's bytes from `pos` on once more; up to the position answered they are what they were."""
        again = bytearray(STATES_READ)
        end = self.start + self.length
        while pos < end:
            wanted = min(STATES_READ, end - pos)
            del again[wanted:]
            own = self.buf[pos - self.start : pos - self.start + wanted]
            with memoryview(again) as view:
                got = self._peek_into(view, pos)
            if got < wanted or again != own:
                end = pos
            else:
                pos += wanted
        self._the_prover().forget()
        return end

    # ---- long records -------------------------------------------------------------------------------

    def is_long(self, msg_size: int) -> bool:
        """Return True if most of a record's body is not read."""
        return self._long_records is not None and msg_size > self._long_records.most_whole

    def _bring_in(self, place: Place) -> Place | None:
        return (
            self._long_place(place.pos)
            if self.is_long(place.expected)
            else super()._bring_in(place)
        )

    def _feed_short(self, feed: Feed, place: Place, checks: dict[str, Any]) -> Place:
        if self._long_records is None or not self.is_long(place.expected):
            return super()._feed_short(feed, place, checks)
        pos, base = place.pos, self.file_from_offset
        known = checks.get("trusted") == base + pos or self._sound_long == pos
        found = self._shape(pos) if known else self._long_place(pos)
        if found.code <= 0:
            return found
        self._sound_long = pos  # a feed that was full is given it again
        record = without_body(self._peek_into, pos, found.size, self._long_records.body)
        told = {**checks, "trusted": base + pos}
        told.pop("skips", None)  # there is nothing to step over
        return feed(record, len(record), 0, base + pos, base + self.end, **told).moved(pos)

    def _long_place(self, pos: int) -> Place:
        """What lies at `pos`, checked with its CRC if that is wanted: a record that is not brought in."""
        shape = self._shape(pos)
        if shape.code <= 0 or self._long_records is None or not self._long_records.check_crc:
            return shape
        stored, actual = body_crcs(self._read_into, pos, shape.size)
        if stored == actual:
            return shape
        return Place(pos, places.BODYCRC, size=shape.size, found=stored, expected=actual)

    # ---- reading ahead ------------------------------------------------------------------------------

    def _move_to(self, pos: int, need: int) -> None:
        carry = max(0, self.start + self.length - pos) if self.start <= pos else 0
        if self._swap_in(pos, carry):
            carry = self.length
        behind_all = (
            pos > self.start + self.length
        )  # also where the file ends: a long record was not brought in
        if carry < min(need, self.end - pos) or behind_all:
            self._read(pos, need, carry)
        behind = self.start + self.length
        if self._ahead is not None and self._without_hole(behind, 0, 1):
            self._ahead.start(behind)

    def _swap_in(self, pos: int, carry: int) -> bool:
        """Go on with the block that was read ahead, the carried bytes put in front of it."""
        if self._ahead is None or carry > CARRY:
            return False
        taken = self._ahead.take(pos + carry, self._memory)
        if taken is None:
            return False
        memory, got = taken
        begin = CARRY - carry
        memory[begin:CARRY] = self.buf[self.length - carry : self.length]
        self._memory = memory
        self.buf = memoryview(memory)[begin:]
        self.start, self.length = pos, carry + got
        return True


def record_at(
    files: list[LogFile],
    phy_offset: int,
    delay_levels: DelayLevels | None = None,
    *,
    most_whole: int | None = None,
) -> MessageView | None:
    """The message whose record starts at a CommitLog offset, None when there is none; its CRC is not compared.

    Where a record has more than `most_whole` bytes its body is not read, and reads as zeros.
    """
    at = bisect_right(files, phy_offset, key=lambda file: file.file_from_offset) - 1
    if at < 0 or phy_offset >= files[at].end_offset:
        return None
    file = files[at]
    pos = phy_offset - file.file_from_offset
    try:
        with file.open(lambda start, end, error: None) as source:
            long_records = None
            if most_whole is not None:
                long_records = LongRecords(check_crc=False, most_whole=most_whole)
            window = SearchWindow(source, file.size, room=4096, long_records=long_records)
            place = window.step(pos)
            if place.code <= 0 and place.code != places.BODYCRC:
                return None
            own: bytes | memoryview
            if window.is_long(place.size):
                own = without_body(source.peek_into, pos, place.size, 0)
            else:
                own = bytes(window.buf[pos - window.start : pos - window.start + place.size])
    except FileNotFoundError:  # cleaned since it was listed
        return None
    return codec.decode_with_levels(own, 0, delay_levels)
