"""Bytes of CommitLog files in a window that moves along with a scan.

Read, not mapped: a bad sector or a file that somebody cuts is an error here, where it would end the process under a mapping.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Self

from rmqcore._native import codec
from rmqcore.engine.durable import CLOEXEC
from rmqcore.errors import CorruptMessageError, StoreFormatError

WINDOW = 2 * 1024 * 1024
HEADER = 8
MAX_TAIL = 2 + 32767 + 2 + 32767
"""Bytes that can follow a body: topic and properties with their lengths."""


class LogWindow:
    """Bytes [start, start + length) of one file of a known size.

    Attributes
    ----------
    buf : memoryview
    start, length : int
        Position in the file of ``buf[0]``, and how many bytes are valid.
    file_size : int

    Raises
    ------
    OSError
        The disk does not give the bytes; names the file and the position.
    StoreFormatError
        The file is shorter than it should be.

    Notes
    -----
    Not safe to share between threads.
    """

    def __init__(self, path: str | os.PathLike[str], file_size: int, *, room: int = WINDOW) -> None:
        self.path = Path(path)
        self.file_size = file_size
        self.start = 0
        self.length = 0
        self._memory = bytearray(min(room or WINDOW, file_size))
        self.buf = memoryview(self._memory)
        self._fd = os.open(path, os.O_RDONLY | CLOEXEC)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)

    def cover(self, pos: int, need: int = HEADER) -> None:
        """Make sure that `need` bytes from `pos` on are there, or all that the file has."""
        have = self.start + self.length - pos
        if self.start <= pos and (have >= need or pos + have >= self.file_size):
            return
        carry = max(0, have) if self.start <= pos else 0
        kept = bytes(self.buf[self.length - carry : self.length])
        if need > len(self._memory):
            self._memory = bytearray(min(need, self.file_size))
            self.buf = memoryview(self._memory)
        self._memory[:carry] = kept
        wanted = min(len(self._memory), self.file_size - pos)
        self.read_into(self.buf[carry:wanted], pos + carry)
        self.start, self.length = pos, wanted

    def read_into(self, view: memoryview, pos: int) -> None:
        """Fill `view` from byte `pos` of the file on."""
        done = 0
        while done < len(view):
            try:
                got = os.preadv(self._fd, [view[done:]], pos + done)
            except OSError as error:
                text = f"{os.strerror(error.errno or 0)} (read at byte {pos + done})"
                raise OSError(error.errno, text, os.fspath(self.path)) from error
            if got == 0:
                raise StoreFormatError(
                    f"{self.path}: file size is {pos + done}, expected {self.file_size}"
                )
            done += got

    def holds(self, pos: int, size: int) -> bool:
        """Bring in a record of `size` bytes that goes past the window; False when there can be no such record."""
        if pos + size > self.file_size:
            return False
        if size > WINDOW and not plausible_record(self.read_into, pos, size):
            return False
        self.cover(pos, size)
        return True

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def plausible_record(read_into: Callable[[memoryview, int], object], pos: int, size: int) -> bool:
    """Whether the lengths of a large record agree, seen from its two ends: a damaged TOTALSIZE must not ask for memory.

    The record is checked as the one it would be without its body.
    """
    head = bytearray(128)
    with memoryview(head) as view:
        read_into(view, pos)
    sys_flag = int.from_bytes(head[36:40], "big")
    body_pos = 88 + 12 * bool(sys_flag & 0x10) + 12 * bool(sys_flag & 0x20)
    body_len = int.from_bytes(head[body_pos - 4 : body_pos], "big", signed=True)
    tail_len = size - body_pos - body_len
    if body_len < 0 or not 0 < tail_len <= MAX_TAIL:
        return False
    tail = bytearray(tail_len)
    with memoryview(tail) as view:
        read_into(view, pos + body_pos + body_len)
    probe = head[:body_pos] + tail
    probe[0:4] = len(probe).to_bytes(4, "big")
    probe[body_pos - 4 : body_pos] = bytes(4)
    try:
        return codec.check(probe, check_crc=False) == len(probe)
    except CorruptMessageError:
        return False
