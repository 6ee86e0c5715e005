"""A window over the bytes of one CommitLog file that moves with a scan.

The bytes are read, not mapped: a bad sector, or a file that another process cuts, raises an error here, and would kill
the process with a mapping.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Self

from rmqcore._native.format.layout import REC_HEADER_SIZE, REC_MAGIC
from rmqcore._native.scan import places, scan
from rmqcore._native.scan.places import Place
from rmqcore._native.scan.proof import Prover
from rmqcore._native.scan.skips import Skips
from rmqcore._native.threads.descriptor import Descriptor
from rmqcore.disk.data_extents import DataExtents
from rmqcore.disk.inside.files import open_file
from rmqcore.errors import StoreFormatError, is_of_the_system

WINDOW = 2 * 1024 * 1024
"""Bytes read at once: small enough for a core's caches, and large enough that handing over a block read ahead costs little
(1 MiB was measured 9 % slower)."""

FREE_BYTES = 16 * 1024 * 1024
"""Bytes that may be hashed and read for places that do not prove themselves, beside the number of bytes scanned. Only a
file made for it exceeds this; then each further place of this kind costs a constant (`Prover`)."""

MAX_UNPROVEN = 16 * 1024 * 1024
"""A longer record behind damage is proven before a window grows for it."""

STATES_READ = 256 * 1024
"""Bytes read at once for the states of a `Prover`: a multiple of its step, small enough for a core's cache."""

Feed = Callable[..., Place]
"""`ColumnScan.feed`, `ViewScan.feed`, or a wrapper with the same arguments."""

ReadInto = Callable[[memoryview, int], int]


class LogWindow:
    """Bytes [start, start + length) of a file, in a buffer that is reused.

    Parameters
    ----------
    read_into : callable
        Fills a memoryview from a byte of the file on and returns the bytes read. Fewer than asked mean the end of the
        file; a source of known size raises instead (`WholeFile`).
    file_from_offset : int
        CommitLog offset of the file's first byte.
    size : int
        Bytes that the file should have.
    room : int
        Bytes read at once; a larger record makes the buffer larger.
    peek_into : callable, optional
        As `read_into`, for bytes that are only looked at: zeros replace bytes that the disk does not return, without a
        report.
    extents : DataExtents, optional
        The parts of the file that are searched; all of it by default.
    descriptor : Descriptor, optional
        The open file, from which small parts that are only looked at are read; `peek_into` reads the parts that fail.
    check_place : bool
        True if the offset in each record must match its place; False if the feed does not check that.

    Attributes
    ----------
    buf : memoryview
    start, length : int
        Position in the file of ``buf[0]``, and the number of valid bytes.
    end : int
        End of the file: `size`, or less after a read has met an earlier end.
    bytes_in_vain : int
        Bytes read and hashed for places that did not prove themselves.

    Notes
    -----
    Not safe to share between threads.
    """

    def __init__(
        self,
        read_into: ReadInto,
        file_from_offset: int,
        size: int,
        *,
        room: int = WINDOW,
        peek_into: ReadInto | None = None,
        extents: DataExtents | None = None,
        descriptor: Descriptor | None = None,
        check_place: bool = True,
    ) -> None:
        self.file_from_offset = file_from_offset
        self.start = 0
        self.length = 0
        self.end = self._size = size
        self.bytes_in_vain = 0
        self._read_into = read_into
        self._peek_into = peek_into or read_into
        self._extents = extents
        self._descriptor = descriptor
        self._check_place = check_place
        self._damaged = False
        self._prover: Prover | None = None
        self._walk_begin: int | None = None
        self._allowance = FREE_BYTES
        self._memory = bytearray(min(room, max(size, REC_HEADER_SIZE)))
        self.buf = memoryview(self._memory)

    # ---- bytes --------------------------------------------------------------------------------------

    def cover(self, pos: int, need: int = REC_HEADER_SIZE) -> None:
        """Make sure that `need` bytes from `pos` on are in the window, or all that the file has."""
        have = self.start + self.length - pos
        if self.start <= pos and (have >= need or pos + have >= self.end):
            return
        self._move_to(pos, need)

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
        wanted = self._without_hole(pos, need, min(len(self.buf), self.end - pos))
        got = self._read_into(self.buf[carry:wanted], pos + carry) if wanted > carry else 0
        self.start, self.length = pos, carry + got
        if self.length < wanted:  # the file was cut after its size was read
            self.end = pos + self.length

    def _without_hole(self, pos: int, need: int, wanted: int) -> int:
        """Return how many of `wanted` bytes at `pos` to read: those before the first hole behind the needed bytes.

        Only scans behind damage call this: a sound file has its holes at the end.
        """
        if self._extents is None or not self._damaged:
            return wanted
        first, last = self._extents.following(pos)
        # All places of the extent are checked if a header fits behind the last one.
        return min(wanted, max(need, last + REC_HEADER_SIZE - pos if first - pos <= need else 0))

    # ---- records ------------------------------------------------------------------------------------

    def _from(self, pos: int) -> tuple[memoryview, int, int, int, int]:
        """The window from a position of the file on, as the native functions take it."""
        base = self.file_from_offset
        return self.buf, self.length, pos - self.start, base + self.start, base + self.end

    def feed(self, feed: Feed, pos: int, **checks: Any) -> Place:
        """Feed a scan the records of the window that covers `pos`, from there on.

        Returns
        -------
        Place
            Place at which the scan stopped, a position in the file. `scan.END`: continue from there, because the window
            is used up or its end cuts the next record.
        """
        if self._walk_begin is None:
            self._walk_begin = pos
        self.cover(pos)
        place = feed(*self._from(pos), **checks).moved(self.start)
        # The caller receives the scanned records before the next read, which may fail.
        if place.code != places.SHORT:
            return place
        return (
            Place(place.pos, scan.END) if place.pos > pos else self._feed_short(feed, place, checks)
        )

    def _feed_short(self, feed: Feed, place: Place, checks: dict[str, Any]) -> Place:
        """Return the result of `feed` if the record at `place` goes past the window."""
        del feed, checks  # the next call returns the record
        return self._bring_in(place) or Place(place.pos, scan.END)

    def step(self, pos: int) -> Place:
        """Return the place at `pos`, a position in the file, with its record read whole and its CRC checked."""
        self.cover(pos)
        while True:
            place = places.step(*self._from(pos)).moved(self.start)
            if place.code != places.SHORT:
                return place
            refused = self._bring_in(place)
            if refused is not None:
                return refused

    def _bring_in(self, place: Place) -> Place | None:
        """Read a record that goes past the window; return its fault if its two ends show one.

        A large record is checked before memory is allocated for it, and so is each record in a file with damage.
        """
        if place.expected > WINDOW or self._prover is not None:
            shape = self._shape(place.pos)
            wanted = shape.code > 0 or (
                shape.code == places.PHYSICALOFFSET and not self._check_place
            )
            if not wanted:
                return shape
        self.cover(place.pos, place.expected)
        return None

    # ---- the next sound place -----------------------------------------------------------------------

    def next_proven(self, pos: int, *, after_zeros: bool) -> tuple[int | None, int]:
        """Return the next place after `pos` that proves itself; or None, and the end of the last byte that is not 0.

        The ends of the damaged record by its own lengths are tried first, so that its body is not searched and a record
        forged in the body is not believed. Zeros at `pos` have no lengths to try. The answer depends only on the file's
        bytes, its cost on the bytes outside of holes (docs/reading-damaged-stores.md).
        """
        self._damaged = True
        self._allowance = FREE_BYTES + pos - (self._walk_begin or 0)
        if not after_zeros:
            self.cover(pos)
            for guess in self._the_prover().guesses(*self._from(pos)):
                at = self.start + guess
                if at < self.end and self._proves_itself(at):
                    return at, at
        return self._search(pos)

    def skips(self, *, leave_out: bool) -> Skips:
        """Make scans find the next proven place by themselves, if a window has enough bytes.

        The parameters are those of `Skips`. The caller sees to its `settled`, and that its `bytes_in_vain` are those of
        this window.
        """
        return Skips(self._the_prover(), leave_out=leave_out, credit_from=self._credit_from)

    @property
    def _credit_from(self) -> int:
        return self.file_from_offset + (self._walk_begin or 0) - FREE_BYTES

    def _search(self, begin: int) -> tuple[int | None, int]:
        """Check each MAGIC behind `begin`; return as `next_proven`."""
        self.cover(begin)
        at = begin - self.start
        used = begin + (1 if at < self.length and self.buf[at] else 0)
        pos = self._next_data(begin + 1)
        while pos < self.end:
            self.cover(pos)
            found = self._find(pos)
            if found.code >= 0:
                return found.pos, found.pos
            if found.code == places.COSTLY:
                self._note_states()
                pos = found.pos
            elif found.code == places.SHORT:
                if self._proves_itself(found.pos):
                    return found.pos, found.pos
                pos = found.pos + 1
            else:
                filled = places.used_bytes(self.buf, self.length)
                used = max(used, self.start + filled) if filled else used
                if found.pos + REC_HEADER_SIZE > self.end:
                    break
                pos = self._next_data(max(found.pos, pos + 1))
        return None, used

    def _next_data(self, pos: int) -> int:
        """Return the position of the next search: a hole cannot hold a MAGIC, which has no byte 0."""
        if self._extents is None:
            return pos
        first, last = self._extents.following(pos)
        return max(pos, first - REC_MAGIC) if first < last else self.end

    def _find(self, pos: int) -> Place:
        """Return the first candidate in the window that proves itself, or that needs more bytes."""
        if self._prover is not None and self._prover.has_states:
            return self._prover.find(*self._from(pos)).moved(self.start)
        credit = self._allowance - self.bytes_in_vain
        found, in_vain = places.find_within(*self._from(pos), credit)
        self.bytes_in_vain += in_vain
        return found.moved(self.start)

    def _proves_itself(self, pos: int) -> bool:
        """Return True if a place of the file, in the window or not, proves itself. The window may move there."""
        shape = self._shape(pos)
        if shape.code <= 0:
            return shape.code == places.BLANK
        prover = self._the_prover()
        if not prover.has_states:
            inside = self.start <= pos and pos + shape.size <= self.start + self.length
            # Elsewhere the window moves there, and back.
            price = shape.size if inside else shape.size + 2 * len(self._memory)
            if shape.size <= MAX_UNPROVEN and self.bytes_in_vain + price <= self._allowance:
                if self.step(pos).code > 0:
                    return True
                self.bytes_in_vain += price
                return False
            self._note_states()
        return prover.step(*self._from(pos)).code > 0

    def _shape(self, pos: int) -> Place:
        """Return the place at `pos`, a position in the file, checked without its CRC."""
        return self._the_prover().shape(*self._from(pos)).moved(self.start)

    def _the_prover(self) -> Prover:
        if self._prover is None:
            # No method of this window: a circle would keep both until the next collection.
            peek = partial(_peek_within, self._peek_into, self._size)
            self._prover = Prover(peek, self.file_from_offset, self._descriptor, self._size)
        return self._prover

    def _note_states(self) -> None:
        """Read the file once, from where the walk began, so that from now on each CRC costs a constant."""
        prover = self._the_prover()
        pos = self._walk_begin or 0
        prover.begin_states(self.end - pos)
        with memoryview(bytearray(STATES_READ)) as view:
            while pos < self.end:
                first, last = (
                    (pos, self.end) if self._extents is None else self._extents.following(pos)
                )
                for pos in range(first, min(last, self.end), STATES_READ):
                    wanted = min(STATES_READ, last - pos, self.end - pos)
                    got = self._peek_into(view[:wanted], pos)
                    prover.add(view, got, pos)
                    if got < wanted:  # the file was cut: missing bytes prove nothing
                        return
                pos = max(last, pos + 1)


def _peek_within(peek_into: ReadInto, end: int, view: memoryview, pos: int) -> int:
    """Read up to the file's end, behind which its owner does not expect anybody to read."""
    wanted = end - pos
    if wanted >= len(view):
        return peek_into(view, pos)
    return peek_into(view[:wanted], pos) if wanted > 0 else 0


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
        self._file = open_file(path, os.O_RDONLY)
        self._fd = self._file.fileno()
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)

    def window(
        self, file_from_offset: int, *, room: int = WINDOW, check_place: bool = True
    ) -> LogWindow:
        """A window over the file, which begins at a CommitLog offset."""
        return LogWindow(
            self.read_into,
            file_from_offset,
            self.file_size,
            room=room,
            extents=DataExtents(self._fd, self.file_size),
            descriptor=self._file,
            check_place=check_place,
        )

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
