"""How much is read of a log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from rmqcore.offline.log.log_files import LogBytes, LogFile


@dataclass
class Work:
    """Bytes that were asked for of CommitLog files."""

    read_bytes: int = 0


@contextmanager
def counted_reads() -> Iterator[Work]:
    """Count what this process reads of CommitLog files on local disks."""
    work = Work()
    with pytest.MonkeyPatch.context() as patch:
        read, plain, one = LogBytes._read, LogBytes.read_plain, LogFile.read_range

        def noted(self: LogBytes, buf: memoryview, pos: int, *, tell: bool) -> int:
            work.read_bytes += len(buf)
            return read(self, buf, pos, tell=tell)

        def noted_plain(self: LogBytes, buf: bytearray, begin: int, end: int, pos: int) -> int:
            work.read_bytes += end - begin
            return plain(self, buf, begin, end, pos)

        def noted_one(self: LogFile, pos: int, count: int) -> bytes:
            work.read_bytes += count
            return one(self, pos, count)

        patch.setattr(LogBytes, "_read", noted)
        patch.setattr(LogBytes, "read_plain", noted_plain)
        patch.setattr(LogFile, "read_range", noted_one)
        yield work
