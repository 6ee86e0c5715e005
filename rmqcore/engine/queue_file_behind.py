"""What lies behind the ends of queues: whole files, and bytes of the files in which they end.

Java leaves both as they are. With new entries before them, what is left there could be met by a later recovery and come back
to life, so here they are taken out before the first new entry is written. What was in them is in the CommitLog or was cut there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from rmqcore._native.cq import CQ_STORE_UNIT_SIZE
from rmqcore.engine.durable import CLOEXEC, sync_data, write_all
from rmqcore.engine.files import sync_directory
from rmqcore.engine.queue_files import QueueFile
from rmqcore.engine.recovery_cut import used_end


class BehindEnds:
    """Notes where to clean up; `clear` does it. Each step can be repeated.

    Thread safety: one thread at a time.
    """

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._bytes: dict[str, tuple[int, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._files or self._bytes)

    def __len__(self) -> int:
        return len(self._files) + len(self._bytes)

    def add_files(self, paths: Iterable[str]) -> None:
        """Whole files; ones that are gone already do not matter."""
        for path in paths:
            self._files.add(path)
            self._bytes.pop(path, None)

    def look_behind(self, file: QueueFile, entries: int) -> None:
        """Look for bytes that are not zero behind the first `entries` of a file."""
        begin = entries * CQ_STORE_UNIT_SIZE
        end = used_end(file.path, begin, file.size)
        if end > begin:
            self._bytes[file.path] = (begin, end)

    def forget(self) -> None:
        """Leave everything as it is."""
        self._files.clear()
        self._bytes.clear()

    def clear(self) -> None:
        """Delete the files, zero the bytes, and wait until that is on disk."""
        for path, (begin, end) in self._bytes.items():
            fd = os.open(path, os.O_WRONLY | CLOEXEC)
            try:
                write_all(fd, bytes(end - begin), begin)
                sync_data(fd)
            finally:
                os.close(fd)
        # The newest first: what a crash leaves always begins the sequence.
        directories = set()
        for name in sorted(self._files, reverse=True):
            Path(name).unlink(missing_ok=True)
            directories.add(Path(name).parent)
        for directory in directories:
            sync_directory(directory)
        self.forget()
