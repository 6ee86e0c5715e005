"""CommitLog files on another filesystem, read in ranges of 8 MiB, the next of which is fetched ahead."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from rmqcore.offline.log.log_files import LogBytes, LogFile
from rmqcore.offline.remote.filesystem import RemoteFilesystem

BLOCK = 8 * 1024 * 1024
"""Bytes of one request while a file is read onwards: large against the cost of a request, small against a task's memory."""

LEAST = 64 * 1024
"""The least bytes of a request: a header and the record behind it come with the same request."""


@dataclass(frozen=True)
class RemoteLogFile(LogFile):
    """A CommitLog file on another filesystem; small, and sent to tasks by pickle.

    Attributes
    ----------
    filesystem : RemoteFilesystem
    limit : int or None
        Position in the file behind which the reader needs little: nothing is read ahead from there on.
    """

    filesystem: RemoteFilesystem = field(kw_only=True)
    limit: int | None = field(default=None, kw_only=True)

    @property
    def is_local(self) -> bool:
        """False: each read is a request."""
        return False

    @property
    def location(self) -> str:
        """The file's URI."""
        return self.filesystem.uri(str(self.path))

    def open(
        self, unreadable: Callable[[int, int, OSError], None]
    ) -> AbstractContextManager[LogBytes]:
        """Open for positional reads.

        Never calls `unreadable`: a server that does not answer says nothing about the bytes.

        Raises
        ------
        FileNotFoundError
            The file was deleted.
        RemoteStorageError
            The server cannot be reached, or refuses.
        """
        return _open(self, unreadable)

    def exists(self) -> bool:
        """Return True if the file is still there."""
        return self.filesystem.size_of(str(self.path)) is not None

    def read_range(self, pos: int, count: int) -> bytes:
        """Read `count` bytes at `pos`; fewer at the end of the file."""
        data = bytearray(count)
        with self.open(lambda start, end, error: None) as source, memoryview(data) as view:
            got = source.read_into(view, pos)
        return bytes(data[:got])

    def read_until(self, end_offset: int | None) -> LogFile:
        """The same file, read ahead only up to a CommitLog offset."""
        limit = None if end_offset is None else end_offset - self.file_from_offset
        return replace(self, limit=limit)


@contextmanager
def _open(
    file: RemoteLogFile, unreadable: Callable[[int, int, OSError], None]
) -> Iterator[LogBytes]:
    handle = file.filesystem.open(str(file.path))
    # The size that the file has now: it may have been cut since it was listed.
    source = RemoteBytes(file, handle, handle.size(), unreadable)
    try:
        yield source
    finally:
        source.close()
        handle.close()


class RemoteBytes(LogBytes):
    """Positional reads of a remote file.

    A read that goes on where the last read ended is answered from blocks, the next of which is fetched by a second thread.
    Any other read fetches little more than it wants.

    Parameters
    ----------
    file : RemoteLogFile
    handle : pyarrow.NativeFile
    size : int
        Bytes that the file has.
    unreadable : callable
        Not used; see `RemoteLogFile.open`.

    Notes
    -----
    Thread safety: safe to share; readers wait for each other.
    """

    def __init__(
        self,
        file: RemoteLogFile,
        handle: Any,
        size: int,
        unreadable: Callable[[int, int, OSError], None],
    ) -> None:
        super().__init__(
            file, None, unreadable
        )  # no remote filesystem tells where a file has holes
        self._remote = file
        self._handle = handle
        self._size = size
        self._limit = self._size if file.limit is None else min(file.limit, self._size)
        self._lock = threading.Lock()
        self._block = memoryview(b"")
        self._block_pos = 0
        self._read_end = -1
        self._next: Future[bytes] | None = None
        self._next_pos = 0
        self._thread: ThreadPoolExecutor | None = None

    def read_into(self, buf: memoryview, pos: int) -> int:
        """Fill `buf` from byte `pos` of the file on; answer the bytes read, fewer only at its end.

        Raises
        ------
        FileNotFoundError
            The file was deleted meanwhile.
        RemoteStorageError
            The server did not give a range, not even after the filesystem's retries.
        """
        done = 0
        with self._lock:
            while done < len(buf):
                part = self._part(pos + done, len(buf) - done)
                if not part:
                    break
                buf[done : done + len(part)] = part
                done += len(part)
            self._read_end = pos + done
        return done

    def read_plain(self, buf: bytearray, begin: int, end: int, pos: int) -> int:
        """Fill ``buf[begin:end]`` from byte `pos` on."""
        with memoryview(buf) as view:
            return self.read_into(view[begin:end], pos)

    def peek_into(self, buf: memoryview, pos: int) -> int:
        """As `read_into`: there are no bad sectors to tell of."""
        return self.read_into(buf, pos)

    def close(self) -> None:
        """Wait for the request under way."""
        if self._thread is not None:
            self._thread.shutdown(wait=True, cancel_futures=True)

    def _part(self, pos: int, wanted: int) -> memoryview:
        """The first of the bytes at `pos`: from the block at hand, from the block read ahead, or fetched now."""
        at = pos - self._block_pos
        if not 0 <= at < len(self._block):
            self._block = memoryview(self._bring(pos, wanted))
            self._block_pos, at = pos, 0
        return self._block[at : at + wanted]

    def _bring(self, pos: int, wanted: int) -> bytes:
        onwards = pos == self._read_end
        ahead, self._next = self._next, None
        if ahead is not None and self._next_pos == pos:
            data = ahead.result()
        elif onwards:
            data = self._fetch(pos, max(wanted, min(BLOCK, self._limit - pos)))
        else:
            data = self._fetch(pos, max(wanted, LEAST))
        if onwards:
            self._read_ahead(pos + len(data))
        return data

    def _read_ahead(self, pos: int) -> None:
        """Let the second thread fetch the block at `pos`, unless the reader needs nothing there."""
        if pos >= self._limit:
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="rmqcore-remote")
        self._next_pos = pos
        self._next = self._thread.submit(self._fetch, pos, min(BLOCK, self._limit - pos))

    def _fetch(self, pos: int, wanted: int) -> bytes:
        """Fetch one range. It comes back shorter at the end of the file, also when the file was cut meanwhile."""
        while (count := min(wanted, self._size - pos)) > 0:
            try:
                data: bytes = self._handle.read_at(count, pos)
            except OSError as error:
                self._look_why(pos, count, error)
                continue
            if len(data) == count:
                return data
            self._look_why(pos, count, EOFError(f"only {len(data)} of {count} bytes were returned"))
        return b""

    def _look_why(self, pos: int, count: int, error: Exception) -> None:
        """Find out why a range did not come: note the new size if the file is shorter now, else raise an error."""
        size = self._remote.filesystem.size_of(str(self._remote.path))
        if size is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.file.location)
        if size >= pos + count:
            what = f"{self.file.location}: bytes {pos} to {pos + count} cannot be read"
            raise self._remote.filesystem.error(what, error) from None
        self._size = size
