"""Queue files made of the entries of queues, each at its queue offset."""

from __future__ import annotations

import os
import struct

from rmqcore._native.format.layout import CQ_FILLER_SIZE, CQ_STORE_UNIT_SIZE
from rmqcore.disk.inside.folder import Folder
from rmqcore.disk.inside.opened import naming, write_all
from rmqcore.disk.paths import file_name
from rmqcore.offline.queues.queues import QueueFiles

FILLER = struct.pack(">qiq", 0, CQ_FILLER_SIZE, 0)
AT_ONCE = 50_000
"""Entries to write in one call."""


class QueueFileWriter:
    """Writes queues into a ``consumequeue`` folder.

    A queue starts with the file that holds the first entry whose message is in the log: a broker looks for a queue's
    start only in its first file. The places before the first entry in that file are filled, as a broker fills them
    (ConsumeQueue#fillPreBlank). A queue without an entry gets the file that ends it, filled up to the end: then a
    broker gives its next message the offset that it would have had.

    Parameters
    ----------
    folder : Folder
    file_size : int
        Bytes of a file, whole entries.
    log_min : int
        CommitLog offset of the log's first byte.

    Attributes
    ----------
    queues, files, entries, idle, missing : int
        Queues, files and entries written; queues without an entry; places between entries that were filled.
    """

    def __init__(self, folder: Folder, file_size: int, log_min: int) -> None:
        self.queues = self.files = self.entries = self.idle = self.missing = 0
        self._folder = folder
        self._file_size = file_size
        self._log_min = log_min
        self._per_file = file_size // CQ_STORE_UNIT_SIZE

    def write(self, queue: QueueFiles) -> None:
        """Write all files of a queue; a queue that never had a message gets no file."""
        end = queue.max_offset()
        if end <= 0:
            return
        first = min(queue.files[0].first_offset, end) if queue.files else end
        self.queues += 1
        self.idle += first == end
        begin = max(first, queue.min_offset(self._log_min, end))
        begin = min(begin, end - 1) // self._per_file * self._per_file
        with self._folder.folder(f"{queue.topic}/{queue.queue_id}", make=True) as folder:
            for start in range(begin, end, self._per_file):
                self._write_file(folder, queue, start, first, min(end, start + self._per_file))

    def _write_file(
        self, folder: Folder, queue: QueueFiles, start: int, first: int, end: int
    ) -> None:
        """Write the file that starts at queue offset `start`: fillers before `first`, entries from there on."""
        name = file_name(start * CQ_STORE_UNIT_SIZE)
        file = folder.open_file(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        self.files += 1
        try:
            with naming(folder.path / name):
                os.ftruncate(file.fileno(), self._file_size)
                for at in range(start, end, AT_ONCE):
                    data = self._entries(queue, at, min(end, at + AT_ONCE), first)
                    write_all(file.fileno(), bytes(data), (at - start) * CQ_STORE_UNIT_SIZE)
        finally:
            file.close()

    def _entries(self, queue: QueueFiles, begin: int, end: int, first: int) -> bytearray:
        data = bytearray(FILLER * (end - begin))
        at = max(begin, first)
        while at < end:
            found = queue.entries(at, end - at)
            place = (at - begin) * CQ_STORE_UNIT_SIZE
            data[place : place + len(found) * CQ_STORE_UNIT_SIZE] = found.tobytes()
            self.entries += len(found)
            at += len(found)
            if at < end:  # a hole in the database
                following = min(end, queue.get_behind_missing(at))
                self.missing += following - at
                at = following
        return data
