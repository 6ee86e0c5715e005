"""A window over the bytes of one CommitLog file that moves along with a scan.

The bytes are read, not mapped: a bad sector, or a file that somebody cuts, is an error here, where it would end the process
under a mapping.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from rmqcore._native.format import codec, layout
from rmqcore._native.format.layout import (
    MAX_PROPERTIES_LEN,
    MAX_TOPIC_LEN_V2,
    REC_HEADER_SIZE,
    REC_SYSFLAG,
    SYS_BORNHOST_V6,
    SYS_STOREHOST_V6,
)
from rmqcore._native.scan import places, scan
from rmqcore._native.scan.places import Place
from rmqcore._native.threads.descriptor import Descriptor
from rmqcore.errors import CorruptMessageError, StoreFormatError, is_of_the_system

WINDOW = 2 * 1024 * 1024
"""Bytes read at once: small enough for a core's caches, and large enough that handing over a block read ahead costs little
(1 MiB was measured 9 % slower)."""

MAX_TAIL = 2 + MAX_TOPIC_LEN_V2 + 2 + MAX_PROPERTIES_LEN
"""Bytes that can follow a body: topic and properties with their lengths."""

Feed = Callable[..., Place]
"""`ColumnScan.feed`, `ViewScan.feed`, or a function around one that takes the same arguments."""


class LogWindow:
    """Bytes [start, start + length) of a file, in a buffer that is used again and again.

    Parameters
    ----------
    read_into : callable
        Fills a memoryview from a byte of the file on and answers the bytes read. It answers fewer only where the file ends;
        a source that knows better raises instead (`WholeFile`).
    file_from_offset : int
        CommitLog offset of the file's first byte.
    size : int
        Bytes that the file should have.
    room : int
        Bytes read at once; a larger record makes the buffer larger.

    Attributes
    ----------
    buf : memoryview
    start, length : int
        Position in the file of ``buf[0]``, and how many bytes are valid.
    end : int
        Where the file ends: `size`, less once a read has met an earlier end.

    Notes
    -----
    Not safe to share between threads.
    """

    def __init__(
        self,
        read_into: Callable[[memoryview, int], int],
        file_from_offset: int,
        size: int,
        *,
        room: int = WINDOW,
    ) -> None:
        self.file_from_offset = file_from_offset
        self.start = 0
        self.length = 0
        self.end = size
        self._read_into = read_into
        self._memory = bytearray(min(room, max(size, REC_HEADER_SIZE)))
        self.buf = memoryview(self._memory)

    # ---- bytes --------------------------------------------------------------------------------------

    def cover(self, pos: int, need: int = REC_HEADER_SIZE) -> None:
        """Make sure that `need` bytes from `pos` on are in the window, or all that the file has."""
        have = self.start + self.length - pos
        if self.start <= pos and (have >= need or pos + have >= self.end):
            return
        self._move_to(pos, need)

    def bring_in(self, pos: int, size: int) -> bool:
        """Bring in a record of `size` bytes that goes past the window; False when there can be no such record.

        When the file turns out to be shorter the answer is True as well: the next look at `pos` tells that.
        """
        if pos + size > self.end:
            return False
        if size > WINDOW and not plausible_record(self._read_into, pos, size):
            return False
        self.cover(pos, size)
        return True

    def _move_to(self, pos: int, need: int) -> None:
        """Make `pos` the window's start, with at least `need` bytes as far as the file has them."""
        self._read(pos, need, max(0, self.start + self.length - pos) if self.start <= pos else 0)

    def _read(self, pos: int, need: int, carry: int) -> None:
        """Fill the buffer from `pos` on; the last `carry` bytes of it are those at `pos` already."""
        kept = bytes(self.buf[self.length - carry : self.length])
        if need > len(self._memory):
            self._memory = bytearray(min(need, self.end - pos))
        self._memory[:carry] = kept
        self.buf = memoryview(self._memory)
        wanted = min(len(self.buf), self.end - pos)
        got = self._read_into(self.buf[carry:wanted], pos + carry) if wanted > carry else 0
        self.start, self.length = pos, carry + got
        if self.length < wanted:  # somebody cut the file since its size was asked for
            self.end = pos + self.length

    # ---- records ------------------------------------------------------------------------------------

    def _from(self, pos: int) -> tuple[memoryview, int, int, int, int]:
        """The window from a position of the file on, as the native functions take it."""
        base = self.file_from_offset
        return self.buf, self.length, pos - self.start, base + self.start, base + self.end

    def feed(self, feed: Feed, pos: int, **checks: Any) -> Place:
        """Give a scan the records of the window that covers `pos`, from there on.

        Returns
        -------
        Place
            Where it stopped, a position in the file. `scan.END` says to go on from there: the window is used up, or its end cuts
            the next record. `places.SHORT` is left only for a large record whose two ends do not fit together; see
            `what_is_wrong`.
        """
        self.cover(pos)
        place = feed(*self._from(pos), **checks).moved(self.start)
        # The caller is told of what was taken before more is read, which may fail.
        if place.code == places.SHORT and (
            place.pos > pos or self.bring_in(place.pos, place.expected)
        ):
            return Place(place.pos, scan.END)
        return place

    def step(self, pos: int) -> Place:
        """What lies at `pos`, all of it brought in and checked with its CRC; a position in the file."""
        self.cover(pos)
        while True:
            place = places.step(*self._from(pos))
            if place.code != places.SHORT or not self.bring_in(pos, place.expected):
                return place.moved(self.start)

    # ---- the next sound place -----------------------------------------------------------------------

    def next_proven(self, pos: int, *, after_zeros: bool, data_end: int) -> tuple[int | None, int]:
        """The next place after `pos` that proves itself, or None; and the end of the last byte seen that is not 0.

        The places where the damaged record would end by its own lengths are tried first, so that its body is not searched and no
        record forged in there is believed. The search ends at `data_end`; zeros at `pos` have no lengths to try.
        """
        if not after_zeros:
            self.cover(pos, WINDOW)
            for guess in [self.start + at for at in places.guesses(*self._from(pos))]:
                if guess < self.end and self.step(guess).code >= 0:
                    return guess, guess
        return self._search(pos, min(data_end, self.end))

    def _search(self, begin: int, data_end: int) -> tuple[int | None, int]:
        """Look at each MAGIC behind `begin`; answers as `next_proven`."""
        used = begin
        pos = begin + 1
        while pos < data_end:
            self.cover(pos, max(REC_HEADER_SIZE, min(WINDOW, data_end - pos)))
            filled = places.used_bytes(self.buf, self.length)
            if filled:
                used = max(used, self.start + filled)
            found = places.find(*self._from(pos))
            at = self.start + found.pos
            if found.code >= 0:
                return at, used
            if found.code == places.SHORT:
                # This candidate goes past the window: it is believed only once all of it is here.
                if self.bring_in(at, found.expected) and self.step(at).code >= 0:
                    return at, used
                pos = at + 1
            elif at + REC_HEADER_SIZE > data_end:
                break
            else:
                pos = max(at, pos + 1)
        return None, used


def what_is_wrong(place: Place) -> tuple[str, object, object]:
    """Field, expected and found where `LogWindow.feed` stopped at no sound record."""
    if place.code == places.SHORT:
        return "TOTALSIZE", "the sum of its lengths", place.expected
    return place.describe()


class WholeFile:
    """A file of a known size, read by positions: a file of one's own store.

    Raises
    ------
    OSError
        The disk does not give the bytes; names the file and the position.
    StoreFormatError
        The file is shorter than it should be.
    """

    def __init__(self, path: str | os.PathLike[str], file_size: int) -> None:
        self.path = Path(path)
        self.file_size = file_size
        self._file = Descriptor(path, os.O_RDONLY)
        self._fd = self._file.fileno()
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)

    def window(self, file_from_offset: int, *, room: int = WINDOW) -> LogWindow:
        """A window over the file, which begins at a CommitLog offset."""
        return LogWindow(self.read_into, file_from_offset, self.file_size, room=room)

    def read_into(self, view: memoryview, pos: int) -> int:
        """Fill `view` from byte `pos` of the file on; answers its length."""
        done = 0
        while done < len(view):
            try:
                got = os.preadv(self._fd, [view[done:]], pos + done)
            except OSError as error:
                if not is_of_the_system(error):
                    raise
                text = f"{os.strerror(error.errno or 0)} (read at byte {pos + done})"
                raise OSError(error.errno, text, os.fspath(self.path)) from error
            if got == 0:
                raise StoreFormatError(
                    f"{self.path}: file size is {pos + done}, expected {self.file_size}"
                )
            done += got
        return done

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def plausible_record(read_into: Callable[[memoryview, int], object], pos: int, size: int) -> bool:
    """Whether the lengths of a large record agree, seen from its two ends: a damaged TOTALSIZE must not ask for memory.

    The record is checked as the one it would be without its body.
    """
    head = bytearray(layout.body_pos(SYS_BORNHOST_V6 | SYS_STOREHOST_V6))
    with memoryview(head) as view:
        read_into(view, pos)
    (sys_flag,) = struct.unpack_from(">i", head, REC_SYSFLAG)
    body_pos = layout.body_pos(sys_flag)
    (body_len,) = struct.unpack_from(">i", head, body_pos - 4)
    tail_len = size - body_pos - body_len
    if body_len < 0 or not 0 < tail_len <= MAX_TAIL:
        return False
    tail = bytearray(tail_len)
    with memoryview(tail) as view:
        read_into(view, pos + body_pos + body_len)
    probe = head[:body_pos] + tail
    struct.pack_into(">i", probe, 0, len(probe))
    struct.pack_into(">i", probe, body_pos - 4, 0)
    try:
        return codec.check(probe, check_crc=False) == len(probe)
    except CorruptMessageError:
        return False
