"""The body of a record that was not brought in whole, read piece by piece as it is asked for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager

from rmqcore._native.format.codec import MessageView
from rmqcore._native.format.layout import body_pos
from rmqcore.errors import StoreFormatError
from rmqcore.offline.log.log_files import LogBytes, LogFile

PIECE = 1024 * 1024


class StoredBody:
    """Bytes of a file that are sliced as `bytes` are; a piece of them is in memory.

    Parameters
    ----------
    source : LogBytes
        Open as long as this is used.
    begin, length : int
        Where the body begins in the file, and its bytes.

    Notes
    -----
    Not safe to share between threads.
    """

    def __init__(self, source: LogBytes, begin: int, length: int) -> None:
        self._source = source
        self._begin = begin
        self._length = length
        self._piece = b""
        self._at = 0  # where the piece begins in the body

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, wanted: slice) -> bytes:
        first, end, _ = wanted.indices(self._length)
        if end <= first:
            return b""
        if not self._at <= first <= end <= self._at + len(self._piece):
            self._at, self._piece = (
                first,
                self._read(first, min(max(end, first + PIECE), self._length)),
            )
        return self._piece[first - self._at : end - self._at]

    def _read(self, first: int, end: int) -> bytes:
        memory = bytearray(end - first)
        with memoryview(memory) as view:
            got = self._source.peek_into(view, self._begin + first)
        if got < len(memory):
            raise StoreFormatError(
                f"{self._source.file.location}: there is no byte {self._begin + first + got}, expected a body up to "
                f"{self._begin + self._length}: the file was cut while it was read"
            )
        return bytes(memory)


@contextmanager
def stored_body(files: list[LogFile], view: MessageView) -> Iterator[StoredBody]:
    """Open the body of a message of these files.

    Raises
    ------
    FileNotFoundError
        The file is not there any more.
    StoreFormatError
        From a slice: the file was cut.
    """
    at = bisect_right(files, view.phy_offset, key=lambda file: file.file_from_offset) - 1
    if at < 0:
        raise FileNotFoundError(f"no file of the log has phy offset {view.phy_offset}")
    file = files[at]
    with file.open(lambda start, end, error: None) as source:
        begin = view.phy_offset - file.file_from_offset + body_pos(view.sys_flag)
        yield StoredBody(source, begin, view.body_size)
