"""A moving window over one CommitLog file, and the search for the next sound place in it."""

from __future__ import annotations

from bisect import bisect_right

from rmqcore._native import codec, scan
from rmqcore._native.codec import DelayLevels, MessageView
from rmqcore.engine.log_window import plausible_record
from rmqcore.offline.files import LogBytes, LogFile
from rmqcore.offline.read_ahead import CARRY, ReadAhead

WINDOW = 2 * 1024 * 1024
"""Bytes read at once: small enough for a core's caches, and large enough that handing over a block read ahead costs little
(1 MiB was measured 9 % slower)."""

HEADER = 8


class Window:
    """Bytes [start, start + length) of a file in a buffer that is used again and again.

    Attributes
    ----------
    buf : memoryview
    start, length : int
        Position in the file of ``buf[0]``, and how many bytes are valid.
    end : int
        Where the file ends: its size when it was listed, less once a read has met an earlier end.

    Notes
    -----
    Not safe to share between threads.
    """

    def __init__(self, source: LogBytes, size: int, room: int = WINDOW) -> None:
        self._source = source
        self._ahead: ReadAhead | None = None
        if room >= WINDOW and size > 4 * room:
            self._ahead = ReadAhead(source, room, size)
            room += CARRY
        self._memory = bytearray(min(room, max(size, HEADER)))
        self.buf = memoryview(self._memory)
        self.start = 0
        self.length = 0
        self.end = size

    @property
    def _base(self) -> int:
        return self._source.file.file_from_offset

    def close(self) -> None:
        """End the thread that reads ahead."""
        if self._ahead is not None:
            self._ahead.close()

    def cover(self, pos: int, need: int = HEADER) -> None:
        """Make sure that `need` bytes from `pos` on are there, or all that the file has."""
        have = self.start + self.length - pos
        if self.start <= pos and (have >= need or pos + have >= self.end):
            return
        self._move_to(pos, need)

    def look_again(self, pos: int) -> int:
        """The step code at `pos` after reading it anew: bytes that are being written right now change."""
        self._read(pos, HEADER, 0)
        return self.step(pos)[0]

    def _move_to(self, pos: int, need: int) -> None:
        carry = max(0, self.start + self.length - pos) if self.start <= pos else 0
        if self._swap_in(pos, carry):
            carry = self.length
        if carry < min(need, self.end - pos):
            self._read(pos, need, carry)
        if self._ahead is not None:
            self._ahead.start(self.start + self.length)

    def _read(self, pos: int, need: int, carry: int) -> None:
        """Fill the buffer from `pos` on; the last `carry` bytes of it are those at `pos` already."""
        kept = bytes(self.buf[self.length - carry : self.length])
        if need > len(self._memory):
            self._memory = bytearray(min(need, self.end - pos))
        self._memory[:carry] = kept
        self.buf = memoryview(self._memory)
        wanted = min(len(self.buf), self.end - pos)
        got = self._source.read_into(self.buf[carry:wanted], pos + carry) if wanted > carry else 0
        self.start, self.length = pos, carry + got
        if self.length < wanted:  # somebody cut the file since it was listed
            self.end = pos + self.length

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

    def holds(self, pos: int, size: int) -> bool:
        """Bring in a record of `size` bytes whose end is not here yet; False when there can be no such record."""
        if pos + size > self.end:
            return False
        if size > WINDOW and not plausible_record(self._source.read_into, pos, size):
            return False
        before = self.end
        self.cover(pos, size)
        return self.end == before

    def step(self, pos: int) -> tuple[int, int, int, int]:
        """Code, size, found and expected of what lies at `pos`, all of it brought in."""
        self.cover(pos)
        while True:
            code, size, found, expected = scan.step(
                self.buf,
                self.length,
                pos - self.start,
                self._base + self.start,
                self._base + self.end,
            )
            if code != scan.SHORT or not self.holds(pos, expected):
                return code, size, found, expected

    def next_proven(self, pos: int, *, after_zeros: bool, data_end: int) -> tuple[int | None, int]:
        """The next place after `pos` that proves itself, or None; and the end of the last byte seen that is not 0.

        Where the damaged record itself would end is tried first, so that its body is not searched: nothing forged in there is
        believed.
        """
        if not after_zeros:
            self.cover(pos, WINDOW)
            guesses = scan.guesses(
                self.buf,
                self.length,
                pos - self.start,
                self._base + self.start,
                self._base + self.end,
            )
            for guess in [self.start + at for at in guesses]:
                if guess < self.end and self.step(guess)[0] >= 0:
                    return guess, guess
        return self._search(pos, min(data_end, self.end))

    def _search(self, begin: int, data_end: int) -> tuple[int | None, int]:
        used = begin
        pos = begin + 1
        need = HEADER
        while pos < data_end:
            self.cover(pos, max(need, min(WINDOW, data_end - pos)))
            filled = scan.used_bytes(self.buf, self.length)
            if filled:
                used = max(used, self.start + filled)
            at, code, size = scan.find(
                self.buf,
                self.length,
                pos - self.start,
                self._base + self.start,
                self._base + self.end,
            )
            at += self.start
            need = HEADER
            if code >= 0:
                return at, used
            if code == scan.SHORT:
                # A candidate that goes past the window: believed only once all of it is here.
                if self.holds(at, size or HEADER) and self.step(at)[0] >= 0:
                    return at, used
                pos = at + 1
            elif at + HEADER > data_end:
                break
            else:
                pos = max(at, pos + 1)
        return None, used


def record_at(
    files: list[LogFile], phy_offset: int, delay_levels: DelayLevels | None = None
) -> MessageView | None:
    """The message whose record starts at a CommitLog offset, None when there is none; its CRC is not compared."""
    at = bisect_right(files, phy_offset, key=lambda file: file.file_from_offset) - 1
    if at < 0 or phy_offset >= files[at].end_offset:
        return None
    file = files[at]
    pos = phy_offset - file.file_from_offset
    try:
        with file.open(lambda start, end, error: None) as source:
            window = Window(source, file.size, room=4096)
            code, size, _, _ = window.step(pos)
            if code <= 0 and code != scan.BODYCRC:
                return None
            own = bytes(window.buf[pos - window.start : pos - window.start + size])
    except FileNotFoundError:  # cleaned since it was listed
        return None
    return codec.decode(own, 0, delay_levels)
