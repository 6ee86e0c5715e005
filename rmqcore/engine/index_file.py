"""One IndexFile of an open store: its name, its geometry, its space on disk."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from rmqcore._native.index import (
    INDEX_ENTRY_SIZE,
    INDEX_HEADER_SIZE,
    INDEX_SLOT_SIZE,
    IndexHeader,
    decode_header,
)
from rmqcore._native.mapped_file import MappedFile
from rmqcore._native.mapped_index import MappedIndexFile
from rmqcore.engine.paths import MAX_OFFSET
from rmqcore.errors import StoreFormatError

NAME_DIGITS = 17
# Entries are allocated in steps of as many bytes as are in use, at least and at most so many.
LEAST_STEP = 1 << 20
MOST_STEP = 16 << 20


def is_index_file_name(name: str) -> bool:
    """Tell whether Java takes a name in ``index/`` for an index file: a decimal number that fits a long."""
    return name.isascii() and name.isdigit() and len(name) <= 19 and int(name) <= MAX_OFFSET


def next_name(now_ms: int, newest: str | None) -> str:
    """Name a new index file: the local time, ``yyyyMMddHHmmssSSS``, but always behind the newest one.

    Java takes the time alone: two files of one millisecond are the same file there, and a clock that is set back puts
    the new file in front of older ones.

    Parameters
    ----------
    now_ms : int
        Wall clock, milliseconds.
    newest : str, optional
        The last name in name order.

    Raises
    ------
    StoreFormatError
        There is no number behind the newest name.

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
        raise StoreFormatError(f"index/{newest}: no name for a next index file sorts behind it")
    return behind


def index_file_size(slot_count: int, capacity: int) -> int:
    """Give the bytes of a file with so many slots and entries, the unused entry 0 included."""
    return INDEX_HEADER_SIZE + INDEX_SLOT_SIZE * slot_count + INDEX_ENTRY_SIZE * capacity


def step_of(entries: int) -> int:
    """Give the entries to allocate when there are so many: as many again, in bounds."""
    return min(max(entries * INDEX_ENTRY_SIZE, LEAST_STEP), MOST_STEP) // INDEX_ENTRY_SIZE


class IndexFile:
    """An index file, mapped at its first use.

    Parameters
    ----------
    path : Path
    slot_count, capacity : int
        maxHashSlotNum and maxIndexNum.
    header : IndexHeader
        What the file says, or what a new one begins with.
    writable : bool

    Notes
    -----
    **Durability.** No byte is stored to before its block is allocated: `make_room` goes ahead of every put, so a full disk is
    an OSError there.

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
        self._mapped = MappedFile(
            str(path), index_file_size(slot_count, capacity), writable=writable
        )
        self.native = MappedIndexFile(self._mapped, slot_count, capacity, header)
        self._entries_pos = index_file_size(slot_count, 0)
        self._room_lock = threading.Lock()
        self._size_synced = False

    @classmethod
    def create(
        cls, path: Path, slot_count: int, capacity: int, before: IndexHeader | None
    ) -> IndexFile:
        """Make a new file of full size, sparse but for its header; nothing is left of it when that fails.

        Parameters
        ----------
        path : Path
            No such file exists.
        slot_count, capacity : int
        before : IndexHeader, optional
            Header of the full file that it follows: it begins with that one's end.

        Raises
        ------
        OSError
            It cannot be made, or the disk is full.
        """
        phy_offset, timestamp_ms = (
            (max(before.end_phy_offset, 0), max(before.end_timestamp_ms, 0)) if before else (0, 0)
        )
        header = IndexHeader(timestamp_ms, timestamp_ms, phy_offset, phy_offset, 0, 1)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            try:
                os.ftruncate(fd, index_file_size(slot_count, capacity))
            finally:
                os.close(fd)
            file = cls(path, slot_count, capacity, header, writable=True)
            file._mapped.allocate(0, INDEX_HEADER_SIZE)
            file.native.write_header()
        except BaseException:
            path.unlink()
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

    def make_room(self) -> None:
        """Allocate and populate the next step of entries, with header and slots the first time.

        Raises
        ------
        OSError
            The disk is full; what was there stays usable.
        """
        with self._room_lock:
            native = self.native
            done = max(native.ready, native.index_count)
            used = done * INDEX_ENTRY_SIZE
            ready = min(done + step_of(done), native.capacity)
            end = self._entries_pos + ready * INDEX_ENTRY_SIZE
            # The first time from the start of the file: one that Java made has holes among its slots.
            begin = self._entries_pos + used if native.ready else 0
            self._mapped.allocate(begin, end)
            if native.ready == 0:
                self._mapped.populate(0, self._entries_pos)
                begin = self._entries_pos + used
            self._mapped.populate(begin, end)
            native.allow(ready)

    def wants_room(self) -> bool:
        """Tell whether less than half a step of allocated entries is left; never before the first `make_room`."""
        native = self.native
        ready, index_count = native.ready, native.index_count
        return 0 < ready < native.capacity and 2 * (ready - index_count) < step_of(index_count)

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

    def __repr__(self) -> str:
        return f"<IndexFile {self.path} with {self.native.index_count - 1} entries>"


def read_header(path: Path) -> IndexHeader:
    """Read a file's header; one that is cut counts as if zeros followed, which is how Java maps it.

    Raises
    ------
    OSError
        The file cannot be read.
    """
    with path.open("rb", buffering=0) as file:
        return decode_header(os.pread(file.fileno(), INDEX_HEADER_SIZE, 0).ljust(40, b"\0"))


def find_geometry(
    path: Path, file_size: int, header: IndexHeader, slot_count: int, capacity: int
) -> tuple[int, int]:
    """Find slots and entries of a file: the configured ones, or those of before one of the two was changed.

    An older file then answers queries as ever and is not written to any more. That the guess is right shows at its first and
    last entry, which hold the offsets that are in the header too.

    Raises
    ------
    StoreFormatError
        The file has another size than configured, and neither guess fits.
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
    raise StoreFormatError(
        f"{path}: file size is {file_size}, expected {expected} for max_hash_slot_num {slot_count} and "
        f"max_index_num {capacity}; set these to what they were, or remove the file and rebuild the index"
    )


def _fits(path: Path, header: IndexHeader, slot_count: int, capacity: int) -> bool:
    if slot_count < 1 or header.index_count > capacity:
        return False
    if header.index_count <= 1:  # nothing in it, so nothing to be read wrongly
        return True
    entries = index_file_size(slot_count, 0)
    with path.open("rb", buffering=0) as file:
        for index, phy_offset in (
            (1, header.begin_phy_offset),
            (header.index_count - 1, header.end_phy_offset),
        ):
            entry = os.pread(file.fileno(), INDEX_ENTRY_SIZE, entries + INDEX_ENTRY_SIZE * index)
            if int.from_bytes(entry[4:12], "big", signed=True) != phy_offset:
                return False
    return True
