"""One IndexFile of an open store: its name, its geometry, its space on disk."""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from pathlib import Path

from rmqcore._native.files.mapped_file import MappedFile
from rmqcore._native.format.layout import (
    INDEX_ENTRY_PHYOFFSET,
    INDEX_ENTRY_SIZE,
    INDEX_HEADER_SIZE,
    INDEX_SLOT_SIZE,
    index_file_size,
)
from rmqcore._native.index.index_reader import IndexHeader
from rmqcore._native.index.mapped_index import MappedIndexFile
from rmqcore._native.threads.mutex import Mutex
from rmqcore.disk.index.slot_count import fits_any_slot_count
from rmqcore.disk.inside.files import unlink
from rmqcore.disk.paths import is_index_file_name
from rmqcore.disk.read_range import opened
from rmqcore.errors import StoreFormatError
from rmqcore.vocabulary.units import INT_MAX, PAGE

NAME_DIGITS = 17
MOST = INT_MAX  # slots or entries of a file: both are an int in Java
# Each step allocates blocks so that the entries in use can double, within these bounds: blocks cost little.
LEAST_BLOCKS, MOST_BLOCKS = 1 << 20, 64 << 20
# Pages cost memory and are dirty from the start: each step ends at a multiple of PAGES_STEP bytes. The thread that
# works ahead keeps pages ready so that the bytes in use can double, at least LEAST_AHEAD and at most MOST_AHEAD.
PAGES_STEP = 2 << 20
LEAST_AHEAD, MOST_AHEAD = 1 << 20, 32 << 20


def next_name(now_ms: int, newest: str | None) -> str:
    """Return a new index file's name: the local time, ``yyyyMMddHHmmssSSS``, or the newest name + 1 if larger.

    Java uses the time alone: two files of one millisecond are the same file there, and after a clock was set back a new
    file sorts before older files.

    Parameters
    ----------
    now_ms : int
        Wall clock, milliseconds.
    newest : str, optional
        Name of the last file in name order.

    Raises
    ------
    StoreFormatError
        No larger number fits a name.

    Notes
    -----
    Source: RocketMQ 5.5.0 IndexService#getAndCreateLastIndexFile, UtilAll#timeMillisToHumanString.
    """
    local = time.localtime(now_ms // 1000)
    name = time.strftime("%Y%m%d%H%M%S", local) + f"{now_ms % 1000:03d}"
    if newest is None or name > newest:
        return name
    behind = newest.ljust(NAME_DIGITS, "0")
    if behind == newest:
        behind = f"{int(newest) + 1:0{len(newest)}d}"
    if not (behind > newest and is_index_file_name(behind)):
        raise StoreFormatError(
            f"index/{newest}: a next index file cannot get a name that sorts behind it"
        )
    return behind


def as_many(used: int, least: int, most: int) -> int:
    """Return the number of bytes to make ready beyond the `used` bytes: the same number again, within bounds."""
    return min(max(used, least), most)


class IndexFile:
    """An index file, mapped at its first use.

    Parameters
    ----------
    path : Path
    slot_count, capacity : int
        maxHashSlotNum and maxIndexNum.
    header : IndexHeader
        The header in the file, or the first header of a new file.
    writable : bool

    Attributes
    ----------
    found : IndexHeader
        The header when this object was made; `native.header` has counts that fit the file.
    writable : bool
        False once the file is full and on disk.

    Notes
    -----
    **Durability.** No byte is written before its block is allocated: `make_room` goes ahead of every put, so a full
    disk is an OSError of `make_room`, never a SIGBUS.

    **Thread safety.** One thread puts; `make_room` and `flush` may run in another one.

    Source: RocketMQ 5.5.0 IndexFile.
    """

    def __init__(
        self,
        path: Path,
        slot_count: int,
        capacity: int,
        header: IndexHeader,
        *,
        writable: bool = False,
    ) -> None:
        self.path = path
        self.writable = writable
        self.found = header
        self._mapped = MappedFile(
            str(path), index_file_size(slot_count, capacity), writable=writable
        )
        self.native = MappedIndexFile(self._mapped, slot_count, capacity, header)
        self._entries_pos = index_file_size(slot_count, 0)
        self._room_lock = Mutex()
        self._allocated = 0  # bytes from the file's start that are known to have blocks
        self._size_synced = False

    @classmethod
    def create(
        cls, path: Path, slot_count: int, capacity: int, before: IndexHeader | None
    ) -> IndexFile:
        """Make a new file of full size, sparse except for its header. If that fails, no file is left.

        An exception of a signal handler may leave a file: the caller knows its name and deletes it.

        Parameters
        ----------
        path : Path
            A path without a file.
        slot_count, capacity : int
        before : IndexHeader, optional
            Header of the full file before it: its end is the new file's start.

        Raises
        ------
        OSError
            The file cannot be made, or the disk is full.
        """
        phy_offset, timestamp_ms = (
            (max(before.end_phy_offset, 0), max(before.end_timestamp_ms, 0)) if before else (0, 0)
        )
        header = IndexHeader(timestamp_ms, timestamp_ms, phy_offset, phy_offset, 0, 1)
        try:
            with opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as made:
                os.ftruncate(made, index_file_size(slot_count, capacity))
            file = cls(path, slot_count, capacity, header, writable=True)
            file._mapped.allocate(0, INDEX_HEADER_SIZE)
            file.native.write_header()
        except FileExistsError:
            raise
        except BaseException:
            unlink(path, missing_ok=True)
            raise
        return file

    @property
    def name(self) -> str:
        """The file's name, a number."""
        return self.path.name

    @property
    def file_size(self) -> int:
        """Bytes of the file."""
        return self._mapped.file_size

    def mapped_anew(self) -> IndexFile:
        """Return the same file without a page in memory; this object must not be used any more."""
        native = self.native
        file = IndexFile(
            self.path, native.slot_count, native.capacity, native.header, writable=self.writable
        )
        file._size_synced = self._size_synced
        return file

    def make_room(self, rows: int = MOST) -> None:
        """Make the next entries ready, at the first call header and slots too. Safe in two threads at the same time.

        Parameters
        ----------
        rows : int
            Approximate number of messages that wait to be put.

        Raises
        ------
        OSError
            The disk is full; entries that were ready stay usable.
        """
        begin, end = self._room_lock.run(self._next_room)
        if begin == end:
            return  # another thread filled the file
        if self.native.ready == 0 and rows * PAGE >= self._entries_pos:
            # Many messages touch nearly every page of the slots. A few touch few pages, and only these become dirty.
            self._mapped.populate(0, self._entries_pos)
        # Without the lock: a put that finds no room waits only for its own pages.
        self._mapped.populate(begin, end)
        self._room_lock.run(self._allow, end)

    def _next_room(self) -> tuple[int, int]:
        """Return start and end of the next pages, after allocating their blocks."""
        native = self.native
        begin = self._entries_pos + max(native.ready, native.index_count) * INDEX_ENTRY_SIZE
        if not self.writable or begin == self.file_size:
            return begin, begin
        least = begin + INDEX_ENTRY_SIZE
        if least > self._allocated:
            step = as_many(begin - self._entries_pos, LEAST_BLOCKS, MOST_BLOCKS)
            end = min(begin + step, self.file_size)
            # The first call allocates from the start of the file: a file that Java made has holes among its slots.
            self._mapped.allocate(self._allocated, end)
            self._allocated = end
        return begin, min(least + PAGES_STEP - least % PAGES_STEP, self._allocated)

    def _allow(self, end: int) -> None:
        if self.writable:
            ready = (end - self._entries_pos) // INDEX_ENTRY_SIZE
            self.native.allow(max(ready, self.native.ready))

    def wants_room(self) -> bool:
        """Return whether less than half of the room to keep ready is left; never before the first `make_room`."""
        return self._wants_room_at(self.native.index_count)

    def _wants_room_at(self, index_count: int) -> bool:
        native = self.native
        ready = native.ready
        left = (ready - index_count) * INDEX_ENTRY_SIZE
        ahead = as_many(index_count * INDEX_ENTRY_SIZE, LEAST_AHEAD, MOST_AHEAD)
        return 0 < ready < native.capacity and 2 * left < ahead

    def room_alarm(self) -> int:
        """Return the number of entries at which `wants_room` becomes true or all ready bytes are used."""
        ready, index_count = self.native.ready, self.native.index_count
        if self.wants_room():
            return ready
        return bisect_left(range(ready), True, index_count, key=self._wants_room_at)

    def flush(self) -> None:
        """Wait until header, slots and the entries in use are on disk.

        Raises
        ------
        OSError
            The disk refuses.
        """
        if not (self.writable and self._mapped.mapped):
            return
        self._mapped.flush(0, self._entries_pos + self.native.index_count * INDEX_ENTRY_SIZE)
        if not self._size_synced:
            self._mapped.sync()
            self._size_synced = True

    def seal(self) -> None:
        """Close the descriptor of a file that is full and on disk; its mapping stays, for queries."""
        self._room_lock.run(self._seal)

    def _seal(self) -> None:
        self.writable = False
        self._mapped.seal()

    def __repr__(self) -> str:
        return f"<IndexFile {self.path} with {self.native.index_count - 1} entries>"


def find_geometry(
    path: Path, file_size: int, header: IndexHeader, slot_count: int, capacity: int
) -> tuple[int, int] | None:
    """Find a file's numbers of slots and entries: the configured ones, or those from before one setting was changed.

    Queries read an older file as before; it is not written any more. The first and the last entry prove the
    numbers found: both entries hold offsets that the header holds too.

    Returns
    -------
    (int, int) or None
        Slots and entries. None: not an index file, or one whose length something other than a store changed.

    Raises
    ------
    StoreFormatError
        The file's size differs from the configured size, and the file is sound with other numbers.
    """
    expected = index_file_size(slot_count, capacity)
    if file_size == expected:
        return slot_count, capacity
    guesses = [
        (slot_count, (file_size - index_file_size(slot_count, 0)) // INDEX_ENTRY_SIZE),
        ((file_size - index_file_size(0, capacity)) // INDEX_SLOT_SIZE, capacity),
    ]
    for guess in guesses:
        if index_file_size(*guess) == file_size and _fits(path, header, *guess):
            return guess
    if not fits_any_slot_count(path, file_size, header):
        return None
    raise StoreFormatError(
        f"{path}: file size is {file_size}, expected {expected} for max_hash_slot_num {slot_count} "
        f"and max_index_num {capacity}; use the values with which it was written "
        "(rmqcore.find_config returns them), or remove the file and rebuild the index"
    )


def _fits(path: Path, header: IndexHeader, slot_count: int, capacity: int) -> bool:
    if not 1 <= slot_count <= MOST or not 2 <= capacity <= MOST:
        return False
    if header.index_count > capacity:
        return False
    if header.index_count <= 1:  # without entries wrong numbers do no harm
        return True
    with opened(path, os.O_RDONLY) as fd:
        for index, phy_offset in (
            (1, header.begin_phy_offset),
            (header.index_count - 1, header.end_phy_offset),
        ):
            pos = index_file_size(slot_count, index) + INDEX_ENTRY_PHYOFFSET
            if int.from_bytes(os.pread(fd, 8, pos), "big", signed=True) != phy_offset:
                return False
    return True
