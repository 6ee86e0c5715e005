"""Sync of bytes that a killed process wrote but did not sync.

After a recovery the checkpoint names log and queues as on disk up to the end. The bytes of the killed process may only
be in the page cache, and later syncs of the open store cover only its own writes: without this sync a power cut could
take entries that the next recovery would not look for.

Java does not do this: it counts bytes that it has read as flushed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from rmqcore._native.files.mapped_file import MappedFile
from rmqcore.disk.durable import sync_directory
from rmqcore.disk.inside.opened import sync_data
from rmqcore.disk.paths import StorePaths, parse_file_name
from rmqcore.disk.read_range import opened


def sync_log(files: Sequence[MappedFile], begin: int, end: int) -> None:
    """Sync the files with bytes of [begin, end) of the log, and their names."""
    synced = [
        file
        for file in files
        if file.file_from_offset < end and file.file_from_offset + file.file_size > begin
    ]
    for file in synced:
        _sync_file(file.path)
    for folder in {Path(file.path).parent for file in synced}:
        sync_directory(folder)


def sync_queues(paths: StorePaths, queues: Iterable[tuple[str, int]], from_phy_offset: int) -> None:
    """Sync queue files with entries of messages from `from_phy_offset` on, and their names.

    For each queue these are its last file, and the files before it, back to the first that starts with an older
    message.
    """
    folders: set[Path] = set()
    for topic, queue_id in queues:
        folder = paths.queue(topic, queue_id)
        with suppress(FileNotFoundError):
            names = [name for name in os.listdir(folder) if parse_file_name(name) is not None]
            for name in sorted(names, reverse=True):
                if _sync_file(os.path.join(folder, name)) < from_phy_offset:
                    break
            folders |= {folder, folder.parent, folder.parent.parent}
    for folder in folders:
        sync_directory(folder)


def _sync_file(path: str) -> int:
    """Sync a file; return the long at its start, which in a queue is the first entry's CommitLog offset."""
    with opened(path, os.O_RDONLY) as fd:
        sync_data(fd)
        return int.from_bytes(os.pread(fd, 8, 0), "big", signed=True)
