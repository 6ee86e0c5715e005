"""Stale bytes behind the ends of queues: whole files, and the rest of the files in which the queues end.

Java leaves both. When new entries reach them, a later recovery would read these bytes as entries of the queue, so they
are removed here before the first new entry is written. Their messages are in the CommitLog or were cut there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from rmqcore._native.format.layout import CQ_STORE_UNIT_SIZE
from rmqcore.disk.data_extents import used_end
from rmqcore.disk.durable import sync_directory
from rmqcore.disk.inside.files import unlink
from rmqcore.disk.inside.opened import sync_data, write_all
from rmqcore.disk.queue_files import QueueFile
from rmqcore.disk.read_range import opened


class StaleBytes:
    """Notes the stale files and bytes behind the ends of queues, which `clear` removes. Each step can be repeated.

    Thread safety: one thread at a time.
    """

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._bytes: dict[str, tuple[int, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._files or self._bytes)

    def __contains__(self, path: str) -> bool:
        return path in self._files or path in self._bytes

    def __len__(self) -> int:
        return len(self._files) + len(self._bytes)

    def add_files(self, paths: Iterable[str]) -> None:
        """Note whole files; missing files are allowed."""
        for path in paths:
            self._files.add(path)
            self._bytes.pop(path, None)

    def drop(self, paths: Iterable[str]) -> None:
        """Drop the notes about files, whose queue ends elsewhere now."""
        for path in paths:
            self._files.discard(path)
            self._bytes.pop(path, None)

    def add_bytes_behind(self, file: QueueFile, entries: int) -> None:
        """Note the bytes behind the first `entries` of a file, up to the last that is not zero."""
        begin = entries * CQ_STORE_UNIT_SIZE
        end = used_end(file.path, begin, file.size)
        if end > begin:
            self._bytes[file.path] = (begin, end)

    def forget(self) -> None:
        """Drop the notes and leave the files as they are."""
        self._files.clear()
        self._bytes.clear()

    def clear(self) -> None:
        """Delete the files, zero the bytes, and wait until both changes are on disk."""
        for path, (begin, end) in self._bytes.items():
            with opened(path, os.O_WRONLY) as fd:
                write_all(fd, bytes(end - begin), begin)
                sync_data(fd)
        # Delete the newest first: the files that a crash leaves are then always the first of the sequence.
        directories = set()
        for name in sorted(self._files, reverse=True):
            unlink(name, missing_ok=True)
            directories.add(Path(name).parent)
        for directory in directories:
            sync_directory(directory)
        self.forget()
